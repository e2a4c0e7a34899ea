"""Recorded and synthetic workloads: one table (``trace``), readers of the formats it comes in (``formats``),
what a reader found (``report``), what a trace is like (``statistics``) and workloads made from numbers
(``synthesis``).
"""
