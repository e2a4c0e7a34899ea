"""The node agent of one cloud runs the work that job managers hand over, on the cloud's instances.

agent        the loop
assignments  what it is to run, and how the leases stand, as Redis has it
policy       decides what follows for one piece of work (pure)
task_runner  one piece of work that it has, on a thread of its own
reports      what it tells: reports, output, doorbells of the job managers
cleanup      removes old checkpoints
process      the driver that runs commands as processes of this machine
"""
