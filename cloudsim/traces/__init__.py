"""Recorded and synthetic workloads.

trace        one table for every workload: when instances started and stopped, on how many cores
formats      readers and writers of the files that traces come in
report       what a reader found in a file, and the limit of damage
quality      checks of a recorded trace, as ``spotfed trace inspect`` shows them
statistics   sizes, load over time, lifetimes, drop-outs and overcommit of a trace
synthesis    traces made from numbers, among them stand-ins for the production traces of P1 and P2
"""
