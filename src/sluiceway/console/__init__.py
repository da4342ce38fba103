"""The page of `sluiceway serve`: the answers of the reading commands, in a browser.

It decides nothing, changes nothing and knows no tables. `contract.py` defines its questions, and
the commands of `cli/` answer them. `page/` holds the files for the browser.
"""
