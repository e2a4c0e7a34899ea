"""The experiments of paper 004: scheduling that preempts."""
