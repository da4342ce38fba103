"""A job with a secret of each kind of connection: none is seen in what it writes, says or serves.

Three routes fill tables; five more cannot reach what they need and say so, again and again. While
the driver runs, its processes' command lines, Spark's own pages and the page of `serve` are read;
then every file that it and eleven commands have left is searched.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sluiceway.lab.lab import LabEndpoints
from sluiceway.lab.support import pick_free_ports
from tools import avro_bytes
from tools.driver_process import DriverProcess
from tools.guarded_broker import PASSWORD, GuardedBroker, guarded_broker
from tools.job_files import JobFile
from tools.keytool import STORE_PASSWORD
from tools.receiving import HookServer
from tools.registry_server import Registry, registry_server
from tools.route_faults import wait_until
from tools.topic_writer import TopicWriter

ROWS = 20
# A name for each secret; the broker's is its own.
KINDS = (
    *("registry", "webhook", "lineage", "metrics", "spark", "s3", "session", "rocketmq"),
    *("rest", "oauth", "sql", "page"),
)
SECRETS = {kind: f"canary-{kind}-5f0e9b" for kind in KINDS}
SECRETS |= {"kafka": PASSWORD, "keystore": STORE_PASSWORD}
# They are to hold one.
SECRET_FILES = ("rocketmq.txt", "page.txt")
SCHEMA = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": "id", "type": "long"}, {"name": "ts", "type": "long"}],
}
FILLED = {"plain", "schema", "mutual"}
UNREACHABLE = {"bucket", "queue"}
LAKE_ROUTES = {"rest", "oauth", "laptop"}
COMMANDS = (
    *(("validate",), ("validate", "-o", "json"), ("status", "-o", "json"), ("plan",)),
    *(("doctor",), ("preview", "--route", "plain"), ("offsets", "show", "--route", "plain")),
    *(("ledger", "show", "--route", "plain"), ("partitions", "list", "--route", "plain")),
    *(("dirty", "list", "--route", "plain"), ("verify", "--route", "plain")),
)
JOB = """\
version: 1
name: secretive
connections:
  main:
    kafka: {{bootstrap_servers: "{kafka}", properties: {properties}}}
  mutual:
    kafka: {{bootstrap_servers: "{kafka_tls}", properties: {by_certificate}}}
  hms: {{metastore: {{uri: "{metastore}"}}}}
  reg: {{schema_registry: {{url: "{registry}", username: reader, password: "${{env:C_REGISTRY}}"}}}}
  store:
    s3:
      endpoint: "http://127.0.0.1:{dead}"
      region: us-east-1
      access_key: known
      secret_key: "${{env:C_S3}}"
      session_token: "${{env:C_SESSION}}"
  bucket: {{folder: {{path: "s3a://nowhere/lake"}}}}
  queue:
    rocketmq:
      name_servers: ["127.0.0.1:{dead}"]
      acl: {{access_key: known, secret_key: "${{file:{folder}/rocketmq.txt}}"}}
source: {{connection: main, start: earliest}}
format: {{json: {{}}}}
table:
  hive: {{connection: hms}}
  columns:
    - {{name: id, type: bigint, required: true}}
    - {{name: ts, type: bigint, required: true}}
  partition_by: [{{name: dt, event_time: yyyyMMdd}}]
event_time: {{field: ts, unit: ms}}
lineage:
  interval: 1s
  http: {{url: "{lineage}", headers: {{Authorization: "${{env:C_LINEAGE}}"}}}}
metrics: {{token: "${{env:C_METRICS}}"}}
run:
  interval: 1s
  master: "local[2]"
  health_port: 0
  spark_conf:
    spark.ui.enabled: "true"
    spark.ui.port: "{ui}"
    spark.eventLog.enabled: "true"
    spark.eventLog.dir: "file://{folder}/events"
    spark.hadoop.a.store.secret.key: "${{env:C_SPARK}}"
