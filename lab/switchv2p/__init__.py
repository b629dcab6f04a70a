"""The SwitchV2P paper's evaluation, repeated with `enroute fabric sweep`.

`experiment` reads the data files and executes missing runs, `apart` on a Dask cluster, `tables`
selects values, `figures` draws them, `report` writes the page.
"""
