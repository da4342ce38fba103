"""Upkeep of lake tables: merging, expiry, orphans."""
