"""Files for Grafana and Prometheus, made of the boards and alerts."""

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.observe import metrics
from sluiceway.observe.metrics import BUILD_INFO, JOB_STATE
from sluiceway.service.boards import BOARDS, JOB_BOARD, ROUTE_BOARD, Board, Panel, PanelKind

_ROUTE = "job_name, route"


class Severity(StrEnum):
    """Whether a person has to get up."""

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
        f"{_HERE}: {{{{ $value }}}} source partitions are left out, and no lag counts their rows",
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
        "RoomNotReady",
        f"min by ({_ROUTE}, room) ({metrics.ROOM_READY.full_name}) == 0",
        "5m",
        Severity.PAGE,
        f"{_HERE}: room {{{{ $labels.room }}}} could not take over, or reports nothing",
        "Ask `sluiceway status JOB`: it says what the room lacks. Start its driver if it has none.",
    ),
    Alert(
        "RoomsInOnePlace",
        f"max by ({_ROUTE}) ({metrics.ROOMS_IN_ONE_PLACE.full_name}) == 1",
        "10m",
        Severity.TICKET,
        f"{_HERE}: rows of its source may be in one room only",
        "Ask `sluiceway status JOB`: it names the topic and the setting that has to change.",
    ),
    Alert(
        "RoomNotWaitedFor",
        f"max by ({_ROUTE}, room) ({metrics.ROOM_NOT_WAITED_FOR.full_name}) == 1",
        "0m",
        Severity.TICKET,
        f"{_HERE}: rows are read before room {{{{ $labels.room }}}} has copies of them",
        "Look why that room is silent or not ready: `sluiceway status JOB`, its mirror and driver.",
    ),
    Alert(
        "NeedsConfirmation",
        f"max by ({_ROUTE}, room) ({metrics.ROOM_NEEDS_CONFIRMATION.full_name}) == 1",
        "0m",
        Severity.PAGE,
        f"{_HERE}: room {{{{ $labels.room }}}} could take over, and an operator has to confirm it",
        "If the other room is lost, run the command that `sluiceway status JOB` shows.",
    ),
    Alert(
        "MirrorInexact",
        f"sum by ({_ROUTE}, room)"
        f' ({metrics.ROOM_POSITIONS.full_name}{{method=~"refused|.*needs.*"}}) > 0',
        "5m",
        Severity.TICKET,
        f"{_HERE}: {{{{ $value }}}} source partitions have no exact place in room"
        " {{ $labels.room }}",
        "Ask `sluiceway status JOB` and `sluiceway switch JOB --to ROOM`: they say why.",
    ),
    Alert(
        "MirrorLag",
        f"max by ({_ROUTE}, room) (min_over_time({metrics.MIRROR_LAG.full_name}[10m])) > 100000",
        "5m",
        Severity.TICKET,
        f"{_HERE}: {{{{ $value | humanize }}}} records are not copied to room"
        " {{ $labels.room }}",
        "Look whether the mirror runs; a lost room would take these rows with it.",
    ),
    Alert(
        "MirrorRepeats",
        f"sum by ({_ROUTE}) (increase({metrics.COPIES_DROPPED.full_name}[30m])) > 100000",
        "30m",
        Severity.TICKET,
        f"{_HERE}: the mirror repeats rows, {{{{ $value | humanize }}}} in half an hour",
        "Rows are safe. Look why the mirror starts again and again: its log, its offset topic.",
    ),
    Alert(
        "TwoGenerations",
        f"sum by ({_ROUTE}) (increase({metrics.CUT_FILES_MOVED.full_name}[1h])) > 0",
        "0m",
        Severity.PAGE,
        f"{_HERE}: files of the lost room still arrive, {{{{ $value | humanize }}}} in an hour",
        "Stop the copier. See whether a driver of that room lives: its table is another one now.",
    ),
    Alert(
        "DrillOld",
        f"time() - max by ({_ROUTE}) ({metrics.LAST_DRILL.full_name}) > {30 * 86_400}",
        "1h",
        Severity.TICKET,
        f"{_HERE}: the last drill was {{{{ $value | humanizeDuration }}}} ago",
        "Run `sluiceway drill JOB --to ROOM --back` at a quiet hour.",
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
        "{{ $labels.job_name }}: it was there within the last hour and reports nothing any more",
        "Look whether the driver runs and its port is open; after a stop on purpose, silence it.",
    ),
)


RULES_FILE = "sluiceway-rules.yml"
_RUNBOOK = "docs/reference/metrics.md#"
_COLUMNS = 24
_SIZES = {PanelKind.CHART: (12, 8), PanelKind.NUMBER: (6, 4), PanelKind.TABLE: (24, 7)}
"""Width and height."""
PAGE = "http://127.0.0.1:8090/"
"""Where the page is served, unless said."""
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def board_json(board: Board, page: str = PAGE) -> dict[str, Any]:
    """A board as Grafana imports it.

    Args:
        board: What it shows.
        page: Where the page is served, which its links lead to.
    """
    return {
        "uid": board.uid,
        "title": board.title,
        "tags": ["sluiceway"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "",
        "templating": {"list": [_source_variable(), *_variables(board)]},
        "links": [
            {"type": "dashboards", "title": "Sluiceway", "tags": ["sluiceway"], **_KEPT},
            {"type": "link", "title": "The page", "url": page, "targetBlank": True, "icon": "info"},
        ],
        "panels": _panels(board, page),
    }


_KEPT = {"asDropdown": False, "keepTime": True, "includeVars": True}


def _panels(board: Board, page: str) -> list[dict[str, Any]]:
    """From left to right, row by row."""
    made, x, y, below = [], 0, 0, 0
    for number, panel in enumerate(board.panels, 1):
        width, height = _SIZES[panel.kind]
        if x + width > _COLUMNS:
            x, y = 0, below
        place = {"x": x, "y": y, "w": width, "h": height}
        made.append({"id": number, "gridPos": place, **_panel_json(panel, page)})
        x, below = x + width, max(below, y + height)
    return made


def _source_variable() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
    }


