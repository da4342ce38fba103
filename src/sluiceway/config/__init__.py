"""Job file -> frozen choices of a route."""
