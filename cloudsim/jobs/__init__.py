"""Batch jobs on capacity that may be revoked, after P4 (SpotOn; docs/design/batch-jobs.md).

job              a job, and what saving, restoring and starting take
mechanisms       ways to survive revocations on one instance: on-demand, migration, checkpoints, backup
mechanism_names  their names, and words for people
replicas         the way with several instances
attempts         values that pass between planner, mechanisms and simulation
planner          where a job is best run and how, and the policies to compare with
policy_names     names of the policies that a job may be given, and words for people
deadlines        policies for jobs with a deadline: greedy, uniform progress, and ours
world            price histories, on-demand price and billing that a simulated job meets
simulation       a job played against a world to its end
backup_servers   how many shared servers back up a set of jobs

Everything is pure: prices, times and generators are arguments.
"""
