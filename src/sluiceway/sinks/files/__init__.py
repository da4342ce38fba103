"""Data files of tables: one module a file format, all behind one contract."""
