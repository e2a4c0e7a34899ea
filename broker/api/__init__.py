"""The HTTP API under ``/v1``: thin over ``broker.service``. Importing it connects to nothing."""
