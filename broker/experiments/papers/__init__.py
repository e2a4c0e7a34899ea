"""The printed numbers of the five papers beside ours: a list for each paper, judged by rows of experiments.

    number.py       one printed number: which values it stands for, and how ours is read off rows
    spot_sla.py     P1 and P2       volatile.py      P3
    batch_jobs.py   P4              preemptible.py   P5
    comparison.py   all of them beside rows
    page.py         the comparison as one HTML file, and as a part of docs/papers.md

The lists stand here and not in cloudsim, whose source is part of the key of a finished case: a corrected
wording must not throw away half an hour of computing.
"""

from broker.experiments.papers.comparison import experiments
from broker.experiments.papers.number import MissingRowError
from broker.experiments.papers.page import PAGE, marked_parts, write_comparison

__all__ = ["PAGE", "MissingRowError", "experiments", "marked_parts", "write_comparison"]
