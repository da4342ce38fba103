"""Checks of a finished table against its ledger, its files and its broker."""
