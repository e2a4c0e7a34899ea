"""Placement and eviction: filter → weigh → place, else select victims.

Where is it decided who is evicted? ``eviction.py`` holds the order, ``victims.py`` takes in that order
until the request fits and spares whoever was not needed, ``lineups.py`` names the combinations a cloud can
choose.
"""
