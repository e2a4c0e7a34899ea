"""Fleets: so many spot instances that pull work, kept up whatever is evicted (``spotfed fleet``)."""
