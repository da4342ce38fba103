"""Benchmarks: programs that measure, never tests."""
