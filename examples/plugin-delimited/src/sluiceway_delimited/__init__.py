"""Delimited text as a format of Sluiceway."""
