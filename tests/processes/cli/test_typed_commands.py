"""Commands in what the product says: each is one that there is, with the job file put in."""

import ast
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import sluiceway
from sluiceway.cli.app import VERBS, run_command
from sluiceway.cli.own_command import own_command
from sluiceway.cli.room_option import add_room_option
from sluiceway.cli.views.typed_commands import JOB_FILE, quoted, typed, typed_fields, typed_text
from sluiceway.observe.log import LogFormat, stderr_log

SOURCE = Path(sluiceway.__file__).parent
JOB = "/etc/my jobs/orders.yaml"
PUT_IN = {
    "self.route": "orders",
    "self._route": "orders",
    "slot": "7",
    "ledger.layout.route": "orders",
    "route.route": "orders",
    "route.config.route": "orders",
    "name": "orders",
    "named": "orders=7",
    "route": "orders",
    "command": "",
    "place": "--partition orders:0",
    "reset": "--to earliest --accept-gap",
    "to": "b",
    "room": "b",
    "given": "",
    "self.to": "b",
    "self.rule.room": "b",
    "term": "7",
    "latest": "7",
    "partition.topic": "table:ods.raw",
    "self._ledger().book.whole_from": "7",
}
"""What the names in such texts stand for."""
NO_JOB = (
    *("lab", "demo", "infer", "init", "explain", "completion", "schema", "dashboards"),
    *("list", "mirror-jar", "pack", "stop"),
)
"""Verbs whose texts name no job file."""


def texts_of(path: Path) -> Iterator[str]:
    """All texts of a module but its docstrings."""
    tree = ast.parse(path.read_text())
    left_out = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and isinstance(node.body[0], ast.Expr)
    }
    inside = {id(v) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for v in n.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(map(part_of, node.values))
        elif isinstance(node, ast.Constant) and id(node) not in left_out | inside:
            yield str(node.value)


def part_of(value: ast.expr) -> str:
    if isinstance(value, ast.Constant):
        return str(value.value)
    assert isinstance(value, ast.FormattedValue)
    return PUT_IN.get(ast.unparse(value.value), "{}")


def printed_commands() -> list[str]:
    found = []
    for path in SOURCE.rglob("*.py"):
        for text in texts_of(path):
            if re.match(r"sluiceway [a-z]+ ", text):
                found.append(text)
            found += re.findall(r"`(sluiceway [a-z]+[^`]*)`", text)
    # In the planner a route comes with its option.
    return [each.replace("JOBorders", "JOB --route orders") for each in found]


COMMANDS = sorted({each for each in printed_commands() if each.split()[1] not in NO_JOB})


def test_commands_are_found_in_the_source() -> None:
    assert len(COMMANDS) > 15
    assert "sluiceway run JOB --takeover orders=7" in COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_the_product_prints_is_one_that_it_takes(command: str) -> None:
    words = shlex.split(typed(command.replace("{route}", "orders"), JOB))
    args = words[len(shlex.split(own_command())) :]
    assert JOB in args
    assert not any(re.search(r"[{}]|\bJOB\b", word) for word in args)
    verb = next(verb for verb in VERBS if verb.name == args[0])
    app = typer.main.get_command(verb.app())
    add_room_option(app)
    with app.make_context(verb.name, args[1:]) as context:
        if isinstance(app, typer.core.TyperGroup):
            _, below, rest = app.resolve_command(context, args[1:])
            assert below is not None
            assert below.make_context(args[1], rest, parent=context).params["job_file"]
        else:
            # That of a submitted job may be named by its file.
            given = context.params.get("job_file") or context.params["job"]
            assert Path(given) == Path(JOB)


def test_texts_get_the_program_and_the_job_and_keep_all_else() -> None:
    text = "mend the JOB: `sluiceway verify JOB --deep` says, `columns` do not; JOB stays"
    assert typed_text(text, JOB) == (
        f"mend the JOB: `{own_command()} verify '{JOB}' --deep` says, `columns` do not; JOB stays"
    )
    assert typed_text(text, None).endswith("JOB stays")
    assert "verify JOB" in typed_text(text, None)


def test_program_and_job_of_a_log_line_can_be_pasted_in_every_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    fill = typed_fields(Path("orders.yaml"))
    log = stderr_log(log_format=LogFormat.JSON, fill=fill)
    commands = ("sluiceway status JOB", "sluiceway run JOB")
    log.error("route_halted", commands=commands, hint="see `sluiceway dirty list JOB`", topic="JOB")
    line = json.loads(capsys.readouterr().err)
    program, place = own_command(anywhere=True), shlex.quote(str(tmp_path / "orders.yaml"))
    assert line["commands"] == [f"{program} status {place}", f"{program} run {place}"]
    assert line["hint"] == f"see `{program} dirty list {place}`"
    assert line["topic"] == "JOB"


def test_job_of_one_command_is_not_that_of_the_next(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    missing = tmp_path / "orders.yaml"
    assert run_command(["status", str(missing)]) == 3
    assert JOB_FILE.get() == str(missing)
    assert run_command(["version"]) == 0
    assert JOB_FILE.get() is None
    capsys.readouterr()


@pytest.mark.parametrize(
    "word",
    [
        *("geo.tags[3]", "it's", "$(reboot)", "", "\u5317\u4eac"),
        *("two\nlines", "\x1b[201~\x03reboot\r", "it's \\ \u202e\tx", "\x7f\u2028"),
    ],
)
def test_quoted_word_is_one_printable_line_and_the_same_to_a_shell(word: str) -> None:
    command = quoted(word)
    assert command.isprintable()
    shell = ["bash", "-c", f"printf %s {command}"]
    told = subprocess.run(shell, env={"LC_ALL": "C.UTF-8"}, capture_output=True, check=True)
    assert told.stdout.decode() == word
