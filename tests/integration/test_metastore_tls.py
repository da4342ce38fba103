"""Tables of a metastore that talks TLS."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.errors import MetastoreUnavailableError, UnhealthyEnvironmentError
from sluiceway.sinks.iceberg.catalog.open_catalog import open_catalog
from sluiceway.sinks.registry import CatalogAccess, open_sink
from sluiceway.sinks.table_options import PartitionColumn, TableOptions
from sluiceway.types.schema import Field, IntegerType, Schema
from tools.encrypted_metastore import EncryptedMetastore, encrypted_metastore

# One server of its own for all of them.
pytestmark = pytest.mark.slow

TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EncryptedMetastore]:
    with encrypted_metastore(tmp_path_factory.mktemp("tls") / "metastore") as found:
        yield found


def test_table_is_made_and_found_over_tls(metastore: EncryptedMetastore) -> None:
    options = TableOptions(
        metastore.uri,
        "ods",
        "orders",
        Schema((Field("id", IntegerType(64)),)),
        (PartitionColumn("dt"),),
        metastore_options=tuple(_trusting(metastore.authority).items()),
    )
    with closing(open_sink(CatalogAccess(), options)) as sink:
        sink.open()
    client = MetastoreClient(metastore.uri, TIMEOUT_S, _trusting(metastore.authority))
    found = client.get_table("ods", "orders")
    client.close()
    assert found is not None
    assert [column.name for column in found.layout.columns] == ["id"]
    plain = open_sink(CatalogAccess(), replace(options, metastore_options=()))
    with closing(plain), pytest.raises(MetastoreUnavailableError):
        plain.open()


def test_lake_table_is_looked_for_over_tls(metastore: EncryptedMetastore) -> None:
    settings = {f"metastore.{name}": of for name, of in _trusting(metastore.authority).items()}
    place = {"kind": "hive", "uri": metastore.uri}
    with closing(open_catalog({**place, **settings}, TIMEOUT_S)) as catalog:
        assert catalog.load(("ods", "nothing")) is None
    plain = open_catalog(place, TIMEOUT_S)
    with closing(plain), pytest.raises(MetastoreUnavailableError):
        plain.load(("ods", "nothing"))


def test_foreign_authority_is_told_with_what_to_do(metastore: EncryptedMetastore) -> None:
    told = _refusal(metastore.uri, _trusting(metastore.stranger))
    assert "certificate verify failed" in told
    assert "`tls.ca_file`" in told


def test_certificate_of_another_host_is_refused(metastore: EncryptedMetastore) -> None:
    uri = metastore.uri.replace("127.0.0.1", "localhost")
    assert "localhost" in _refusal(uri, _trusting(metastore.authority))


def test_tls_to_a_plain_metastore_is_told(
    metastore: EncryptedMetastore, metastore_uri: str
) -> None:
    assert "without `tls`" in _refusal(metastore_uri, _trusting(metastore.authority))


def test_plain_client_of_an_encrypted_metastore_is_told_to_use_tls(
    metastore: EncryptedMetastore,
) -> None:
    assert "`tls`" in _refusal(metastore.uri, {})


def test_missing_authority_is_told(metastore: EncryptedMetastore, tmp_path: Path) -> None:
    client = MetastoreClient(metastore.uri, TIMEOUT_S, _trusting(tmp_path / "none.pem"))
    with pytest.raises(UnhealthyEnvironmentError) as refused:
        client.get_table("ods", "orders")
    assert str(tmp_path / "none.pem") in str(refused.value)


def _trusting(authority: Path) -> Mapping[str, str]:
    return {"tls": "true", "ca_file": str(authority)}


def _refusal(uri: str, options: Mapping[str, str]) -> str:
    client = MetastoreClient(uri, TIMEOUT_S, options)
    with pytest.raises(MetastoreUnavailableError) as refused:
        client.get_table("ods", "orders")
    return str(refused.value)
