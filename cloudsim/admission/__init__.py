"""Admission: the decision whether a request may be promised what it asks for, and offers instead.

``rule`` examines one request, ``population`` sets thresholds of risk, ``products`` and ``pools`` are what a
cloud sells. ``origin_caps`` and ``fair_share`` limit origins, ``counter_offers`` finds other sizes, and
``promise_ledger`` counts what came of promises.
"""
