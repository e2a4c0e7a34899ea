"""The ledger: what each cloud promised, and what came of it.

``ledger`` folds the public events of one cloud into accounts, ``lease_counts`` counts its leases beside them,
``reader`` keeps the ledgers of all clouds up to date, and ``report`` sums accounts for the HTTP API.
"""
