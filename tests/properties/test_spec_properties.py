"""Whatever happens to a job file's text, only job file errors come, and each names a place."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from sluiceway.errors import JobFileError, NotInThisVersionError
from sluiceway.jobfile.blocks.values import parse_duration_ms
from sluiceway.jobfile.loader import parse_job

EXAMPLE = (Path(__file__).parents[2] / "examples" / "orders.yaml").read_bytes()
ENVIRON = {"SLUICEWAY_KAFKA": "k1:9092", "SLUICEWAY_METASTORE": "thrift://hms:9083"}
ROUTES = b"""
routes:
  - {topics: [orders, refunds], table: ods.orders, source: {start: {group: old}}}
  - {topics: "app_(?P<app>.*)", table: "ods.app_{app}"}
  - topics: "ev_.*"
    name: events
    table: {hive: {name: ods.events, location: /x}, columns: [{name: ts, type: int}]}
    source: {start: {offsets: {ev_a: {0: 12}}}}
  - {topics: [t], table: ods.t, source: {start: {timestamp: "2026-11-20T08:00:00Z"}}}
"""
SHARED = EXAMPLE.replace(b", topics: [orders]", b"").replace(b", name: ods.orders", b"")
LINES = (SHARED + ROUTES).splitlines(keepends=True)
TOKENS = {
    name: re.findall(rb"\w+|\s+|[^\w\s]", text)
    for name, text in (("one", EXAMPLE), ("many", SHARED + ROUTES))
}
PLACE = re.compile(r"  job\.yaml:[1-9]\d*:[1-9]\d*: \S.*; \S.*|  and \d+ more")
PIECES = st.sampled_from(
    [b"null", b"[]", b"{}", b"-", b": ", b"\t", b"&a ", b"*a", b"!!int ", b"'", b'"', b"\\U", b"{",
     b"${env:X}", b"${", b"files", b"1", b"true", b"\xff", b"\x00", b"\n---\n", b"%", b"<<", b"|"]
)  # fmt: skip


def check(content: bytes) -> None:
    """Load it; a refusal has to be of the right kind and to name places inside of the file."""
    try:
        parse_job(content, Path("job.yaml"), ENVIRON)
    except (JobFileError, NotInThisVersionError) as error:
        first, *lines = error.message.split("\n")
        assert first.endswith(("problem", "problems"))
        assert lines
        wrong = [line for line in lines if not PLACE.fullmatch(line)]
        assert wrong == []


def test_file_with_routes_is_valid() -> None:
    assert len(parse_job(SHARED + ROUTES, Path("job.yaml"), ENVIRON).spec.routes) == 4


@given(st.data())
def test_any_token_replaced_gives_a_job_or_places(data: st.DataObject) -> None:
    tokens = list(TOKENS[data.draw(st.sampled_from(["one", "many"]))])
    for _ in range(data.draw(st.integers(1, 4))):
        tokens[data.draw(st.integers(0, len(tokens) - 1))] = data.draw(
            PIECES | st.binary(max_size=3) | st.text(max_size=3).map(lambda text: text.encode())
        )
    check(b"".join(tokens))


@given(st.lists(st.sampled_from(LINES), max_size=40))
def test_any_lines_in_any_order_give_a_job_or_places(lines: list[bytes]) -> None:
    check(b"".join(lines))


@given(st.integers(0, len(EXAMPLE)), st.integers(0, len(EXAMPLE)), PIECES)
def test_any_span_cut_out_gives_a_job_or_places(start: int, end: int, piece: bytes) -> None:
    check(EXAMPLE[:start] + piece + EXAMPLE[end:])


@given(st.binary(max_size=200))
def test_any_bytes_give_places(content: bytes) -> None:
    check(content)


@given(st.integers(0, 999_999_999), st.sampled_from(["ms", "s", "m", "h", "d"]))
def test_any_whole_duration_is_read_exactly(count: int, unit: str) -> None:
    factor = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}[unit]
    assert parse_duration_ms(f"{count}{unit}") == count * factor
