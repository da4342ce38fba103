"""Logs, steps and progress."""
