"""Batch jobs on capacity that may be revoked: what a job is (``job``), how it survives (``mechanisms``,
``replicas``, ``backups``), where it is best run (``planner``), and what comes of it (``simulation``).

Pure: prices, times and generators are arguments. Source: JOBS.md, after paper 003 (SpotOn).
"""
