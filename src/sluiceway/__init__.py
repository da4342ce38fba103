"""Sluiceway: message queues into Hive and lake tables, exactly once, on Spark."""

__version__ = "0.1.0"
