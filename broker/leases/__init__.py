"""Leases: ``store`` reads them, ``pages`` walks through all of them, ``instances`` reads their instances."""
