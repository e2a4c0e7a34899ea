"""Services that the routes call: each answers calls about one resource, without knowing of HTTP."""
