"""Experiments: the figures and tables of the papers, and our own questions.

An experiment lists its independent cases, turns each into rows, judges the rows and draws them. ``promise``
reproduces papers P1 and P2, ``preemption`` P5, ``volatile`` P3 and ``jobs`` P4; ``ours``
holds questions that no paper asks. ``broker.experiments`` runs the cases in processes and keeps the results.
"""
