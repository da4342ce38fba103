"""Partition values of all kinds against Spark's own escaping, and through real tables."""
