"""A small, safe, typed expression language for choices about single rows."""
