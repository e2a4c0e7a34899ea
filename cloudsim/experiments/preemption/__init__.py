"""The experiments of P5 (López García et al.): which spot instances are evicted."""
