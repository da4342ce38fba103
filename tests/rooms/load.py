"""Rows for a stretched topic: a steady stream, some of them in transactions that are aborted."""

import threading
import time

from confluent_kafka import KafkaException, Producer

from tools.job_files import event

_PAUSE_S = 0.02
_ABORT_EVERY = 40
_FLUSH_S = 60.0


class Load:
    """Writes to a topic until it is closed.

    Args:
        servers: The brokers.
        topic: Where rows go, to its partitions in turn.
        partitions: How many it has.

    Attributes:
        acknowledged: Rows outside of transactions that all replicas in sync have.
    """

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self._settings = {"bootstrap.servers": servers, "log_level": 0}
        self._topic = topic
        self._partitions = partitions
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.acknowledged = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Write no more, and wait until the brokers have all of it."""
        self._ending.set()
        self._thread.join(_FLUSH_S)
        assert not self._thread.is_alive(), "the load does not end"

    def _run(self) -> None:
        producer = Producer({**self._settings, "enable.idempotence": True, "acks": "all"})
        number = 0
        while not self._ending.is_set():
            for partition in range(self._partitions):
                producer.produce(
                    self._topic, event(number), partition=partition, on_delivery=self._delivered
                )
            number += 1
            producer.poll(0)
            if number % _ABORT_EVERY == 0:
                self._abort_quietly(number)
            time.sleep(_PAUSE_S)
        producer.flush(_FLUSH_S)

    def _delivered(self, error: object, message: object) -> None:
        del message
        self.acknowledged += error is None

    def _abort_quietly(self, number: int) -> None:
        """A lost room may keep it from being done: the broker then ends the transaction."""
        try:
            self._abort(number)
        except KafkaException:
            return

    def _abort(self, number: int) -> None:
        """Write rows in a transaction that does not come to its end."""
        producer = Producer(
            {**self._settings, "transactional.id": f"{self._topic}-aborts", "acks": "all"}
        )
        producer.init_transactions(5.0)
        producer.begin_transaction()
        for partition in range(self._partitions):
            producer.produce(self._topic, event(number), partition=partition)
        producer.flush(5.0)
        producer.abort_transaction(5.0)
