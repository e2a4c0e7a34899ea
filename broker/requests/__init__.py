"""The way of a request from the API call to its lease."""
