"""A route that reads a table, and perhaps then its topic, under everything that may happen."""
