"""The HTTP API under ``/v1``: thin over ``broker.requests.submit``. Importing it connects to nothing."""
