"""Deterministic simulation of the driver: see docs/simulation.md."""
