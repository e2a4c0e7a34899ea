"""Runs experiments of ``cloudsim.experiments``: cases in processes, results in files, one report of all."""
