"""Secured HDFS and metastore: tables over them, and what is told of logins that fail."""

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from sluiceway.catalog.kerberos import SERVICE
from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.errors import (
    KerberosRefusedError,
    MetastoreUnavailableError,
    StorageRefusedError,
    UnhealthyEnvironmentError,
)
from sluiceway.lab.kafka import create_topic
from sluiceway.lab.lab import LabEndpoints
from sluiceway.lab.metastore import metastore_options
from sluiceway.sinks.iceberg.catalog.open_catalog import open_catalog
from sluiceway.storage.access import HDFS, StoreAccess, Stores
from sluiceway.storage.contract import PutResult
from sluiceway.storage.hdfs.client import PROXY_VARIABLE, hdfs_client
from sluiceway.storage.registry import open_storage
from tools.secured_job import secured_job

TIMEOUT_S = 30.0


def options(endpoints: LabEndpoints) -> dict[str, str]:
    assert endpoints.realm is not None
    return metastore_options(endpoints.realm)


def access(endpoints: LabEndpoints) -> StoreAccess:
    assert endpoints.hdfs is not None
    assert endpoints.realm is not None
    place = (("config_dir", str(endpoints.hdfs.config_dir)),)
    return StoreAccess(HDFS, (*place, *endpoints.realm.login.options()))


def asked(endpoints: LabEndpoints, told: Mapping[str, str]) -> str | None:
    with closing(MetastoreClient(endpoints.metastore_uri, TIMEOUT_S, dict(told))) as client:
        return client.database_location("default")


def test_metastore_answers_behind_a_login(endpoints: LabEndpoints) -> None:
    assert str(endpoints.warehouse) in (asked(endpoints, options(endpoints)) or "")


def test_host_of_the_address_stands_for_host_in_the_principal(endpoints: LabEndpoints) -> None:
    uri = endpoints.metastore_uri.replace("127.0.0.1", "localhost")
    told = options(endpoints) | {SERVICE: "hive/_HOST@SLUICEWAY.LAB"}
    with closing(MetastoreClient(uri, TIMEOUT_S, told)) as client:
        assert client.database_location("default")


def test_lake_catalog_logs_in_too(endpoints: LabEndpoints) -> None:
    settings = {f"metastore.{name}": value for name, value in options(endpoints).items()}
    place = {"kind": "hive", "uri": endpoints.metastore_uri, **settings}
    with closing(open_catalog(place, TIMEOUT_S)) as catalog:
        assert catalog.load(("ods", "nothing")) is None


@pytest.mark.parametrize(
    ("principal", "said"),
    [
        ("nobody/localhost@SLUICEWAY.LAB", "service_principal"),
        ("kafka/localhost@SLUICEWAY.LAB", "service_principal"),
    ],
)
def test_wrong_service_principal_is_told(
    endpoints: LabEndpoints, principal: str, said: str
) -> None:
    with pytest.raises(KerberosRefusedError) as refused:
        asked(endpoints, options(endpoints) | {SERVICE: principal})
    assert principal in str(refused.value)
    assert said in refused.value.hint
    assert refused.value.exit_code == 5


def test_client_without_a_login_is_told(endpoints: LabEndpoints) -> None:
    with pytest.raises(MetastoreUnavailableError):
        asked(endpoints, {})


def test_process_without_a_ticket_is_told_of_kinit(
    endpoints: LabEndpoints, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked(endpoints, options(endpoints))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")
    told = {SERVICE: options(endpoints)[SERVICE]}
    with pytest.raises(KerberosRefusedError) as refused:
        asked(endpoints, told)
    assert "kinit" in refused.value.hint


def test_records_are_put_once_on_secured_hdfs(endpoints: LabEndpoints) -> None:
    assert endpoints.hdfs is not None
    stores = Stores((access(endpoints),))
    storage, place = open_storage(f"{endpoints.hdfs.uri}/records", stores)
    storage.make_folders(place)
    content = os.urandom(200_000)
    slot = f"{place}/0.json"
    assert storage.put_if_absent(slot, content, tmp_folder=place) is PutResult.CREATED
    assert storage.put_if_absent(slot, b"another", tmp_folder=place) is PutResult.EXISTS
    assert storage.read(slot) == content


def test_hdfs_without_a_ticket_is_told_of_kinit(
    endpoints: LabEndpoints, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert endpoints.hdfs is not None
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")
    # Another name of the service, so that no connection is there yet.
    uri = endpoints.hdfs.uri.replace("127.0.0.1", "localhost")
    place = (("config_dir", str(endpoints.hdfs.config_dir)),)
    storage, root = open_storage(f"{uri}/records", Stores((StoreAccess(HDFS, place),)))
    with pytest.raises(StorageRefusedError) as refused:
        storage.status(root)
    assert "kinit" in refused.value.hint
    assert "No Kerberos credentials available" in refused.value.message


def test_hdfs_for_another_user_is_refused(
    endpoints: LabEndpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROXY_VARIABLE, "somebody")
    with pytest.raises(UnhealthyEnvironmentError, match=PROXY_VARIABLE):
        hdfs_client(access(endpoints), "hdfs://127.0.0.1:1")


def _run(endpoints: LabEndpoints, folder: Path, keytab: str, *command: str) -> tuple[int, str]:
    job = folder / "job.yaml"
    job.write_text(secured_job(endpoints, "secured", keytab=keytab))
    done = subprocess.run(
        [sys.executable, "-m", "sluiceway", command[0], str(job), *command[1:]],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    return done.returncode, done.stdout + done.stderr


def test_job_fills_a_table_on_secured_servers(endpoints: LabEndpoints, tmp_path: Path) -> None:
    create_topic(endpoints.bootstrap_servers, "secured", 2)
    orders = ("--topic", "secured", "--count", "2000")
    subprocess.run(
        [
            *(sys.executable, "-m", "sluiceway.lab.order_events", *orders),
            *("--bootstrap-servers", endpoints.bootstrap_servers),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    code, said = _run(endpoints, tmp_path, "", "run", "--until-caught-up")
    assert code == 0, said[-3000:]
    code, said = _run(endpoints, tmp_path, "", "verify", "--deep")
    assert code == 0, said[-3000:]
    assert "2,000" in said


def test_job_with_a_wrong_keytab_ends_with_5_before_spark(
    endpoints: LabEndpoints, tmp_path: Path
) -> None:
    assert endpoints.realm is not None
    wrong = str(endpoints.realm.keytab("kafka"))
    code, said = _run(endpoints, tmp_path, wrong, "run", "--until-caught-up")
    assert code == 5
    assert "SW409" in said
    assert "spark_starting" not in said


def test_job_whose_kafka_wants_kerberos_is_told_what_to_build(
    endpoints: LabEndpoints,
) -> None:
    from sluiceway.sources.kafka.source import KafkaSource, _is_built_in  # noqa: PLC0415

    told = {
        "bootstrap.servers": endpoints.secured_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        **options(endpoints),
    }
    told.pop(SERVICE)
    if not _is_built_in():
        with pytest.raises(KerberosRefusedError, match="without Kerberos"):
            KafkaSource().open_client(told, request_timeout_s=TIMEOUT_S)
        return
    with closing(KafkaSource().open_client(told, request_timeout_s=TIMEOUT_S)) as client:
        assert "secured" in client.list_topics()
