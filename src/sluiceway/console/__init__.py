"""The page that `sluiceway serve` shows: what the reading commands say, in a browser.

It decides nothing, changes nothing and knows nothing of tables: `contract.py` says what it asks,
and the commands of `cli/` answer. `page/` is what a browser gets.
"""
