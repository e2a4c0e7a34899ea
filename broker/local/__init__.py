"""A whole federation on this machine.

layout.py      which processes it is made of; the Procfile in the project's root lists the same ones
supervisor.py  starts processes, starts again what died, stops all of them
federation.py  queue, processes, API key and addresses put together, as a context manager
queue.py       the queue's own process, and where the others find it
__main__.py    processes of the Procfile: ``python -m broker.local queue`` and ``... attach -m MODULE``
"""
