"""A table that the engine fills as the source of another route: its ledger is the queue."""
