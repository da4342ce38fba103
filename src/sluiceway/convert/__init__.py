"""Values -> Arrow columns, exactly, for all formats."""
