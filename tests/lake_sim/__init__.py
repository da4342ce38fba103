"""Publishing to a lake table on a simulated catalog: one number is one history."""
