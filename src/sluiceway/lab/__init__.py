"""Real servers as plain processes, for the demo and the tests."""
