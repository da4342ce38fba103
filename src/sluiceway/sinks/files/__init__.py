"""Data files of tables: one module a file format, all with one contract."""
