"""Fleets: a number of spot instances that is kept up whatever is evicted (``spotfed fleet``).

planner.py     decides the next step from what the fleet has; pure
controller.py  carries the steps out, round by round
snapshot.py    reads the fleet's leases and the clouds' clocks and prices from the API
state_file.py  what outlives the process: unanswered requests and known leases
commands.py    runs the user's commands for each instance
events.py      what is reported meanwhile, and the totals
"""
