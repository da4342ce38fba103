"""What commands print: texts, tables, screens, documents."""
