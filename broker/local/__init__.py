"""A whole federation on this machine.

process_list.py   which processes it is made of; the Procfile in the project's root lists the same ones
supervisor.py     starts processes, restarts those that die, stops all of them
federation.py     queue, processes, API key and addresses put together, as a context manager
queue.py          the process of the queue, and the first API key
state_files.py    files in which addresses and keys are left for clients on this machine
trace_driver.py   sends the requests of a federation file, in trace time
child_process.py  commands that end with their parent
__main__.py       processes of the Procfile: ``python -m broker.local queue`` and ``... attach -m MODULE``
"""
