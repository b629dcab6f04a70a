"""The papers' experiments, repeated: data files, runs, tables, figures and a report.

Imports nothing of enroute's: runs its program, reads its output. A folder for each paper, named by
the paper as its folder of `experiments/`, its folder of `results/<commit>/` and its target `make
lab-PAPER` are: `vnf_cache`, `netcache`, `switchv2p`, `annabelladb`, `dredbox`. Start reading at a
paper's `__main__.py`; what they share stands in `library`, which imports no paper. `python -m lab`
writes one page for all: what each paper says (`experiments/PAPER/claims.toml`) beside our values,
and a verdict for each table and figure.
"""
