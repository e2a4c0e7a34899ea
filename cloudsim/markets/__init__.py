"""Spot markets: recorded prices (``prices``), readers of the formats they come in (``formats``) and what a
reader found (``report``); how long instances live at a bid (``revocation``), what to bid (``bidding``) and
what it costs (``billing``).
"""
