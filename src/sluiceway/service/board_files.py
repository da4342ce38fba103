"""Files for Grafana and Prometheus, made of the boards and alerts."""

import json
from pathlib import Path
from typing import Any

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.observe.metrics import BUILD_INFO, JOB_STATE
from sluiceway.service.alerts import ALERTS, Alert
from sluiceway.service.boards import BOARDS, Board, Panel

RULES_FILE = "sluiceway-rules.yml"
_RUNBOOK = "docs/runbook.md#"
_COLUMNS, _WIDTH, _HEIGHT = 24, 12, 8
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def board_json(board: Board) -> dict[str, Any]:
    """A board as Grafana imports it."""
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
        "panels": [_panel_json(panel, place) for place, panel in enumerate(board.panels)],
    }


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


def _panel_json(panel: Panel, place: int) -> dict[str, Any]:
    row, column = divmod(place, _COLUMNS // _WIDTH)
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.help,
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend.strip(),
            }
            for number, query in enumerate(panel.queries)
        ],
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


def export(folder: Path) -> tuple[Path, ...]:
    """Write all files; those that are there are replaced. Called by the command.

    Args:
        folder: Made when it is missing.

    Returns:
        What was written, boards first.

    Raises:
        UnhealthyEnvironmentError: They cannot be written.
    """
    texts = {
        f"{board.uid}.json": json.dumps(board_json(board), indent=2) + "\n" for board in BOARDS
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
