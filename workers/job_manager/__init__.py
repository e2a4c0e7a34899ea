"""The job manager: plans batch jobs on the federation's spot capacity, and brings each to its one end.

``planning`` and ``deciding`` are pure: what was seen goes in, entries of the job's journal come out.
``doing`` carries out what a job's journal asks for, as often as it must; ``manager`` is the process.
"""
