"""The SwitchV2P paper's evaluation, repeated with `enroute fabric sweep`.

`experiment` reads the data files and runs what is missing, `tables` picks numbers, `figures` draws
them, `report` writes the page.
"""
