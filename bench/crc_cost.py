"""What it costs to check the checksum of every batch that is fetched: paired reads of one topic.

Each pair reads the same records with `check.crcs` off and on, in changing order, through the
product's own reader; the CPU is that of the whole process, the library's threads included. Pairs
are there because a machine changes its speed from minute to minute.

`python -m bench.crc_cost [--records 1000000] [--pairs 5]` ends with one JSON line.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.standard_events import create_topic, produce_events
from sluiceway.lab.lab import Lab
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.sources.kafka.consumer_cache import ConsumerCache
from sluiceway.sources.kafka.reader import KafkaSplitReader

TOPIC = "crcs"


def cpu_s(servers: str, records: int, *, checked: bool) -> float:
    """CPU seconds of reading the topic once."""
    cache = ConsumerCache()
    began = time.process_time()
    reader = KafkaSplitReader(
        [Split(SourcePartition(TOPIC, 0), 0, records)],
        bootstrap_servers=servers,
        properties={"check.crcs": "true" if checked else "false"},
        owner="bench",
        cache=cache,
    )
    while not reader.finished():
        reader.read(1.0)
    (end,) = reader.ends()
    reader.close(reusable=False)
    cache.close()
    if end.rows != records:
        raise SystemExit(f"{end.rows} of {records} records were read")
    return time.process_time() - began


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.crc_cost")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluiceway-crcs-") as folder:
        lab = Lab(Path(folder) / "lab")
        try:
            servers = lab.up().bootstrap_servers
            create_topic(servers, TOPIC, partitions=1)
            produce_events(servers, TOPIC, count=given.records)
            cpu_s(servers, given.records, checked=False)
            pairs = []
            for number in range(given.pairs):
                pair = {}
                for checked in (False, True) if number % 2 else (True, False):
                    pair[checked] = cpu_s(servers, given.records, checked=checked)
                pairs.append((pair[False], pair[True]))
        finally:
            lab.down()
    per_record = 1e6 / given.records
    figures = {
        "records": given.records,
        "pairs": given.pairs,
        "off_us": round(statistics.median(off for off, _ in pairs) * per_record, 3),
        "on_us": round(statistics.median(on for _, on in pairs) * per_record, 3),
        "median_difference_us": round(
            statistics.median(on - off for off, on in pairs) * per_record, 3
        ),
    }
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
