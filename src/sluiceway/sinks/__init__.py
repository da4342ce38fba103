"""Sinks: where committed rows become readable."""
