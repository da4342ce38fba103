"""Integration tests talk to the servers of the session's lab; see `tools/lab_fixture.py`."""
