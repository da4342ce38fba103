"""The ledger: write-once records next to the table, the only truth about what is committed."""
