"""`columns: from_registry` in a job file, as far as it is checked without a server."""

import pytest

from unit.jobfile.test_spec_loader import load, problems_of, replaced

LISTED = "[{name: id, type: bigint}, {name: app, type: string}]"


def job(
    fmt: str = "{avro: {registry: reg}}",
    topics: str = "[orders]",
    more: str = "",
    columns: str = "from_registry",
) -> str:
    text = replaced(f"columns: {LISTED}", f"columns: {columns}{more}")
    text = text.replace("{json: {}}", fmt).replace("[a, b]", topics)
    return text.replace("source:", '  reg: {schema_registry: {url: "http://reg:8081"}}\nsource:', 1)


@pytest.mark.parametrize("kind", ["avro", "protobuf", "json"])
def test_columns_of_a_registry_leave_names_to_its_subject(kind: str) -> None:
    table = load(job(f"{{{kind}: {{registry: reg}}}}")).table
    assert table.columns is None
    assert table.subject is not None
    assert (table.subject.name, table.subject.version, table.subject.message) == (None, None, None)


def test_subject_has_a_name_a_version_and_a_message() -> None:
    more = "\n  subject: {name: orders, version: 3, message: shop.Order}"
    subject = load(job("{protobuf: {registry: reg}}", more=more)).table.subject
    assert subject is not None
    assert (subject.name, subject.version, subject.message) == ("orders", 3, "shop.Order")
    newest = load(job(more="\n  subject: {version: latest}")).table.subject
    assert newest is not None
    assert newest.version is None


def test_listed_columns_and_those_of_the_table_have_no_subject() -> None:
    assert load(job(columns=LISTED)).table.subject is None
    assert load(job(columns="from_table")).table.subject is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (job("{json: {}}"), "11:12: expected a format with a `registry` for `from_registry`"),
        (job("{raw: {}}"), "11:12: expected a format with a `registry` for `from_registry`"),
        (
            job('{avro: {schema: "int"}}'),
            "11:12: expected a format with a `registry` for `from_registry`",
        ),
        (job(topics="[a, b]"), "11:12: expected the subject's name"),
        (job(topics='"a.*"'), "11:12: expected the subject's name"),
        (job(more="\n  subject: {version: 0}"), "expected `latest` or a version from 1 up, got"),
        (job(more="\n  subject: {version: new}"), "expected `latest` or a version from 1 up, got"),
        (job(more="\n  subject: {nme: a}"), "unknown key `nme`; did you mean `name`?"),
        (job(more="\n  subject: {message: M}"), "expected `message` with the format protobuf only"),
        (
            job(columns=LISTED, more="\n  subject: {name: a}"),
            "expected `subject` with `columns: from_registry` only",
        ),
        (
            job(more="\n  evolution: quarantine"),
            "expected the format json with `quarantine`",
        ),
        (
            job("{json: {registry: hms}}"),
            "expected the name of a schema_registry connection, got `hms`",
        ),
    ],
)
def test_what_does_not_go_is_told(text: str, problem: str) -> None:
    assert any(problem in found for found in problems_of(text)), problems_of(text)


@pytest.mark.parametrize("evolution", ["fail", "follow_table", "add_columns", "quarantine"])
def test_json_of_a_registry_goes_with_each_evolution(evolution: str) -> None:
    spec = load(job("{json: {registry: reg}}", more=f"\n  evolution: {evolution}"))
    assert spec.table.evolution == evolution


@pytest.mark.parametrize("kind", ["avro", "protobuf"])
def test_columns_of_a_schema_are_added_whatever_the_format(kind: str) -> None:
    spec = load(job(f"{{{kind}: {{registry: reg}}}}", more="\n  evolution: add_columns"))
    assert spec.table.evolution == "add_columns"
