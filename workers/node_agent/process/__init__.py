"""Drivers: what runs the commands of batch jobs on the instances of a cloud.

driver.py     what every driver does
process.py    process groups of this machine
shim.py       between a driver and a command: limits, output, exit status; the standard library alone
isolation.py  what a command may see and touch
confining.py  the system calls behind that; the standard library alone, for the shim
groups.py     the processes of one piece of work, as /proc shows them
usage.py      what they use
cores.py      which cores of a node, and which of this machine, are whose
kept.py       states that were kept of the directories of jobs
copying.py    copies of directories that somebody else may have filled with traps
"""
