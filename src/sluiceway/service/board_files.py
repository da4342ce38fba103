"""Files for Grafana and Prometheus, made of the boards and alerts."""

import json
from pathlib import Path
from typing import Any

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.observe.metrics import BUILD_INFO, JOB_STATE
from sluiceway.service.alerts import ALERTS, Alert
from sluiceway.service.boards import BOARDS, JOB_BOARD, ROUTE_BOARD, Board, Panel, PanelKind

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
    """Write all files; those that are there are replaced. Called by the command.

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
