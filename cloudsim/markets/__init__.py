"""Spot markets: recorded prices, lifetimes at a bid, bids and bills.

prices           price history of one market, a step function of time
formats          readers of the files that price histories come in
gaps             rule by which silence of the recording is a gap
on_demand        lists of on-demand prices
report           what a reader found in price files
quality          checks of recorded prices, as ``spotfed trace inspect`` shows them
recognition      what a file holds: a trace, prices or a list of on-demand prices
revocation       how long an instance runs at a bid (P4 §4.2; docs/design/batch-jobs.md "Model")
bidding          bids of each mechanism (P4 §4.3)
billing          cost of an instance, by the second or by the hour
preempted_load   own load of a public cloud, from its prices or preemptions
"""
