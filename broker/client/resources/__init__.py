"""Holds the calls of the client, one class for each resource of the HTTP API."""
