"""Conformance suites: what every source, format, sink and storage must do, as pytest classes.

Subclass the suite in a test module, name the class `Test...`, and create the object under test
there; see docs/contributors/plugins.md.
Needs pytest (`sluiceway[conformance]`); nothing else imports this.
"""

import pytest

# So that a failed assertion shows its values, as in a test module.
for _suite in ("compaction", "formats", "reading", "sinks", "sources", "storage"):
    pytest.register_assert_rewrite(f"sluiceway.conformance.{_suite}")
