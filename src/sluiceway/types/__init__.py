"""The type system between all formats and tables."""
