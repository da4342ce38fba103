"""Everything after the commit: makes the systems outside equal to the log."""
