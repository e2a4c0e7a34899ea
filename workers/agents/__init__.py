"""Code that the node agent and the cloud agent share.

``process`` has the command line, the signals and the start of an agent's process, ``agent_lock`` makes it the
only agent of its cloud, and ``wakeup`` wakes its loop when something happens.
"""
