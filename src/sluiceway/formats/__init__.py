"""Formats: bytes of a queue record -> typed Arrow columns."""
