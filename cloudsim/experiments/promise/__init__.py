"""The experiments of paper 001: the promise of a lifetime, its figures and tables."""
