"""Commands about recorded traces: ``spotfed trace``.

group.py lists the commands; inspect.py, convert.py, plot.py and record.py hold them; file_report.py collects
what ``inspect`` reports of a file; options.py holds what they share.
"""
