"""The job file: its blocks, what is checked, what becomes of it."""
