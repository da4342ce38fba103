"""Change logs of databases: JSON envelopes around rows before and after."""
