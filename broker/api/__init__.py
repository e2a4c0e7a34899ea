"""Serves the HTTP API under ``/v1``, a thin layer over services. Importing it connects to nothing."""
