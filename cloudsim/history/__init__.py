"""The recorded load of a cloud: what prediction reads and what a simulated cloud plays."""
