"""Samples of the time until eviction: the checked doors to the kernels."""
