"""Readiness against brute force: generated histories, and a judge that keeps every row."""
