"""Pictures of partitions: where each lies on a map, how many of each state lie where, and that as SVG and HTML.

```text
snapshot.py   partitions in memory, each with its place on the map (layout.py, placing.py)
bins.py       counts by state for a part of a map (box.py), few enough to be drawn
svg.py        the same as one SVG; notebook.py has what lakes, tables, plans and status show of themselves
```

It knows the status of partitions, and neither lakes nor pages: both come with what is to be shown.
"""
