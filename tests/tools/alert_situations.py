"""For each alert a course of events in which it fires and then clears, for promtool's own rules."""

import json
from dataclasses import dataclass
from pathlib import Path

_OF = 'job_name="j",route="r",table="t"'


@dataclass(frozen=True, slots=True)
class Situation:
    """A course of events, a value a minute.

    Attributes:
        series: Name with labels -> values in promtool's short form.
        fires_at: Minute at which the alert fires.
        clear_at: Minute at which it does not any more.
    """

    series: dict[str, str]
    fires_at: int
    clear_at: int


SITUATIONS: dict[str, Situation] = {
    # Nothing is committed for half an hour, and rows wait; then a commit a minute.
    "StaleCommit": Situation(
        {
            f"sluiceway_last_commit_timestamp_seconds{{{_OF}}}": "0x30 1860+60x40",
            f'sluiceway_source_lag_records{{{_OF},topic="a"}}': "5x70",
        },
        fires_at=20,
        clear_at=45,
    ),
    "Lag": Situation(
        {f"sluiceway_source_lag_seconds{{{_OF}}}": "0x5 1000x30 0x30"}, fires_at=25, clear_at=45
    ),
    # Two topics: one grows, the other stays.
    "LagGrowing": Situation(
        {
            f'sluiceway_source_lag_records{{{_OF},topic="a"}}': "0+2000x60 0x60",
            f'sluiceway_source_lag_records{{{_OF},topic="b"}}': "500x120",
        },
        fires_at=45,
        clear_at=100,
    ),
    # Three, then one, then all are back.
    "PartitionsLeftOut": Situation(
        {f"sluiceway_source_partitions_left_out{{{_OF}}}": "0x5 3x8 1x20 0x30"},
        fires_at=20,
        clear_at=45,
    ),
    "DirtyRate": Situation(
        {
            f'sluiceway_records_read_total{{{_OF},topic="a"}}': "0+1000x90",
            f'sluiceway_records_dirty_total{{{_OF},reason="broken"}}': "0+100x40 4000x60",
        },
        fires_at=30,
        clear_at=60,
    ),
    "PartitionOverdue": Situation(
        {f"sluiceway_partitions_overdue{{{_OF}}}": "0x5 2x60 0x30"}, fires_at=60, clear_at=80
    ),
    "EpochFailing": Situation(
        {
            f'sluiceway_epochs_total{{{_OF},result="failed"}}': "0+2x30 60x60",
            f'sluiceway_job_state{{{_OF},state="waiting"}}': "0x90",
            f'sluiceway_job_state{{{_OF},state="running"}}': "1x90",
        },
        fires_at=20,
        clear_at=50,
    ),
    "FollowerBehind": Situation(
        {f'sluiceway_follower_behind_seconds{{{_OF},follower="catalog"}}': "0x5 700x30 0x30"},
        fires_at=20,
        clear_at=50,
    ),
    # A room that reports nothing counts as not ready; then it reports.
    "RoomNotReady": Situation(
        {
            f'sluiceway_room_ready{{{_OF},room="a"}}': "1x60",
            f'sluiceway_room_ready{{{_OF},room="b"}}': "1x5 0x20 1x35",
        },
        fires_at=15,
        clear_at=40,
    ),
    "RoomsInOnePlace": Situation(
        {f"sluiceway_rooms_in_one_place{{{_OF}}}": "0x5 1x20 0x35"}, fires_at=20, clear_at=40
    ),
    "RoomNotWaitedFor": Situation(
        {f'sluiceway_room_not_waited_for{{{_OF},room="b"}}': "0x5 1x20 0x35"},
        fires_at=10,
        clear_at=40,
    ),
    "NeedsConfirmation": Situation(
        {f'sluiceway_room_needs_confirmation{{{_OF},room="b"}}': "0x5 1x20 0x35"},
        fires_at=10,
        clear_at=40,
    ),
    "MirrorInexact": Situation(
        {
            f'sluiceway_room_positions{{{_OF},room="b",method="inside"}}': "8x60",
            f'sluiceway_room_positions{{{_OF},room="b",method="refused"}}': "0x5 2x20 0x35",
        },
        fires_at=20,
        clear_at=40,
    ),
    # A mirror that stands still, then has all; a moment without copies is no lag.
    "MirrorLag": Situation(
        {f'sluiceway_mirror_lag_records{{{_OF},room="b"}}': "0x5 200000x30 0x35"},
        fires_at=30,
        clear_at=60,
    ),
    "MirrorRepeats": Situation(
        {f'sluiceway_copies_dropped_total{{{_OF},topic="a"}}': "0+10000x90 900000x80"},
        fires_at=80,
        clear_at=150,
    ),
    "TwoGenerations": Situation(
        {f"sluiceway_cut_files_moved_total{{{_OF}}}": "0x10 3x100"}, fires_at=15, clear_at=100
    ),
    # Time begins at 0 here: a drill that ended 31 days before that, then a new one.
    "DrillOld": Situation(
        {f"sluiceway_last_drill_timestamp_seconds{{{_OF}}}": "-2678400x80 4800x60"},
        fires_at=70,
        clear_at=100,
    ),
    "RestartLoop": Situation(
        {'sluiceway_start_timestamp_seconds{job_name="j"}': "0 60 120 180 180x90"},
        fires_at=5,
        clear_at=60,
    ),
    # The other job is still there, so `absent` alone would say nothing.
    "NoData": Situation(
        {
            'sluiceway_build_info{job_name="j",version="1"}': "1x10 _x25 1x60",
            'sluiceway_build_info{job_name="k",version="1"}': "1x95",
        },
        fires_at=25,
        clear_at=45,
    ),
}


def write_test(folder: Path, rules: Path, alert: str, *, fires: bool) -> Path:
    """A test of promtool: the alert fires in its situation, or has cleared after it.

    Returns:
        The test's file.
    """
    found = SITUATIONS[alert]
    wanted = [{"labels": "{}", "value": 1}] if fires else []
    text = {
        "rule_files": [str(rules)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": values} for name, values in found.series.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
                        "eval_time": f"{found.fires_at if fires else found.clear_at}m",
                        "exp_samples": wanted,
                    }
                ],
            }
        ],
    }
    path = folder / f"{alert}-{'fires' if fires else 'clears'}.json"
    path.write_text(json.dumps(text))
    return path
