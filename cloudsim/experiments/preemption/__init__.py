"""The experiments of paper 004 (López García et al.): which spot instances are evicted."""
