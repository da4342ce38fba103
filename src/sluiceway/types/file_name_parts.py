"""What a job file may put around the names of data files: the data behind checks and parsing."""

import re

PREFIX = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
"""Readers of Hive's family leave out files whose names begin with `_` or `.`."""
SUFFIX = re.compile("[A-Za-z0-9._-]{1,32}")