def _variables(board: Board) -> list[dict[str, Any]]:
    found = []
    chosen: list[str] = []
    for name in board.variables:
        of = BUILD_INFO if name == "job_name" else JOB_STATE
        query = f"label_values({of.full_name}{{{','.join(chosen)}}}, {name})"
        found.append(
            {
                "name": name,
                "type": "query",
                "datasource": _SOURCE,
                "query": {"query": query, "refId": name},
                "definition": query,
                "refresh": 2,
                "includeAll": True,
                "allValue": ".*",
                "multi": True,
                "current": {"text": "All", "value": "$__all"},
            }
        )
        chosen.append(f'{name}=~"${name}"')
    return found


def _panel_json(panel: Panel, page: str) -> dict[str, Any]:
    is_table = panel.kind is PanelKind.TABLE
    kind = {"format": "table", "instant": True} if is_table else {}
    made: dict[str, Any] = {
        "type": panel.kind.value,
        "title": panel.title,
        "description": panel.help,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend.strip(),
                **kind,
            }
            for number, query in enumerate(panel.queries)
        ],
    }
    if panel.kind is PanelKind.NUMBER:
        made["fieldConfig"]["defaults"]["thresholds"] = _thresholds(panel)
        made["options"] = {"colorMode": "background", "reduceOptions": {"calcs": ["lastNotNull"]}}
    if is_table:
        made["options"] = {"showHeader": True, "footer": {"show": False}}
        made["fieldConfig"]["overrides"] = [_linked(*each) for each in _table_links(page)]
        names = {"Value": "overdue for"}
        organize = {"excludeByName": {"Time": True}, "renameByName": names}
        made["transformations"] = [{"id": "organize", "options": organize}]
    return made


def _thresholds(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    colours = (("yellow", panel.yellow), ("red", panel.red))
    steps += [{"color": name, "value": value} for name, value in colours if value is not None]
    return {"mode": "absolute", "steps": steps}


def _table_links(page: str) -> tuple[tuple[str, str, str], ...]:
    """Column, title and address: of its job's board, its route's, and its hours on the page."""
    job = "var-job_name=${__data.fields.job_name}"
    route = f"{job}&var-route=${{__data.fields.route}}"
    return (
        ("job_name", "The job", f"/d/{JOB_BOARD.uid}?{job}"),
        ("route", "The route", f"/d/{ROUTE_BOARD.uid}?{route}"),
        ("prefix", "Its hours on the page", f"{page}#/job/${{__data.fields.job_name}}/hours"),
    )


def _linked(column: str, title: str, url: str) -> dict[str, Any]:
    links = [{"title": title, "url": url, "targetBlank": url.startswith("http")}]
    return {
        "matcher": {"id": "byName", "options": column},
        "properties": [{"id": "links", "value": links}],
    }


def rules_text() -> str:
    """The alert rules as Prometheus reads them: YAML, whose texts are written as JSON."""
    lines = ["# Made by `sluiceway dashboards export`.", "groups:", "  - name: sluiceway"]
    lines.append("    rules:")
    for alert in ALERTS:
        lines += _rule_lines(alert)
    return "\n".join(lines) + "\n"


def _rule_lines(alert: Alert) -> list[str]:
    return [
        f"      - alert: {alert.name}",
        f"        expr: {json.dumps(alert.expression)}",
        f"        for: {alert.for_}",
        f"        labels: {{severity: {alert.severity.value}}}",
        "        annotations:",
        f"          summary: {json.dumps(alert.summary)}",
        f"          description: {json.dumps(alert.action)}",
        f"          runbook: {json.dumps(_RUNBOOK + alert.anchor)}",
    ]


def export(folder: Path, page: str = PAGE) -> tuple[Path, ...]:
    """Write all files; existing ones are replaced. Called by the command.

    Args:
        folder: Made when it is missing.
        page: Where the page is served, which the boards' links lead to.

    Returns:
        What was written, boards first.

    Raises:
        UnhealthyEnvironmentError: They cannot be written.
    """
    texts = {
        f"{board.uid}.json": json.dumps(board_json(board, page), indent=2) + "\n"
        for board in BOARDS
    }
    texts[RULES_FILE] = rules_text()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, "utf-8")
    except OSError as error:
        raise UnhealthyEnvironmentError(
            f"the files cannot be written: {error.strerror or error}",
            where=str(error.filename or folder),
            hint="name a folder that you may write with --dir",
        ) from error
    return tuple(folder / name for name in texts)
