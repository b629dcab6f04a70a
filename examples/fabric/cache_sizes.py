# %% [markdown]
# # A sweep over cache sizes
#
# Hit rate and flow completion time of three schemes, on all cores, as a table of pandas and of
# Arrow. Needs the wheel of `enroute_fabric`, pandas and pyarrow.

# %%
import enroute_fabric as ef
import pyarrow.parquet

EXPERIMENT = {
    "schemes": ["nocache", "gwcache", "switchv2p"],
    "traces": ["hadoop"],
    "share": 0.02,
    "caches": ["1%", "10%", "50%"],
    "seeds": [1, 2],
}

# %% [markdown]
# Finished runs are in `cache_sizes.results`: interrupt the cell and run it again to continue. The
# files are those of `enroute fabric sweep`.

# %%
results = ef.sweep(EXPERIMENT, output="cache_sizes.results")
print(f"{len(results)} runs, {results.now} of them now")

# %% [markdown]
# ## Means over the seeds

# %%
runs = results.to_pandas()
by_size = runs.pivot_table(index="cache_entries", columns="scheme", values="hit_rate")
print(by_size.round(3))

# %%
completion_us = runs.groupby(["scheme", "cache_entries"])["fct_us"].mean()
gain = completion_us["nocache"].iloc[0] / completion_us
print(gain.round(2).rename("flow completion time, times shorter than nocache"))

# %% [markdown]
# ## As Arrow, with the bytes of each pod, in a file

# %%
table = results.to_arrow()
pyarrow.parquet.write_table(table, "cache_sizes.parquet")
print(pyarrow.parquet.read_table("cache_sizes.parquet", columns=["scheme", "seed", "pod_bytes"]).schema)
