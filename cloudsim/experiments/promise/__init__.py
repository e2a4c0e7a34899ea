"""The experiments of P2: the promise of a lifetime, its figures and tables."""
