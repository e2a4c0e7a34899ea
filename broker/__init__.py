"""The federation: contract, routing, event journal, HTTP API, client and command line of spotfed.

``docs/reference/words.md`` explains the words, each of which has one meaning. A name that holds a quantity
carries its unit (``lifetime_s``, ``price_usd_per_hour``).
"""
