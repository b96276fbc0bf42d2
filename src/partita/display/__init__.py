"""Heat maps of partitions: their layout, counts by state, and drawings as SVG and HTML.

| file | what it holds |
|---|---|
| `status_snapshot` | all partitions of a workspace in memory, with coordinates (`layout`, `coordinates`) |
| `bins` | counts by mark for a part of a map, few enough to be drawn |
| `svg`, `notebook` | the map as SVG, and the HTML of lakes, tables, plans and status in notebooks |

This room knows the status of partitions, and neither lakes nor pages: both pass in what is to be shown.
"""
