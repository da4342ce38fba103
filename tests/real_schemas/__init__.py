"""Schemas as people publish them: whether they are read, and whether as Google's reader does."""
