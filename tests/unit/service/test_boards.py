"""Boards and alert rules name only what there is, and their files are well-formed."""

import json
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from sluiceway.cli.app import run_command
from sluiceway.observe.metrics import METRICS, MetricKind
from sluiceway.service.board_files import ALERTS, RULES_FILE
from sluiceway.service.boards import BOARDS
from tools import boards_check
from tools.alert_situations import SITUATIONS

ROOT = Path(__file__).parents[3]
_NAME = re.compile(r"sluiceway_[a-z0-9_]+")
_SELECTOR = re.compile(r"(sluiceway_[a-z0-9_]+)\{([^}]*)\}")
_LABEL = re.compile(r"([a-z_]+)(?:=~?|!=)\"")
_BY = re.compile(r"by \(([^)]*)\)")


def expressions() -> list[str]:
    panels = [panel for board in BOARDS for panel in board.panels]
    return [
        *(query.expression for panel in panels for query in panel.queries),
        *(alert.expression for alert in ALERTS),
    ]


def series_names() -> dict[str, set[str]]:
    """Names as they stand on the page, with their labels."""
    found = {}
    for metric in METRICS:
        labels = set(metric.all_labels)
        if metric.kind is MetricKind.HISTOGRAM:
            found[f"{metric.full_name}_bucket"] = labels | {"le"}
        else:
            found[metric.full_name] = labels
    return found


def test_expressions_name_only_metrics_that_exist() -> None:
    known = series_names()
    named = [name for text in expressions() for name in _NAME.findall(text)]
    assert len(named) > 60
    assert [name for name in named if name not in known] == []


def test_expressions_use_only_labels_that_their_metrics_have() -> None:
    known = series_names()
    wrong = []
    for text in expressions():
        labels = set.union(*(known[name] for name in _NAME.findall(text)))
        used = {label for _, inner in _SELECTOR.findall(text) for label in _LABEL.findall(inner)}
        used |= {label.strip() for inner in _BY.findall(text) for label in inner.split(",")}
        wrong += [(text, label) for label in used - labels]
    assert wrong == []


def test_every_metric_is_on_a_board() -> None:
    text = " ".join(expressions())
    assert [m.name for m in METRICS if m.full_name not in text] == []


def test_board_without_a_variable_does_not_choose_by_it() -> None:
    for board in BOARDS:
        for panel in board.panels:
            for query in panel.queries:
                used = set(re.findall(r"\$(job_name|route)\b", query.expression))
                assert used == set(board.variables), (board.title, panel.title)


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    assert run_command(["dashboards", "export", "--dir", str(tmp_path / "new" / "boards")]) == 0
    return tmp_path / "new" / "boards"


def test_exported_boards_are_whole(exported: Path) -> None:
    for board in BOARDS:
        made = json.loads((exported / f"{board.uid}.json").read_text())
        assert [panel["title"] for panel in made["panels"]] == [p.title for p in board.panels]
        assert len({panel["id"] for panel in made["panels"]}) == len(board.panels)
        places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in made["panels"]}
        assert len(places) == len(board.panels)
        assert all(panel["targets"] for panel in made["panels"])
        cells = [
            (x, y)
            for at in (panel["gridPos"] for panel in made["panels"])
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        ]
        # None is over another one, or beyond the right side.
        assert len(cells) == len(set(cells))
        assert max(x for x, _ in cells) < 24
        names = [each["name"] for each in made["templating"]["list"]]
        assert names == ["datasource", *board.variables]


def test_first_row_of_each_board_says_in_numbers_what_needs_somebody(exported: Path) -> None:
    for board in BOARDS:
        made = json.loads((exported / f"{board.uid}.json").read_text())
        first = [panel for panel in made["panels"] if panel["gridPos"]["y"] == 0]
        assert [panel["title"] for panel in first] == [
            *("Routes not running", "Overdue hours", "Oldest uncommitted record", "Dirty share")
        ]
        assert {panel["type"] for panel in first} == {"stat"}
        steps = [panel["fieldConfig"]["defaults"]["thresholds"]["steps"] for panel in first]
        assert [each[-1] for each in steps] == [
            {"color": "red", "value": value} for value in (1, 1, 900, 0.01)
        ]
        assert all(each[0] == {"color": "green", "value": None} for each in steps)


def test_boards_link_to_each_other_and_to_the_page(tmp_path: Path) -> None:
    page = "https://ingest.example:8090"
    where = str(tmp_path / "boards")
    assert run_command(["dashboards", "export", "--dir", where, "--page", page]) == 0
    for board in BOARDS:
        made = json.loads((tmp_path / "boards" / f"{board.uid}.json").read_text())
        boards, of_page = made["links"]
        assert (boards["type"], boards["tags"], made["tags"]) == (
            *("dashboards", ["sluiceway"], ["sluiceway"]),
        )
        assert boards["includeVars"] is True
        assert of_page["url"] == f"{page}/"
        (table,) = [panel for panel in made["panels"] if panel["type"] == "table"]
        links = [each["properties"][0]["value"][0] for each in table["fieldConfig"]["overrides"]]
        assert [each["url"].partition("?")[0] for each in links] == [
            "/d/sluiceway-job",
            "/d/sluiceway-route",
            f"{page}/#/job/${{__data.fields.job_name}}/hours",
        ]
    assert run_command(["dashboards", "export", "--dir", where, "--page", "ingest"]) == 2


def test_exported_rules_are_well_formed(exported: Path) -> None:
    found = YAML(typ="safe").load((exported / RULES_FILE).read_text())
    rules = found["groups"][0]["rules"]
    assert [rule["alert"] for rule in rules] == [alert.name for alert in ALERTS]
    assert [rule["expr"] for rule in rules] == [alert.expression for alert in ALERTS]
    for rule in rules:
        assert re.fullmatch(r"[0-9]+[smh]", rule["for"])
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]


def test_alerts_are_those_of_the_design_each_with_a_situation_and_a_paragraph() -> None:
    names = [alert.name for alert in ALERTS]
    assert names == [
        *("StaleCommit", "Lag", "LagGrowing", "PartitionsLeftOut", "DirtyRate"),
        *("PartitionOverdue", "EpochFailing", "FollowerBehind"),
        *("RoomNotReady", "RoomsInOnePlace", "RoomNotWaitedFor", "NeedsConfirmation"),
        *("MirrorInexact", "MirrorLag", "MirrorRepeats", "TwoGenerations", "DrillOld"),
        *("RestartLoop", "NoData"),
    ]
    assert list(SITUATIONS) == names
    reference = (ROOT / "docs/reference/metrics.md").read_text()
    assert [name for name in names if f"\n### {name}\n" not in reference] == []


def test_files_that_cannot_be_written_end_in_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run_command(["dashboards", "export", "--dir", str(tmp_path / "file")]) == 5
    assert "the files cannot be written" in capsys.readouterr().err


def test_check_names_what_is_missing_and_does_not_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert boards_check.main() == 1
    told = capsys.readouterr()
    assert "prometheus, promtool missing" in told.err
    assert told.out == ""
