"""Compiled replays of a cloud's history (numba). Each must equal its plain-Python reference."""
