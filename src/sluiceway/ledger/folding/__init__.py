"""The state of a ledger: records applied in their order."""
