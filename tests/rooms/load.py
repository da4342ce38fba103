"""Rows for a topic of several rooms: a steady stream, some in transactions that are aborted."""

import threading
import time

from confluent_kafka import KafkaException, Producer

from tools.job_files import event

_PAUSE_S = 0.02
_ABORT_EVERY = 40
_FLUSH_S = 60.0
_BEGIN_MS = 1_795_161_600_000
QUICK_STEP_MS = 50
"""From a row's time to the next row's, where a table has a folder for each minute."""
BY_MINUTE = '[{name: dt, event_time: "yyyyMMdd"}, {name: hm, event_time: "HHmm"}]'
EVENT_TIME = "{field: ts, unit: ms, out_of_orderness: 1m, idle_after: 20s}"
"""So that minutes are announced before a room is lost."""


class Load:
    """Writes to a topic until it is closed.

    Args:
        servers: The brokers.
        topic: Where rows go, to its partitions in turn.
        partitions: How many it has.
        first: Number of the first row; each row has its own.
        step_ms: From a row's time to the next row's.

    Attributes:
        acknowledged: Rows outside of transactions that all replicas in sync have.
    """

    def __init__(
        self, servers: str, topic: str, partitions: int, *, first: int = 0, step_ms: int = 1000
    ) -> None:
        self._settings = {"bootstrap.servers": servers, "log_level": 0}
        self._topic = topic
        self._partitions = partitions
        self._next = self._first = first
        self._step_ms = step_ms
        self._begin_ms = _BEGIN_MS
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.acknowledged = 0

    @property
    def time_ms(self) -> int:
        """Time of the next row."""
        return self._begin_ms + (self._next - self._first) * self._step_ms

    def start(self, begin_ms: int = _BEGIN_MS) -> None:
        """Begin, with this time of the first row."""
        self._begin_ms = begin_ms
        self._thread.start()

    def close(self) -> None:
        """Write no more, and wait until the brokers have all of it."""
        self._ending.set()
        self._thread.join(_FLUSH_S)
        assert not self._thread.is_alive(), "the load does not end"

    def _run(self) -> None:
        producer = Producer({**self._settings, "enable.idempotence": True, "acks": "all"})
        rounds = 0
        while not self._ending.is_set():
            for partition in range(self._partitions):
                producer.produce(
                    self._topic, self._event(), partition=partition, on_delivery=self._delivered
                )
            rounds += 1
            producer.poll(0)
            if rounds % _ABORT_EVERY == 0:
                self._abort_quietly()
            time.sleep(_PAUSE_S)
        producer.flush(_FLUSH_S)

    def _event(self) -> bytes:
        at_ms = self.time_ms
        number, self._next = self._next, self._next + 1
        # The payload's time is that of its number in seconds later.
        return event(number, ts_ms=at_ms - number * 1000)

    def _delivered(self, error: object, message: object) -> None:
        del message
        self.acknowledged += error is None

    def _abort_quietly(self) -> None:
        """A lost room may keep it from being done: the broker then ends the transaction."""
        try:
            self._abort()
        except KafkaException:
            return

    def _abort(self) -> None:
        """Write rows in a transaction that does not come to its end."""
        producer = Producer(
            {**self._settings, "transactional.id": f"{self._topic}-aborts", "acks": "all"}
        )
        producer.init_transactions(5.0)
        producer.begin_transaction()
        for partition in range(self._partitions):
            producer.produce(self._topic, self._event(), partition=partition)
        producer.flush(5.0)
        producer.abort_transaction(5.0)
