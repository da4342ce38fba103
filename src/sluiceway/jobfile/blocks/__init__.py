"""Blocks of the job file: what may be written, and what it means."""
