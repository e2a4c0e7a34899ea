"""Redis: how processes talk to it, whatever they keep there.

``outages`` repeats work while Redis is away; ``streams`` reads streams, alone or shared with other processes.
"""
