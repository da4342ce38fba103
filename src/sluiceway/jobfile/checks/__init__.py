"""Checks that need more than one block of the job file."""
