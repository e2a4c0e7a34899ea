"""Celery processes of spotfed: the owner of one cloud, Monte-Carlo sampling, the job manager and the drivers.

A task is a door: it decodes its message, calls one function and reports. The broker sends tasks by name and
never imports this package; docs/reference/words.md has the glossary.
"""
