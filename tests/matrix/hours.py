"""The scene of hours: merged, announced, shown and told of, while a driver meets its fault.

A driver before has left several files in each of two hours, none of which it could close. The one
with the fault closes, merges, announces and tells; the next one gets two more hours to read.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sluiceway.followers.announcements import announced_through
from sluiceway.followers.lineage_events import run_id
from sluiceway.lab.lab import LabEndpoints
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import ReadyRecord
from sluiceway.ledger.records import DataRecord
from tools.independent_reader import BrokerRecord, broker_records
from tools.job_files import COLUMNS, event
from tools.receiving import HookServer, hook_server
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

FIRST = "faults_hours_first"
SECOND = "faults_hours_second"
TOLD = "faults_hours_told"
TOPICS = ((FIRST, 2), (SECOND, 1), (TOLD, 1))
_RECEIVERS = ("webhook", "kafka")
_EIGHT_MS = 1_795_161_600_000
_HOUR_MS = 3_600_000
_ROWS = 40
# Hours that are complete once the topics are read: of the first one, then of both.
_ENDED = {False: ("08", "09"), True: ("08", "09", "10", "11")}


def fill(writer: TopicWriter) -> None:
    """Rows of hours 8 and 9 in turn, some broken; then 10 and 11; each time one that ends them."""
    for partition in range(2):
        writer.write(FIRST, [*_rows(8), _row(_ROWS, 10)], partition=partition)
    writer.write(SECOND, [*_rows(10), _row(_ROWS, 12)])


def expected(topic: str, records: Sequence[BrokerRecord]) -> Sequence[BrokerRecord]:
    """Those of a topic that readers see in the end: the row that ends the last hours is in none."""
    return records[:-1] if topic == SECOND else records


def job_text(
    endpoints: LabEndpoints,
    name: str,
    hook: HookServer,
    lineage: Path,
    *,
    both: bool,
    before: bool,
) -> str:
    """The job file; that of the driver before reads little at a time, and closes nothing."""
    topics = f"{FIRST}, {SECOND}" if both else FIRST
    # Those that have nothing more to read must not hold the later hours.
    idle_after = "1s" if both else "30d"
    out_of_orderness = "30d" if before else "0s"
    return f"""\
version: 1
name: {name}
connections:
  main: {{kafka: {{bootstrap_servers: "{endpoints.bootstrap_servers}"}}}}
  hms: {{metastore: {{uri: "{endpoints.metastore_uri}"}}}}
source: {{connection: main, topics: [{topics}], start: earliest}}
format: {{json: {{tombstones: skip}}}}
table:
  hive: {{connection: hms, name: {name}.t}}
  columns:
{COLUMNS}
  partition_by: [{{name: dt, event_time: "yyyyMMdd"}}, {{name: hr, event_time: "HH"}}]
  meta: [topic, partition, offset, timestamp]
event_time:
  {{field: ts, unit: ms, out_of_orderness: {out_of_orderness}, idle_after: {idle_after}}}
ready:
  success_file: true
  on_all_idle: hold
  webhook: {{url: "{hook.url}"}}
  kafka: {{topic: {TOLD}}}
lineage: {{file: {{path: "{lineage}"}}, interval: 1s}}
run: {{interval: 0.5s, master: "local[2]"{", max_rate: 40/s" if before else ""}}}
"""


@dataclass(frozen=True, slots=True)
class Hours:
    """The hours of one cell's table, by its ledger.

    Attributes:
        log: Of the table that the driver before has made.
        hook: Who is told over HTTP, with all other cells.
        lineage: File of the cell's own.
    """

    run: RouteRun
    log: LedgerLog
    hook: HookServer
    lineage: Path

    def are_told(self, *, both: bool) -> bool:
        """Whether all that is complete is announced, and both receivers know."""
        last = [seq for seq, body in self._ready() if body.prefix[-2:] == _ENDED[both][-1]]
        through = [
            announced_through(self.log.storage, self.log.layout, each) for each in _RECEIVERS
        ]
        return bool(last) and min(through) > last[-1]

    def check(self, servers: str) -> None:
        """Each hour was announced once, in order, shown with its mark, and told in order.

        Raises:
            AssertionError: Not so.
        """
        ready = [body for _, body in self._ready()]
        ended = [f"dt=20261120/hr={hour}" for hour in _ENDED[True]]
        announced = [(body.prefix, body.version) for body in ready]
        assert announced == [(prefix, 1) for prefix in ended], announced
        shown = self.run.partitions()
        assert sorted(shown) == [f"20261120/{hour}" for hour in _ENDED[True]], sorted(shown)
        # Their paths alone are shown, without scheme and bucket.
        root = self.log.layout.table_root
        store = root.removesuffix(urlsplit(root).path)
        has = self.log.storage.has_file
        bare = [hour for hour, at in shown.items() if not has(f"{store}{at}/_SUCCESS")]
        assert bare == [], f"without _SUCCESS: {bare}"
        fold = self.log.fold()
        assert fold.intents == {}, f"work is open: {fold.intents}"
        assert fold.first_fence is not None
        keys = [f"{fold.first_fence.ledger}:{prefix}:1" for prefix in ended]
        told = (r.key or b"" for r in broker_records(servers, [TOLD]))
        heard = {"webhook": self.hook.heard(), "kafka": [key.decode() for key in told]}
        for receiver, known in heard.items():
            # A zombie may repeat what it was about to say; the key tells.
            ours = [key for key in known if key in keys]
            assert list(dict.fromkeys(ours)) == keys, f"{receiver} was told {ours}"
        self._check_lineage(fold.first_fence.ledger)

    def _check_lineage(self, ledger: str) -> None:
        """Each run began, and was ended with the rows that its term has committed."""
        rows: Counter[str] = Counter()
        for record, _ in self.log.records():
            if isinstance(record.body, DataRecord):
                named = run_id(ledger, record.term)
                rows[named] += sum(int(file.rows) for file in record.body.files)
        states, ended = defaultdict[str, set[str]](set), {}
        for line in self.lineage.read_text().splitlines():
            event = json.loads(line)
            named = event["run"]["runId"]
            states[named].add(event["eventType"])
            if event["eventType"] in {"COMPLETE", "ABORT"}:
                figures = event["outputs"][0]["outputFacets"]["outputStatistics"]
                ended[named] = figures["rowCount"]
        # That of the driver before, of the one with the fault as a rule, and of those behind it.
        assert len(states) > 1, f"told of {dict(states)}"
        for named, said in states.items():
            assert "START" in said, f"told {said}"
            assert ended.get(named) == rows[named], f"told {ended}, committed {dict(rows)}"

    def _ready(self) -> Iterator[tuple[int, ReadyRecord]]:
        for record, _ in self.log.records():
            if isinstance(record.body, ReadyRecord):
                yield record.seq, record.body


@contextmanager
def told_hook() -> Iterator[HookServer]:
    """A webhook that is up, for all cells."""
    with hook_server() as hook:
        hook.come_up()
        yield hook


def _rows(hour: int) -> list[bytes]:
    return [_row(n, hour + n % 2) if n % 5 else b"{%d" % n for n in range(_ROWS)]


def _row(number: int, hour: int) -> bytes:
    return event(number, ts_ms=_EIGHT_MS + (hour - 8) * _HOUR_MS)
