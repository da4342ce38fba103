"""Commands that are a driver for a while."""
