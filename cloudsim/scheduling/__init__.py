"""Placement and eviction: filter → weigh → place, else select victims.

Where is it decided who is evicted? ``eviction.py`` holds the order, ``victims.py`` takes in that order
until the request fits and spares whoever was not needed, ``lineups.py`` names the combinations a cloud can
choose.

The preemption paper's further ideas (004 §6): consolidation is a line-up, by placement; running instances
are never migrated. Price-driven termination is refused: a promise is sold here, not a bid, and prices evict
where no on-demand request needs the cores, which no replay of the history can foresee. Proactive termination
is refused: it breaks promises for requests that may never come, and evicting when they do is soon enough
(``grace_s`` aside). HPC and HTC backfilling (§5) is what no-guarantee spot instances and a cloud's own load
already are.
"""
