"""Hive Metastore client."""
