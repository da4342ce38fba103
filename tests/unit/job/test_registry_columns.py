"""Columns that a registry's schema says, where they cannot be a table's."""

import json

import pytest

from sluiceway.errors import JobFileError
from sluiceway.job.compile import compile_route
from sluiceway.job.registry_columns import registry_columns
from tools.registry_server import registry_server
from unit.spec.test_spec_loader import load
from unit.spec.test_spec_subject import job


def refusal(schema: object) -> str:
    """What is told of a schema, of which the route's columns cannot be made."""
    with registry_server() as registry:
        registry.add("orders-value", json.dumps(schema))
        config = compile_route(load(job().replace("http://reg:8081", registry.url)))
        with pytest.raises(JobFileError) as caught:
            registry_columns(config)
    return caught.value.message


def record(*fields: tuple[str, object], name: str = "R") -> dict[str, object]:
    made = [{"name": field, "type": of} for field, of in fields]
    return {"type": "record", "name": name, "fields": made}


def test_record_without_fields_is_no_table() -> None:
    assert "the record R has no fields" in refusal(record())


def test_type_that_is_longer_than_any_column_s_is_refused() -> None:
    wide = record(*((f"field_{n}", "int") for n in range(9_000)), name="Wide")
    told = refusal(record(("id", "long"), ("a", wide)))
    assert "a: its type has 133,897 characters, of 65,536 that a type can have" in told
    assert "id:" not in told


def test_names_of_a_schema_stay_on_one_line() -> None:
    told = refusal(record(("a\nb", "int"), ("c", record(("d", "R\nS"), name="R\nS"))))
    assert told.isprintable()
    assert r"the record R\nS holds itself" in told
