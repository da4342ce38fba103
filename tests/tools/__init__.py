"""Tools that tests and the demo run: readers, fixtures, records."""
