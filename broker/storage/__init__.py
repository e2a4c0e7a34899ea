"""Talks to Redis, whatever is kept there, and keeps files to itself.

``connections`` opens clients and ``embedded_server`` runs a server, whose ``append_only_file`` can be
repaired; ``keys`` names all keys, ``scripts`` reads the Lua scripts in ``lua``; ``outages`` repeats work
while Redis is away, ``streams`` reads streams, alone or shared with other processes; ``tls`` protects
connections, ``lean_client`` makes them fast. ``private_files`` writes files for their user alone.
"""
