"""The journal of a cloud: ``journal`` is how its owner writes and reads it.

``entries`` and ``hash_chain`` are its entries, ``inbox`` and ``dead_letters`` the commands beside it,
``archive`` its files, ``verify`` checks that all of it is whole, and ``trace_export`` turns it into a trace.
"""