routes:
  - name: plain
    topics: [plain]
    table: {{hive: {{connection: hms, name: ods.secretive_plain, location: "{folder}/plain"}}}}
    ready: {{webhook: {{url: "{webhook}", headers: {{Authorization: "${{env:C_WEBHOOK}}"}}}}}}
  - name: schema
    topics: [schema]
    format: {{avro: {{registry: reg}}}}
    table: {{hive: {{connection: hms, name: ods.secretive_schema, location: "{folder}/schema"}}}}
  - name: mutual
    topics: [plain]
    source: {{connection: mutual}}
    table: {{hive: {{connection: hms, name: ods.secretive_tls, location: "{folder}/mutual"}}}}
  - name: bucket
    topics: [plain]
    table: {{hive: {{connection: bucket, name: ods.secretive_s3}}}}
  - name: queue
    topics: [queue]
    source: {{connection: queue}}
    table: {{hive: {{connection: hms, name: ods.secretive_q, location: "{folder}/queue"}}}}
"""
LAKES = """\
version: 1
name: lakes
connections:
  main:
    kafka: {{bootstrap_servers: "{kafka}", properties: {properties}}}
  lake: {{iceberg: {{rest: {{uri: "http://127.0.0.1:{dead}", token: "${{env:C_REST}}"}}}}}}
  oauth: {{iceberg: {{rest: {{uri: "http://127.0.0.1:{dead}", credential: "${{env:C_OAUTH}}"}}}}}}
  laptop: {{iceberg: {{sql: {{uri: "${{env:C_SQL}}", warehouse: "{folder}/lake"}}}}}}
source: {{connection: main, start: earliest}}
format: {{json: {{}}}}
table:
  iceberg: {{connection: lake, create: if_missing}}
  columns: [{{name: id, type: bigint}}]
  partition_by: []
run: {{interval: 1s, master: "local[2]"}}
routes:
  - name: rest
    topics: [plain]
    table: {{iceberg: {{connection: lake, name: ods.secretive_rest}}}}
  - name: oauth
    topics: [plain]
    table: {{iceberg: {{connection: oauth, name: ods.secretive_oauth}}}}
  - name: laptop
    topics: [plain]
    table: {{iceberg: {{connection: laptop, name: ods.secretive_sql}}}}
"""


@dataclass(slots=True)
class Seen:
    """Everything that somebody could have seen, by where."""

    texts: dict[str, bytes] = field(default_factory=dict)

    def leaks(self) -> list[str]:
        """Which secret is where."""
        return [
            f"{kind} in {place}"
            for place, text in self.texts.items()
            for kind, secret in SECRETS.items()
            for form in forms(secret)
            if form in text
        ]


def forms(secret: str) -> tuple[bytes, ...]:
    """A secret as it is, and as it is sent by HTTP basic authentication."""
    return secret.encode(), base64.b64encode(f"reader:{secret}".encode())[8:-4]


def environment() -> dict[str, str]:
    """What the job file refers to."""
    found = {f"C_{kind.upper()}": secret for kind, secret in SECRETS.items()}
    sql = f"postgresql+psycopg2://lake:{SECRETS['sql']}@127.0.0.1:1/lake"
    return found | {"C_KAFKA": PASSWORD, "C_SQL": sql}


def job_files(
    folder: Path, broker: GuardedBroker, endpoints: LabEndpoints, urls: list[str]
) -> tuple[Path, Path]:
    """The jobs of Hive and of lake tables, with `urls` of registry, webhook and lineage."""
    dead, ui = pick_free_ports(2)
    login = dict(broker.login("SCRAM-SHA-512")) | {"sasl.password": "${env:C_KAFKA}"}
    certificate = dict(broker.by_certificate()) | {"ssl.keystore.password": "${env:C_KEYSTORE}"}
    for name in SECRET_FILES:
        (folder / name).write_text(SECRETS[Path(name).stem])
        (folder / name).chmod(0o600)
    (folder / "events").mkdir()
    registry, webhook, lineage = urls
    values = {
        "kafka": broker.sasl,
        "properties": json.dumps(login),
        "kafka_tls": broker.tls,
        "by_certificate": json.dumps(certificate),
        "metastore": endpoints.metastore_uri,
        "registry": registry,
        "webhook": webhook,
        "lineage": lineage,
        "folder": folder,
        "dead": dead,
        "ui": ui,
    }
    made = folder / "job.yaml", folder / "lakes.yaml"
    for path, text in zip(made, (JOB, LAKES), strict=True):
        path.write_text(text.format(**values))
    return made


def fill(broker: GuardedBroker, number: int) -> None:
    """Rows for both topics; two that are dirty."""
    admin = AdminClient({"bootstrap.servers": broker.plain, "log_level": 0})
    for made in admin.create_topics([NewTopic("plain", 1, 1), NewTopic("schema", 1, 1)]).values():
        made.result(20)
    writer, start = TopicWriter(broker.plain), 1_795_161_600_000
    rows = [json.dumps({"id": n, "ts": start + n}).encode() for n in range(ROWS)]
    writer.write("plain", [*rows, b'{"id": "no"}'])
    header = b"\0" + number.to_bytes(4, "big")
    encoded = [header + avro_bytes.long(n) + avro_bytes.long(start + n) for n in range(ROWS)]
    writer.write("schema", [*encoded, b"\0\0\0\0\x7fx"])


def command_lines(driver: DriverProcess) -> bytes:
    """Of the driver and all of its processes."""
    return "\n".join(driver.family().values()).encode()


def pages(job: Path) -> Iterator[tuple[str, bytes]]:
    """Spark's own pages that show settings, plans and tasks."""
    port = next(
        line.split('"')[1] for line in job.read_text().splitlines() if "spark.ui.port" in line
    )
    start = f"http://127.0.0.1:{port}"
    (application,) = json.loads(got(f"{start}/api/v1/applications"))
    inside = f"/api/v1/applications/{application['id']}"
    for path in (
        *("/environment/", "/jobs/", "/stages/", "/executors/"),
        *(f"{inside}/environment", f"{inside}/jobs", f"{inside}/sql?details=true"),
    ):
        yield f"page {path}", got(start + path)


