"""When somebody is to be told: alert rules, from which Prometheus' file is made.

Each has a text in cli/messages.toml under its name.
"""

from dataclasses import dataclass
from enum import StrEnum

from sluiceway.observe import metrics

_ROUTE = "job_name, route"


class Severity(StrEnum):
    """Whether somebody has to get up."""

    PAGE = "page"
    TICKET = "ticket"


@dataclass(frozen=True, slots=True)
class Alert:
    """One rule.

    Attributes:
        expression: PromQL; what it gives is what the alert is about.
        for_: How long that has to be so.
        summary: One line; `{{ $labels.route }}` stands for a label, `{{ $value }}` for the value.
        action: What to do first.
    """

    name: str
    expression: str
    for_: str
    severity: Severity
    summary: str
    action: str

    @property
    def anchor(self) -> str:
        """The anchor of its text in docs/reference/metrics.md."""
        return self.name.lower()


_LAG = f"sum by ({_ROUTE}) ({metrics.LAG_RECORDS.full_name})"
_HERE = "{{ $labels.job_name }}, route {{ $labels.route }}"

ALERTS: tuple[Alert, ...] = (
    Alert(
        "StaleCommit",
        f"time() - max by ({_ROUTE}) ({metrics.LAST_COMMIT.full_name}) > 600 and {_LAG} > 0",
        "5m",
        Severity.PAGE,
        f"{_HERE}: rows wait, and none was committed for {{{{ $value | humanizeDuration }}}}",
        "Look at `sluiceway status JOB`: a route that waits or has halted says why.",
    ),
    Alert(
        "Lag",
        f"max by ({_ROUTE}) ({metrics.LAG_SECONDS.full_name}) > 900",
        "10m",
        Severity.TICKET,
        f"{_HERE}: {{{{ $value | humanizeDuration }}}} behind",
        "Look whether it falls; if not, give the job more slots or look at its phases.",
    ),
    Alert(
        "LagGrowing",
        f"deriv({_LAG}[30m:1m]) > 0 and {_LAG} > 10000",
        "15m",
        Severity.TICKET,
        f"{_HERE}: more comes in than is committed, {{{{ $value | humanize }}}} records a second",
        "Give the job more slots, or look for what has become slow: `run --profile`.",
    ),
    Alert(
        "PartitionsLeftOut",
        f"max by ({_ROUTE}) ({metrics.PARTITIONS_LEFT_OUT.full_name}) > 0",
        "10m",
        Severity.PAGE,
        f"{_HERE}: {{{{ $value }}}} source partitions are left out, and no lag tells of their rows",
        "Look at the brokers that lead them: `sluiceway status JOB` names them and says why.",
    ),
    Alert(
        "DirtyRate",
        f"sum by ({_ROUTE}) (rate({metrics.RECORDS_DIRTY.full_name}[10m]))"
        f" / sum by ({_ROUTE}) (rate({metrics.RECORDS_READ.full_name}[10m])) > 0.01",
        "5m",
        Severity.TICKET,
        f"{_HERE}: {{{{ $value | humanizePercentage }}}} of the rows are dirty",
        "Look at them with `sluiceway dirty list JOB`; mend the producer or the job file, replay.",
    ),
    Alert(
        "PartitionOverdue",
        f"sum by ({_ROUTE}) ({metrics.PARTITIONS_OVERDUE.full_name}) > 0",
        "30m",
        Severity.PAGE,
        f"{_HERE}: {{{{ $value }}}} hours (or days) should have been announced",
        "Ask `sluiceway partitions why JOB PARTITION` what holds the first of them.",
    ),
    Alert(
        "EpochFailing",
        f"sum by ({_ROUTE})"
        f' (increase({metrics.EPOCHS.full_name}{{result="failed"}}[10m])) >= 3'
        f" or max by ({_ROUTE})"
        f' ({metrics.JOB_STATE.full_name}{{state=~"waiting|halted"}}) == 1',
        "5m",
        Severity.PAGE,
        f"{_HERE}: epochs fail, or the route waits or has halted",
        "Look at `sluiceway status JOB`; it shows the reason and the next command.",
    ),
    Alert(
        "FollowerBehind",
        f"max by ({_ROUTE}, follower) ({metrics.FOLLOWER_BEHIND_SECONDS.full_name}) > 600",
        "5m",
        Severity.TICKET,
        f"{_HERE}: {{{{ $labels.follower }}}} is {{{{ $value | humanizeDuration }}}} behind",
        "Rows are safe. Look whether what it writes to answers: metastore, store, topic.",
    ),
    Alert(
        "RestartLoop",
        f"max by (job_name) (changes({metrics.STARTED.full_name}[30m])) >= 3"
        f" or sum by ({_ROUTE})"
        f' (increase({metrics.RECOVERIES.full_name}{{kind="start"}}[30m])) >= 5',
        "0m",
        Severity.PAGE,
        "{{ $labels.job_name }}: it starts again and again",
        "Look at the driver's log for why it ended; two drivers of one job fence each other.",
    ),
    Alert(
        "NoData",
        f"max by (job_name) (max_over_time({metrics.BUILD_INFO.full_name}[1h]))"
        f" unless max by (job_name) ({metrics.BUILD_INFO.full_name})"
        f" or absent({metrics.BUILD_INFO.full_name})",
        "5m",
        Severity.PAGE,
        "{{ $labels.job_name }}: it was there within the last hour and tells nothing any more",
        "Look whether the driver runs and its port is open; after a stop on purpose, silence it.",
    ),
)
