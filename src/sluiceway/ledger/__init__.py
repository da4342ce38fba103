"""The ledger: write-once records beside the table, the only truth about what is committed."""
