"""Event time of a row and the partition it belongs to."""
