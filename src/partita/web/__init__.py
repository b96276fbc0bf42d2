"""The web page of a lake, which `partita ui` serves, and its JSON API.

```text
server.py              listens on a socket and runs the application of app.py
access_control.py      checks token, host and origin of every request
snapshot_refresh.py    keeps a status snapshot of the lake in memory (partita.display has it, and the bins of heat maps)
lake_queries.py        queries the lake itself for what a snapshot lacks
api.py, openapi.py     the operations of the API, and their description
pages.py, templates/   the HTML pages, which show the same documents as the API
plan_preview.py        makes plans and keeps them until they run
server_runs.py         runs plans, if the server may; run_stream.py streams the events of a run
```
"""

DEFAULT_PORT = 8765
"""The port that `partita ui` listens on."""
