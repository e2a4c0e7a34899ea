"""Placement and eviction: filter → weigh → place, else select victims.

``inventory`` and ``spot_columns`` hold the nodes and what runs on them. ``pipeline`` plans where a request
goes, with ``filters``, ``weighers`` and the test of room in ``fit``.
``victims`` decides who is evicted, by the orders and costs of ``eviction``; ``victims_kernel`` compares all
nodes in one compiled call, and ``cover`` and ``cover_kernel`` find the cheapest set of victims of a node.
``lineups`` names the combinations that a cloud can choose.

The further ideas of the preemption paper (P5 §6): consolidation is a line-up, by placement; running
instances are never migrated. Price-driven termination is rejected: a promise is sold here, not a bid, and
prices evict where no on-demand request needs the cores, which no replay of the history can foresee. Proactive
termination is rejected: it breaks promises for requests that may never come, and evicting when they do is
soon enough (``grace_s`` aside). HPC and HTC backfilling (§5) is covered by spot instances without a guarantee
beside a cloud's own load.
"""
