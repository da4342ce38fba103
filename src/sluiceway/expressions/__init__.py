"""A small, safe, typed expression language for conditions and values of single rows."""
