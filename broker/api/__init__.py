"""The HTTP API under ``/v1``: thin over ``broker.submission.service``. Importing it connects to nothing."""
