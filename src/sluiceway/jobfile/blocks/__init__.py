"""Blocks of the job file: their keys and their meaning."""
