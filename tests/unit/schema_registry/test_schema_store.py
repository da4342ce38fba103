"""Schemas by id: kept, waited for, and never guessed."""

import pickle
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from sluiceway.errors import SchemaRegistryRefusedError, SchemaRegistryUnavailableError
from sluiceway.formats.schema_registry import store as store_module
from sluiceway.formats.schema_registry.client import (
    RegisteredSchema,
    RegistryClient,
    SubjectVersion,
)
from sluiceway.formats.schema_registry.settings import RegistrySettings, registry_settings
from sluiceway.formats.schema_registry.store import (
    MAX_UNKNOWN,
    SchemaStore,
    SharedUnknown,
    UnknownSchemaRetry,
    process_store,
)
from tools.registry_server import Registry, registry_server

QUICK = UnknownSchemaRetry(unknown_s=0.2, outage_s=0.2, poll_s=0.01, remembered_s=60)


def store_of(registry: Registry, patience: UnknownSchemaRetry = QUICK) -> SchemaStore:
    return SchemaStore(RegistryClient(RegistrySettings(registry.url)), patience)


def test_schema_is_asked_for_once() -> None:
    with registry_server() as registry:
        number = registry.add("a-value", '"long"')
        store = store_of(registry)
        for _ in range(3):
            assert store.schemas({number}) == {number: RegisteredSchema("AVRO", '"long"')}
        assert len(registry.asked) == 1


def test_schema_brings_those_it_refers_to_in_order() -> None:
    with registry_server() as registry:
        registry.add("c", '"c"')
        registry.add("b", '"b"', references=[("C", "c", 1)])
        number = registry.add("a", '"a"', "PROTOBUF", [("B", "b", 1), ("C", "c", 1)])
        found = store_of(registry).schemas({number})[number]
    assert found == RegisteredSchema("PROTOBUF", '"a"', (("C", '"c"'), ("B", '"b"')))


def test_schemas_that_refer_to_each_other_come_to_an_end() -> None:
    with registry_server() as registry:
        registry.add("a", '"a"', references=[("B", "b", 1)])
        number = registry.add("b", '"b"', references=[("A", "a", 1)])
        found = store_of(registry).schemas({number})[number]
    assert found is not None
    assert {name for name, _ in found.references} <= {"A", "B"}


def test_schemas_that_refer_to_each_other_too_deep_are_refused() -> None:
    with registry_server() as registry:
        number = registry.add("s0", '"int"')
        for level in range(1, 120):
            number = registry.add(f"s{level}", '"int"', references=[("N", f"s{level - 1}", 1)])
        with pytest.raises(SchemaRegistryRefusedError, match="more than 100 levels deep"):
            store_of(registry).schemas({number})


@pytest.mark.parametrize("listed", [5, "a", [1], {"name": "a"}])
def test_references_that_are_none_are_refused(listed: object) -> None:
    with registry_server() as registry:
        number = registry.add("a", '"int"')
        registry.schemas[number]["references"] = listed
        with pytest.raises(SchemaRegistryRefusedError, match="does not say what a schema refers"):
            store_of(registry).schemas({number})


def test_reference_that_is_gone_is_refused() -> None:
    with registry_server() as registry:
        number = registry.add("a", '"a"', references=[("B", "b", 7)])
        with pytest.raises(SchemaRegistryRefusedError, match="b version 7, which is not there"):
            store_of(registry).schemas({number})


def test_id_that_comes_late_is_waited_for() -> None:
    with registry_server() as registry:
        number = registry.add("a", '"int"')
        registry.known_after[number] = 3
        patience = UnknownSchemaRetry(unknown_s=60, poll_s=0.01)
        assert store_of(registry, patience).schemas({number})[number] is not None


def test_unknown_ids_are_waited_for_once_and_together() -> None:
    with registry_server() as registry:
        number = registry.add("a", '"int"')
        store = store_of(registry)
        found = store.schemas({number, 98, 99})
        assert found[98] is None
        assert found[99] is None
        assert found[number] is not None
        asked = len(registry.asked)
        assert store.schemas({98, 99}) == {98: None, 99: None}
        assert len(registry.asked) == asked


def test_unknown_id_is_looked_at_again_without_a_wait() -> None:
    with registry_server() as registry:
        store = store_of(registry, UnknownSchemaRetry(unknown_s=0.0, remembered_s=0.0))
        assert store.schemas({1}) == {1: None}
        registry.add("a", '"int"')
        assert store.schemas({1})[1] is not None


