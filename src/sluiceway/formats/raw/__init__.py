"""Raw: an unchanged payload, in one column."""
