"""Time until eviction, with a promise: Monte-Carlo replay of a cloud's own history (PREDICTION.md).

rule.py      the choices of a cloud: censoring, rank, confidence, horizon
births.py    when virtual instances are injected: a grid keyed by (seed, size, number)
chunks.py    the recorded history cut into chunks that the kernel runs through
kernel.py    the replay itself (numba; imported only when something is replayed)
naive.py     the same replay in plain Python, the kernel's slow twin
samples.py   what came of the virtual instances: values that travel and merge
sampler.py   the checked door to the replays: one size of one cloud, fed as its history grows
uniform.py   the same door where all is of one size: every birth, exactly
uniform_kernel.py   how that is done (numba)
lineup_sampler.py   the door to replays under any line-up, with further resources, labels and groups
lineup_replays.py   what these are made of, and line-ups as codes
lineup_kernel.py, lineup_victims.py, lineup_cover.py   how they are done (numba)
lineup_twin.py      their slow twin: the scheduler itself
pool_sampler.py     the same door for the pools of lifo-pools: when own users reach into a band
predictor.py one of the doors for each flavour; all flavours of a cloud in one process
lifetimes.py Kaplan-Meier estimate of the lifetime from samples of which some still run, and its bounds
tables.py    quantile tables: risk and lifetime per size and number of free slots
"""
