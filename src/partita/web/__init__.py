"""The page to look at the lake: `partita ui`, and the JSON behind it.

```text
watch.py      keeps a snapshot of the board fresh, in a thread of its own (partita.picture has it, and the map's bins)
asking.py     asks the lake itself, on relations that stay open
api.py        the questions as JSON; openapi.py describes them; pages.py shows the same as HTML
plans.py      plans that are looked at; runs.py runs them, where the server may; stream.py tells of a run as it goes
gate.py       who may ask: token, host, origin
```
"""
