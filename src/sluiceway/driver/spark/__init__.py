"""Spark's side of the driver: its session, its jobs and tasks, slots and tokens."""
