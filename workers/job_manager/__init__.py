"""The job manager plans batch jobs on the federation's spot capacity, and brings each to its one end.

``state_machine`` decides what happens next to a job, with the help of ``planner``, ``running_job`` and
``attempt_outcome``. These are pure: an ``observation`` goes in, entries of the job's journal come out.
``observer`` and ``market_client`` make the observation, ``effects`` carries out what the journal asks for as
often as needed, and ``manager`` is the process around them.
"""