def test_registry_that_is_down_is_an_outage_and_nothing_else() -> None:
    with registry_server() as registry:
        pass
    with pytest.raises(SchemaRegistryUnavailableError, match="does not answer") as told:
        store_of(registry).schemas({1})
    assert told.value.code == "SW105"
    assert str(registry.port) in told.value.where


@pytest.mark.parametrize("status", [500, 503, 429])
def test_server_error_is_an_outage(status: int) -> None:
    told = pytest.raises(SchemaRegistryUnavailableError, match=f"HTTP {status}")
    with registry_server(Registry(status=status)) as registry, told:
        store_of(registry).schemas({1})


def test_registry_that_comes_back_while_it_is_waited_for_is_no_outage() -> None:
    with registry_server(Registry(status=503)) as registry:
        number = registry.add("a", '"int"')
        real = registry.answer

        def answer(path: str, login: str | None) -> tuple[int, bytes]:
            registry.status = 503 if len(registry.asked) < 3 else 0
            return real(path, login)

        registry.answer = answer  # type: ignore[method-assign]
        found = store_of(registry, UnknownSchemaRetry(0, outage_s=60, poll_s=0.01)).schemas(
            {number}
        )
    assert found[number] is not None


def test_second_address_answers_when_the_first_does_not() -> None:
    with registry_server() as gone:
        pass
    with registry_server() as registry:
        number = registry.add("a", '"int"')
        client = RegistryClient(RegistrySettings(f"{gone.url}, {registry.url}/"))
        assert client.schema_of_id(number) is not None


def test_login_is_sent_and_a_missing_one_is_refused() -> None:
    with registry_server(Registry(login="ann:word")) as registry:
        number = registry.add("a", '"int"')
        settings = RegistrySettings(registry.url, username="ann", password="word")  # noqa: S106
        assert RegistryClient(settings).schema_of_id(number) is not None
        with pytest.raises(SchemaRegistryRefusedError, match="HTTP 401") as told:
            store_of(registry).schemas({number})
        assert "username" in told.value.hint


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"schema":7}', b'{"id":1}', b"[" * 100_000])
def test_server_that_is_no_registry_is_refused(body: bytes) -> None:
    told = pytest.raises(SchemaRegistryRefusedError, match="HTTP 200")
    with registry_server(Registry(body=body)) as registry, told:
        store_of(registry).schemas({1})


def test_wrong_path_is_no_unknown_id() -> None:
    with registry_server() as registry:
        settings = RegistrySettings(registry.url.removesuffix("/registry"))
        with pytest.raises(SchemaRegistryRefusedError, match="HTTP 404") as told:
            SchemaStore(RegistryClient(settings), QUICK).schemas({1})
        assert "path" in told.value.hint


def test_subject_has_a_latest_schema() -> None:
    with registry_server() as registry:
        registry.add("a b", '"int"')
        registry.add("a b", '"long"')
        client = RegistryClient(RegistrySettings(registry.url))
        assert client.of_subject("a b") == SubjectVersion(
            "a b", 2, RegisteredSchema("AVRO", '"long"')
        )
        assert client.of_subject("c") is None


def test_settings_travel_as_options_and_hide_what_is_secret() -> None:
    settings = RegistrySettings("http://h", username="ann", password="word")  # noqa: S106
    assert registry_settings(settings.options()) == settings
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301
    assert "word" not in repr(settings)
    with pytest.raises(ValueError, match="no option nonsense"):
        registry_settings({"registry.url": "http://h", "registry.nonsense": "1"})
    with pytest.raises(ValueError, match="needs its url"):
        registry_settings({})


def test_certificate_that_is_not_there_is_told_when_the_decoder_is_made() -> None:
    settings = RegistrySettings("https://h", ca_file="/nowhere/ca.pem")
    with pytest.raises(SchemaRegistryRefusedError, match="cannot be used"):
        process_store(settings)


def test_store_is_shared_by_the_tasks_of_a_process() -> None:
    assert process_store(RegistrySettings("http://h:1")) is process_store(
        RegistrySettings("http://h:1")
    )


