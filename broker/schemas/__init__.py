"""Bodies of the HTTP API that are not messages of the contract; the server and the client share them.

Clients use few of them: the validator of each is built when it is first needed (``defer_build``).
"""
