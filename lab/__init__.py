"""The papers' experiments, repeated: data files, a runner, tables, figures and a report.

Imports nothing of enroute's: runs its program, reads its output. Start reading at `__main__.py`;
what is measured stands in `experiments/`.
"""
