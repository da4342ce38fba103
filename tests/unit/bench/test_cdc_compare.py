"""Comparing keyed tables: the stream of changes, Flink's SQL, what the closing line says."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def bench() -> Iterator[dict[str, Any]]:
    names = ("cdc_changes", "cdc_compare", "cdc_engines", "lake_runs", "process_tree")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[3])
        yield {name: importlib.import_module(f"bench.{name}") for name in names}


def test_stream_told_twice_is_the_same_and_its_fold_is_what_it_holds(
    bench: dict[str, Any],
) -> None:
    made = bench["cdc_changes"]
    stream, again = made.ChangeStream(50, seed=7), made.ChangeStream(50, seed=7)
    told = [*stream.snapshot(), *stream.changes(2_000)]
    assert told == [*again.snapshot(), *again.changes(2_000)]
    rows: dict[int, dict[str, Any]] = {}
    kinds = set()
    for change in told:
        message = json.loads(change.value)
        kinds.add(message["op"])
        assert message["before"] == (None if message["op"] in "rc" else rows[change.key])
        if message["op"] == "d":
            del rows[change.key]
        else:
            rows[change.key] = message["after"]
            assert message["after"]["id"] == change.key
    assert kinds == {"r", "c", "u", "d"}
    assert stream.held() == made.Held(
        rows=len(rows),
        ids=sum(rows),
        quantities=sum(row["quantity"] for row in rows.values()),
        cents=sum(round(float(row["amount"]) * 100) for row in rows.values()),
        updated_ms=sum(row["updated_ms"] for row in rows.values()),
        note_letters=sum(len(row["note"]) for row in rows.values()),
    )


def test_flink_upserts_by_the_key_up_to_the_ends_that_it_is_told(bench: dict[str, Any]) -> None:
    engines = bench["cdc_engines"]
    servers = bench["lake_runs"].Servers("broker:1", "http://catalog")
    sql = engines.flink_statements(servers, "topic", "t", [5, 7])
    assert "'scan.bounded.specific-offsets' = 'partition:0,offset:5;partition:1,offset:7'" in sql[0]
    assert "`id` BIGINT NOT NULL" in sql[0]
    assert "PRIMARY KEY (`id`) NOT ENFORCED" in sql[3]
    assert "'write.upsert.enabled' = 'true'" in sql[3]
    assert "`amount` DECIMAL(18,2)" in sql[3]


def test_closing_line_has_slopes_and_ratios(bench: dict[str, Any]) -> None:
    compare = bench["cdc_compare"]

    def usage(cpu_s: float) -> Any:
        return bench["process_tree"].TreeUsage(0, cpu_s, cpu_s, cpu_s, cpu_s, 1, 0.0, 1, 0)

    hour = compare.Hour(
        held=bench["cdc_changes"].Held(10, 1, 1, 1, 1, 1),
        changes=360,
        changed_bytes=1_000,
        written={
            "ours": compare.Written(500, 2_000_000),
            "flink": compare.Written(250, 4_000_000),
        },
        usage={"ours": usage(10.0), "flink": usage(20.0)},
        layout={"ours": compare.Layout(120, 7, 1), "flink": compare.Layout(121, 240, 240)},
    )
    runs = {"ours": [usage(10.0), usage(12.0)], "flink": [usage(12.0), usage(22.0)]}
    scans = {"ours": [1.0, 9.0, 1.2], "fresh": [1.0, 1.0, 1.0], "flink": [12.0, 30.0]}
    told = compare.closing((1_000_000, 2_000_000), runs, hour, scans)
    assert told["cpu_us"] == {"ours": 2.0, "flink": 10.0}
    assert told["cpu_ratio"] == 5.0
    assert told["scan_s"] == {"ours": 1.2, "fresh": 1.0, "flink": 12.0}
    assert (told["scan_ratio_flink"], told["scan_to_fresh"]) == (10.0, 1.2)
    assert told["written_per_changed_byte"] == {"ours": 0.5, "flink": 0.25}
    assert told["metadata_mb"] == {"ours": 2.0, "flink": 4.0}
    assert told["delete_files"] == {"ours": 1, "flink": 240}
