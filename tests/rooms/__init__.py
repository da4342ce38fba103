"""Proof of jobs in several rooms: rooms are network namespaces that are killed and cut."""
