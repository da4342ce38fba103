"""Hive tables: definition, partition folders, staged Parquet files."""
