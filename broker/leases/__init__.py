"""Reads leases: ``store`` for the broker, ``lease_reader`` for the agents of one cloud.

``pages`` walks through all of them, ``instances`` reads their instances.
"""