def got(url: str, token: str = "") -> bytes:
    """An answer from this machine."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:  # noqa: S310
        found: bytes = answer.read()
    return found


def metrics_page(driver: DriverProcess) -> bytes:
    """What the health address serves to who has the token."""
    told = driver.wait_for_event("health_listening")
    return got(f"http://{told['host']}:{told['port']}/metrics", SECRETS["metrics"])


def served(job: Path, folder: Path) -> Iterator[tuple[str, bytes]]:
    """The page of the job and all that it asks for, by who has its token and by who has not."""
    command = [sys.executable, "-m", "sluiceway", "serve", str(job), "--port", "0"]
    with (
        (folder / "serve.log").open("wb") as log,
        subprocess.Popen(
            [*command, "--token-file", str(folder / "page.txt")],
            env={**os.environ, **environment()},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            yield "line of serve", line.encode()
            address = line.strip().partition("#")[0].rstrip("/")
            yield "command line of serve", Path(f"/proc/{process.pid}/cmdline").read_bytes()
            inside = f"/api/jobs/{job.stem}"
            wait_until(lambda: b"secretive_tls" in got(address + inside, SECRETS["page"]))
            for path in (
                *("/", "/api/fleet", inside, f"{inside}/history", f"{inside}/partitions"),
                *(f"{inside}/dirty", f"{inside}/ledger?route=plain"),
            ):
                yield f"serve {path}", got(address + path, SECRETS["page"])
            for token in ("", f"{SECRETS['page']}-not"):
                with pytest.raises(urllib.error.HTTPError) as refused:
                    got(f"{address}/api/fleet", token)
                told = f"{refused.value} {refused.value.headers}".encode()
                yield f"serve refuses {bool(token)}", told + refused.value.read()
        finally:
            process.terminate()
    assert process.returncode == 0, (folder / "serve.log").read_text()


def files_below(folder: Path) -> Iterator[tuple[str, bytes]]:
    """All files, but those that are to hold a secret, and the broker's own."""
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        if path.is_file() and inside.parts[0] != "broker" and path.name not in SECRET_FILES:
            yield str(inside), path.read_bytes()


