import pytest

from sluiceway.jobfile import document
from sluiceway.jobfile.document import MAX_BYTES, Scalar, read_document
from sluiceway.jobfile.problems import Mark
from tools.hang import ended_if_endless


def first_problem(content: bytes) -> tuple[int, int, str]:
    problem = read_document(content).problems[0]
    return problem.mark.line, problem.mark.column, problem.text


def test_read_document_marks_keys_and_values() -> None:
    root = read_document(b"a: 1\nb:\n  - x\n  - {c: 'y'}\n").root
    assert isinstance(root, document.Mapping)
    items = root.entries[1].value
    assert isinstance(items, document.Sequence)
    assert root.entries[1].mark == Mark(2, 1)
    assert items.items[0] == Scalar("x", "x", Mark(3, 5))
    inner = items.items[1]
    assert isinstance(inner, document.Mapping)
    assert inner.entries[0].mark == Mark(4, 6)
    assert inner.entries[0].value.mark == Mark(4, 9)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1", 1), ("-7", -7), ("1.5", 1.5), ("1e3", 1000.0), ("true", True), ("FALSE", False),
        ("yes", "yes"), ("on", "on"), ("~", None), ("null", None), ("'1'", "1"), ('"true"', "true"),
        ("2026-11-20", "2026-11-20"), ("0x10", "0x10"), ("1_000", "1_000"), ("12:30", "12:30"),
        ("9" * 5000, "9" * 5000), ("<<", "<<"), ("=", "="), (".inf", ".inf"),
    ],
)  # fmt: skip
def test_unquoted_value_means_what_the_core_schema_says(written: str, value: object) -> None:
    root = read_document(f"a: {written}".encode()).root
    assert isinstance(root, document.Mapping)
    found = root.entries[0].value
    assert isinstance(found, Scalar)
    assert (type(found.value), found.value) == (type(value), value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", (1, 1, "expected a job, got an empty file")),
        (b"# only a comment\n", (1, 1, "expected a job, got an empty file")),
        (b"a: 1\na: 2\n", (2, 1, "expected each key once, got `a` again")),
        (b"a: &x 1\nb: *x\n", (1, 4, "expected a value, got an anchor (`&`)")),
        (b"b: *x\n", (1, 4, "expected a value, got an alias (`*`)")),
        (b"a: !!python/object:os.system x\n", (1, 4, "expected plain data, got a tag (`!`)")),
        (b"a: !!str x\n", (1, 4, "expected plain data, got a tag (`!`)")),
        (b"a: 1\n---\nb: 1\n", (2, 1, "expected one document, got another `---`")),
        (b"%YAML 1.1\n---\na: 1\n", (2, 1, "expected no directives, got one")),
        (b"a:\n\tb: 1\n", (2, 1, "expected spaces, got a tab")),
        (b"a: \xff\n", (1, 4, "expected UTF-8, got other bytes")),
        ("a: 1\n".encode("utf-16"), (1, 1, "expected UTF-8, got other bytes")),
        ("ä: é\x00".encode(), (1, 5, "expected printable text, got U+0000")),
        (b'a: "\\u0000"\n', (1, 4, "expected printable text, got control characters")),
        (b'a: "\\ud800"\n', (1, 4, "expected printable text, got control characters")),
        (b"? [a]\n: 1\n", (1, 3, "expected text as a key, got a list or mapping")),
        (b"[" * 51 + b"]" * 51, (1, 51, "expected at most 50 levels, got more")),
        (b"- 1\n" * 30_000, (20_000, 3, "expected at most 20000 values, got more")),
        (b"x" * (MAX_BYTES + 1), (1, 1, "expected at most 1048576 bytes, got more")),
    ],
)
def test_text_that_is_no_plain_document_is_refused(
    content: bytes, expected: tuple[int, int, str]
) -> None:
    assert first_problem(content) == expected


@pytest.mark.parametrize(
    "content",
    [
        b"a: 'x",
        b"a: b: c",
        b"a: @x",
        b"a: {b: ${x}}",
        b'a: "\\UFFFFFFFF"',
        b"%YAML 1.999999\n--- a",
    ],
)
def test_malformed_yaml_is_told_with_a_place(content: bytes) -> None:
    line, column, text = first_problem(content)
    assert (line, column > 0) == (1, True)
    assert text.startswith("expected YAML, got")


def test_byte_order_mark_and_windows_line_ends_are_read() -> None:
    read = read_document(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert read.problems == ()
    assert isinstance(read.root, document.Mapping)
    assert [entry.mark for entry in read.root.entries] == [Mark(1, 1), Mark(2, 1)]


def test_all_refused_things_are_told_not_only_the_first() -> None:
    read = read_document(b"a: &x 1\na: !t 2\nb: *x\n")
    assert [problem.mark for problem in read.problems] == [
        Mark(1, 4),
        Mark(2, 4),
        Mark(2, 1),
        Mark(3, 4),
    ]


BILLION_LAUGHS = b"a0: &a0 [x, x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 12)
)


@pytest.mark.parametrize(
    "content",
    [BILLION_LAUGHS, b"[" * MAX_BYTES, b"{a: " * 200_000, b"- " * 500_000, b"&a " * 300_000],
)
def test_hostile_text_is_refused(content: bytes) -> None:
    with ended_if_endless():
        assert read_document(content).problems


@pytest.mark.parametrize(
    "whole", ["decimal(10,2)", "struct<a:int,b:int>", "map<string,struct<a:decimal(9,1),b:int>>"]
)
def test_type_that_yaml_cuts_at_its_commas_is_told_once_with_quotes(whole: str) -> None:
    found = read_document(f"- {{name: fare, type: {whole}, required: true}}".encode())
    (problem,) = found.problems
    assert problem.text.startswith("expected a type with commas in quotes, got `")
    assert problem.todo == f'quote it: type: "{whole}"'
    assert isinstance(found.root, document.Sequence)
    (column,) = found.root.items
    assert isinstance(column, document.Mapping)
    assert [each.key for each in column.entries] == ["name", "type", "required"]


@pytest.mark.parametrize(
    "rest", ["decimal(10,2", "decimal(10, unit: s", "decimal(10,2): x", "int,b"]
)
def test_what_is_no_cut_type_is_left_as_it_is(rest: str) -> None:
    assert read_document(f"{{name: fare, type: {rest}}}".encode()).problems == ()
