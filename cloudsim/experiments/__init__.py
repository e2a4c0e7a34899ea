"""Experiments: the papers' figures and tables, and our own questions. One file each; pure.

An experiment says which independent cases it is made of, turns each into rows, and draws what came out.
Who runs the cases, in how many processes, and where results are kept is the business of the caller
(``broker.experiments``).
"""
