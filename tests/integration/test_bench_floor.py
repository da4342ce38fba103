"""The benchmark's floor: the bare parts are measured with the consumer that a job would use."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sluiceway.lab.lab import LabEndpoints
from tools.kafka_consumers import CONSUMERS, choose_consumer
from tools.lab_fixture import TopicFactory

RECORDS = 25_000


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_floor_is_measured_with_the_consumer_that_is_used(
    tmp_path: Path,
    lab_endpoints: LabEndpoints,
    new_topic: TopicFactory,
    monkeypatch: pytest.MonkeyPatch,
    consumer: str,
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    floor: Any = importlib.import_module("bench.floor")
    ours: Any = importlib.import_module("bench.ours")
    events: Any = importlib.import_module("bench.standard_events")
    workloads: Any = importlib.import_module("bench.workloads")
    choose_consumer(monkeypatch, consumer)
    topic = new_topic(2)
    events.produce_events(lab_endpoints.bootstrap_servers, topic, count=RECORDS)
    text = ours.job_text(
        workloads.WORKLOADS["standard"],
        lab_endpoints,
        ours.JobChoices(),
        topic=topic,
        name="floor",
        location=tmp_path / "table",
    )
    job = tmp_path / "job.yaml"
    job.write_text(text)
    taken: list[Sequence[bytes | None]] = []
    decode = floor._decode

    def watched(route: object, batches: Sequence[Any]) -> object:
        taken.extend(batch.values for batch in batches)
        return decode(route, batches)

    monkeypatch.setattr(floor, "_decode", watched)
    found = floor.measure_floor(job, RECORDS)
    assert sum(len(values) for values in taken) == RECORDS
    assert all(isinstance(values, list) for values in taken) is (consumer == "library")
    assert min(found.consume_us, found.decode_us, found.write_us) > 0
