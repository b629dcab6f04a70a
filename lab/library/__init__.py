"""Code shared by the papers' folders; imports none of them.

| module | content |
|---|---|
| `cluster` | running `enroute` on the workers of a Dask cluster |
| `command` | command line of a paper whose experiments are data files |
| `page` | HTML report: style, table, picture |
| `processes` | starting and stopping programs |
| `repository` | paths of programs and results, commit that results belong to |
| `style` | style of the figures |
"""
