"""Commands; they print and never decide."""