@pytest.fixture(scope="module")
def seen(lab_endpoints: LabEndpoints, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What a run and the commands have shown."""
    folder, found = tmp_path_factory.mktemp("secretive"), Seen()
    registry = Registry(login=f"reader:{SECRETS['registry']}")
    with ExitStack() as cleanup:
        broker = cleanup.enter_context(guarded_broker(folder / "broker"))
        cleanup.enter_context(registry_server(registry))
        hooks = [HookServer(), HookServer()]
        for hook in hooks:
            cleanup.callback(hook.end)
        fill(broker, registry.add("schema-value", json.dumps(SCHEMA)))
        urls = [registry.url, hooks[0].url, hooks[1].url]
        path, lakes = job_files(folder, broker, lab_endpoints, urls)
        job = JobFile(path, "ods.secretive_plain")
        with DriverProcess(job, folder, environment=environment()) as driver:
            driver.wait_until(lambda: committed(driver) >= FILLED, "rows")
            driver.wait_until(lambda: complained(driver) >= UNREACHABLE, "trouble of all others")
            found.texts["command lines"] = command_lines(driver)
            found.texts["metrics"] = metrics_page(driver)
            found.texts |= dict(pages(path)) | dict(served(path, folder))
            driver.send(signal.SIGTERM)
            driver.wait()
            found.texts["log"] = driver.stderr().encode()
        with DriverProcess(
            JobFile(lakes, ""), folder, module="tools.inline_driver", environment=environment()
        ) as driver:
            driver.wait_until(lambda: complained(driver) >= LAKE_ROUTES, "trouble of lakes")
            found.texts["log of lakes"] = driver.stderr().encode()
        asked = [(" ".join(command), command, path) for command in COMMANDS]
        asked += [(f"{verb} of lakes", (verb,), lakes) for verb in ("doctor", "plan")]
        # They wait for servers that are not there.
        with ThreadPoolExecutor(len(asked)) as pool:
            said = pool.map(lambda each: told(*each[1:]), asked)
            found.texts |= {name: text for (name, *_), text in zip(asked, said, strict=True)}
    found.texts |= dict(files_below(folder))
    return found


def committed(driver: DriverProcess) -> set[str]:
    """Routes that have rows in their ledgers."""
    return {event.get("route", "") for event in driver.events("committed")}


def complained(driver: DriverProcess) -> set[str]:
    """Routes that have said that they cannot go on."""
    return {
        event.get("route", "")
        for event in driver.events()
        if event.get("level") in ("warning", "error")
    }


def told(command: tuple[str, ...], job: Path) -> bytes:
    """What a command prints; most fail, since the job's servers are gone or never were."""
    verb = (
        command[:2] if command[0] in ("offsets", "ledger", "partitions", "dirty") else command[:1]
    )
    done = subprocess.run(
        [sys.executable, "-m", "sluiceway", *verb, str(job), *command[len(verb) :]],
        env={**os.environ, **environment()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert done.stdout + done.stderr, f"{command} says nothing"
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.stdout + done.stderr


@pytest.mark.slow
def test_everything_that_could_show_a_secret_was_looked_at(seen: Seen) -> None:
    whole = b"".join(seen.texts.values())
    for known in (
        *(b"access_key", b"sasl.username", b"a.store.secret.key", b"ods.secretive_rest"),
        b"ssl.keystore.location",
    ):
        assert known in whole
    assert b"secretive_tls" in seen.texts["serve /api/jobs/job"]
    assert b"401" in seen.texts["serve refuses True"]
    assert any("events" in place for place in seen.texts), "Spark's event log"
    assert any(place.endswith("status.json") for place in seen.texts)
    assert len(seen.texts) > len(COMMANDS) + 20


@pytest.mark.slow
def test_no_secret_of_any_connection_is_seen_anywhere(seen: Seen) -> None:
    assert seen.leaks() == []


@pytest.mark.parametrize("form", [0, 1])
def test_search_finds_a_secret_in_each_form(form: int) -> None:
    shown = Seen({"a page": b"said " + forms(SECRETS["registry"])[form] + b" aloud"})
    assert shown.leaks() == ["registry in a page"]
