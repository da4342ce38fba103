"""Sources: ordered logs that are read by offset."""
