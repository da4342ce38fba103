"""One route: START, plan, prepare, commit, and the records that its upkeep asks for."""
