"""Talks to Redis, whatever is kept there.

``connections`` opens clients and ``embedded_server`` runs a server; ``keys`` names all keys, ``scripts``
reads the Lua scripts in ``lua``; ``outages`` repeats work while Redis is away, ``streams`` reads streams,
alone or shared with other processes; ``tls`` protects connections, ``hiredis_packer`` makes them fast.
"""