def test_ten_thousand_unknown_ids_of_one_fetch_are_asked_for_over_one_session() -> None:
    """Payloads that are no payloads name any id; those of known ones go on."""
    garbage = set(range(1_000_000, 1_010_000))
    with registry_server() as registry:
        number = registry.add("a", '"int"')
        store = store_of(registry, UnknownSchemaRetry(unknown_s=0.05, poll_s=0.01))
        found = store.schemas({number, *garbage})
        assert found[number] is not None
        assert [n for n, schema in found.items() if schema is None] == sorted(garbage)
        looks = 4
        assert len(registry.asked) <= 1 + MAX_UNKNOWN * looks
        assert registry.sessions == 1
        asked = len(registry.asked)
        # Nor in any later fetch, as long as they are remembered.
        store.schemas(set(range(2_000_000, 2_000_100)))
        assert len(registry.asked) == asked
        later = registry.add("b", '"int"')
        assert store.schemas({later}) == {later: None}
        assert "was not asked for" in store.why_unknown(later)
        assert store.why_unknown(min(garbage)).endswith(f"does not know the schema id {10**6}")


def test_ids_above_the_bound_are_asked_for_when_it_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now_s[0], sleep=time.sleep)
    monkeypatch.setattr(store_module, "time", clock)
    with registry_server() as registry:
        store = store_of(registry, UnknownSchemaRetry(unknown_s=0.0, remembered_s=2.0))
        store.schemas(set(range(1_000_000, 1_000_000 + MAX_UNKNOWN)))
        number = registry.add("a", '"int"')
        assert store.schemas({number})[number] is None
        now_s[0] += 1.9
        assert store.schemas({number})[number] is None
        now_s[0] += 0.1
        assert store.schemas({number})[number] is not None


def test_ids_that_come_one_by_one_are_not_waited_for_one_by_one() -> None:
    with registry_server() as registry:
        store = store_of(registry, UnknownSchemaRetry(unknown_s=0.2, poll_s=0.01))
        store.schemas({7})
        asked = len(registry.asked)
        for number in (8, 9, 10):
            store.schemas({number})
        assert len(registry.asked) == asked + 3


def test_session_that_the_registry_has_closed_is_begun_anew() -> None:
    with registry_server() as registry:
        number, other = registry.add("a", '"int"'), registry.add("b", '"long"')
        store = store_of(registry)
        registry.closes_after = 1
        assert store.schemas({number})[number] is not None
        time.sleep(0.05)
        assert store.schemas({other})[other] is not None
        assert registry.sessions == 2


def test_what_one_worker_has_not_found_the_others_do_not_ask_for(tmp_path: Path) -> None:
    with registry_server() as registry:
        settings = RegistrySettings(registry.url)
        one, other = (
            SchemaStore(RegistryClient(settings), QUICK, SharedUnknown(settings, tmp_path / "own"))
            for _ in range(2)
        )
        assert one.schemas({98, 99}) == {98: None, 99: None}
        asked = len(registry.asked)
        assert other.schemas({98, 99}) == {98: None, 99: None}
        assert len(registry.asked) == asked
        assert other.why_unknown(98) == "the registry does not know the schema id 98"
        # Another login may see other schemas.
        login = RegistrySettings(registry.url, username="me")
        assert SharedUnknown(login, tmp_path / "own").read() == {}


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"a": 1}', b'{"7": null}', b"\xff", b'{"7": 1e300}', b'{"7": 0}'],
)
def test_shared_file_that_is_damaged_or_old_says_nothing(tmp_path: Path, content: bytes) -> None:
    shared = SharedUnknown(RegistrySettings("http://r"), tmp_path / "own")
    shared.add({7}, 60.0)
    assert 59 < shared.read()[7] <= 60
    (file,) = (tmp_path / "own").iterdir()
    file.write_bytes(content)
    assert shared.read() == {}


def test_folder_that_others_can_write_to_is_not_believed(tmp_path: Path) -> None:
    shared = SharedUnknown(RegistrySettings("http://r"), tmp_path / "own")
    shared.add({7}, 60.0)
    (tmp_path / "own").chmod(0o777)
    assert shared.read() == {}
    shared.add({8}, 60.0)
    (tmp_path / "own").chmod(0o700)
    assert list(shared.read()) == [7]


def test_of_several_versions_of_one_reference_the_first_counts_as_in_the_registry() -> None:
    with registry_server() as registry:
        registry.add("c", '"old"')
        registry.add("c", '"new"')
        registry.add("b", '"b"', references=[("C", "c", 1)])
        number = registry.add("a", '"a"', references=[("B", "b", 1), ("C", "c", 2), ("D", "c", 2)])
        found = store_of(registry).schemas({number})[number]
    assert found is not None
    assert found.references == (("C", '"old"'), ("B", '"b"'), ("C", '"new"'), ("D", '"new"'))
    assert found.resolved == {"C": '"old"', "B": '"b"', "D": '"new"'}
