# %% [markdown]
# # One run
#
# Which switches resolve addresses in SwitchV2P, and what a virtual machine that moves costs.
# Needs the wheel of `enroute_fabric` (`make release`, or `maturin develop --release` in
# crates/fabric-python). Cells begin with `# %%`, for Jupyter (jupytext), VS Code and Spyder.

# %%
import enroute_fabric as ef

# A fiftieth of the paper's Hadoop workload, drawn from a seed.
WORKLOAD = {"trace": "hadoop", "share": 0.02, "seed": 7}

# %% [markdown]
# ## Gateways alone, and with caches for half of all addresses

# %%
nocache = ef.run(**WORKLOAD, scheme="nocache")
switchv2p = ef.run(**WORKLOAD, scheme="switchv2p", cache="50%")

print(f"{switchv2p.packets_sent} packets, {switchv2p.hit_rate:.1%} resolved by switches")
for name in ("tor", "spine", "core"):
    layer = getattr(switchv2p, name)
    print(f"{name:>6}: {layer['hits']} hits, {layer['first_hits']} of first packets")
print(f"flow completion time: {nocache.fct_us:.1f} us with gateways, {switchv2p.fct_us:.1f} us with caches")
print(f"first packet: {nocache.first_packet_latency_us:.1f} us, {switchv2p.first_packet_latency_us:.1f} us")

# %% [markdown]
# ## A virtual machine that moves while 64 senders write to it (Table 4 of the paper)

# %%
for scheme in ("ondemand", "switchv2p-no-invalidations", "switchv2p"):
    moved = ef.run("incast", scheme=scheme, cache=960, migrations=["5200:68@500us"])
    print(f"{scheme}: {moved.misdelivered} packets misdelivered, the last at {moved.last_misdelivered_us:.0f} us")

# %% [markdown]
# ## What is wrong is said with its place

# %%
try:
    ef.run(**WORKLOAD, cache="half")
except ef.InputError as error:
    print(f"{error.place}: expected {error.expected}, found {error.found}")
