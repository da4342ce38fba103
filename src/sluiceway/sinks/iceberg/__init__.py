"""Iceberg tables: each is a projection of the route's log, published by single requests."""
