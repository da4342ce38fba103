"""Everything behind the commit: what makes something outside equal to the log."""
