"""The page to look at the lake: `partita ui`, the JSON behind it, and the pictures that notebooks show.

```text
watch.py      keeps a snapshot of the board fresh, in a thread of its own
snapshot.py   the board in memory, each partition with its place on the map (layout.py)
bins.py       counts by state for the part of a map that is looked at; picture.py draws them as SVG
api.py        the questions as JSON; openapi.py describes them; pages.py shows the same as HTML
gate.py       who may ask: token, host, origin
```
"""
