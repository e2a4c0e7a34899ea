"""The process driver runs the commands of batch jobs as processes of this machine.

driver_protocol  the interface of drivers
process_driver   runs work as process groups
work_dir         the files of one piece of work
shim             between the driver and a command: limits, output, exit status; standard library only
task_files       the files through which driver and shim talk
isolation        decides what a command may see and touch
sandbox          the system calls behind that; standard library only, for the shim
process_tree     the processes of one piece of work, from /proc
usage_meter      what they use
cores            which cores of a node, and of this machine, are whose
checkpoints      saved states of jobs' directories
safe_copy        walks, copies and removes directories that may hold traps
trash            where what jobs left is put aside and removed
"""
