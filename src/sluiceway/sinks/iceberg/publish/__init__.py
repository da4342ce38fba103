"""A lake table follows its ledger: files, one request a batch."""
