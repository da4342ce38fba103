"""Raw: a payload as it is, in one column."""
