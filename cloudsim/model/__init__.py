"""Values that every other package of cloudsim speaks in: requests, instances, changes, refusals, nodes."""
