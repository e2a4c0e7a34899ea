"""Federations: clouds with their own load, and the workloads they offer to each other (P2 §3).

file            reads a federation file; docs/reference/federation-file.md describes the format
file_schema     pydantic models of its tables
traces          traces that a federation file names: files, price histories, preemptions, synthetic ones
model           a federation in memory
replay          replay of a federation in one process
direct_cloud    a cloud whose users call it directly, for replays
ranking         order in which the clouds that quoted are asked
report          what a replay or a live federation did, counted
"""
