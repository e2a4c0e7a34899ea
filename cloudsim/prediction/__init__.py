"""Predict the time until eviction by Monte-Carlo replay of a cloud's own history (P1 §III, P2 §2.3).

rule             what a cloud may choose: censoring, rank of the virtual instance, confidence, horizon
births           when virtual instances are injected: a jittered grid keyed by (seed, size, number)
history_chunks   the recorded history, checked and cut into chunks that the kernels run through
samples          results of virtual instances: values that travel between processes and merge
samplers         replays of one flavour, fed as its history grows
kernels          the compiled replays behind the samplers (numba; imported only when something is replayed)
predictor        chooses the sampler of each flavour, and makes all tables of a cloud in one process
lifetimes        Kaplan-Meier estimate of lifetimes from samples of which some still run, and its bounds
ages             forecast of free slots from the ages of running on-demand instances
tables           quantile tables: risk and lifetime by size and number of free slots

P1 (co-scheduling) and P2 (federation) are the papers; docs/design/prediction.md settles what they leave open.
"""
