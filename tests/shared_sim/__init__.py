"""Drivers whose routes share the reading of a topic, under everything that may happen."""
