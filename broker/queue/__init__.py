"""Celery: configuration of the application, and how tasks are sent by name."""
