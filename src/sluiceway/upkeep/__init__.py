"""What asks a route for records: compaction, expiry, lanes, counts, garbage, packing."""
