"""The node agent of one cloud: runs the work that job managers hand over on the cloud's instances.

orders.py    what it is to run, and what became of the leases, as Redis has it
deciding.py  what follows for one piece of work (pure)
held.py      one piece of work that it has: steps that take a while, and how it stands
reports.py   what it tells: reports, output, doorbells of the job managers
tenure.py    being the only agent of the cloud
listening.py hears that there is something to do
loop.py      all of it, again and again
"""
