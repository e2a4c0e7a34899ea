"""Helpers that tests of more than one folder use.

wait.py      waits until something is true
kernels.py   compiles the kernels before test processes start
"""
