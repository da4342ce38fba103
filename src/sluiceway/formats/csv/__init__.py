"""Delimited text: one line of fields a payload."""
