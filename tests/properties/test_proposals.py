"""What `infer` proposes for objects of any kind reads them, or says beside a column what not."""

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sluiceway.cli.views.proposal_trial import tried
from sluiceway.cli.views.proposed_columns import contents_block
from sluiceway.formats.recognise import TopicContents

TEXTS = ["", "x", "12", "2026-11-20", "2026-11-20T08:00:00Z", "2026-11-20 08:00:00", "0000-00-00"]
KEYS = ["id", "a", "A", "a.b", "a_b", "on", "x y", "'q'", '"', "\\", "$x", "[0]", "é", "a\nb", ""]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.sampled_from([1_795_161_600_000, 1_795_161_600])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(TEXTS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
    ),
    max_leaves=6,
)
ROWS = st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4), min_size=1, max_size=4)


@settings(max_examples=10, deadline=None)
@given(ROWS, st.integers(1, 30))
@example([{"id": {"a\nb": None, "id": False}}], 1)
@example([{"id": {"a\u2028b": None, "a\rb": 1, "id": False}}], 1)
def test_proposal_is_valid_and_names_each_column_that_would_make_a_record_dirty(
    rows: list[dict[str, Any]], usual: int
) -> None:
    contents = TopicContents()
    for row in [rows[0]] * usual + rows[1:]:
        contents.add(json.dumps(row).encode())
    lines = contents_block(contents, ["t"]).splitlines()
    for name in tried("json: {}", lines, contents.kept):
        shown = [line for line in lines if line.replace('"', "").startswith(f"  - {{name: {name},")]
        assert name == "" or all(" dirty" in line for line in shown)
        assert name == "" or shown
