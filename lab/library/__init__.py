"""Shared parts of the papers' folders. Imports none of them.

| module | what it is |
|---|---|
| `command` | the command of a paper whose experiments are data files |
| `page` | parts of a report: style, table, picture |
| `processes` | programs the lab starts and ends |
| `repository` | where programs and results are, and which revision this is |
| `style` | how figures look |
"""
