"""HDFS by its own protocol, without Java: a rename without overwrite is the exclusive step."""
