"""Deterministic simulation of the driver: see docs/contributors/simulation.md."""
