"""Which task reads what: splits, pieces, spread, rates, pace."""
