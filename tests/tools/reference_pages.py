"""The pages of docs/reference that are made of code alone: one function for each page."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import typer

from sluiceway.cli.app import GROUPS, VERBS
from sluiceway.cli.room_option import add_room_option
from sluiceway.cli.views.messages import MessagePage, read_messages
from sluiceway.errors import SluicewayError
from sluiceway.jobfile.json_schema import job_file_schema
from sluiceway.lab import demo  # noqa: F401 - defines SW490
from sluiceway.observe.metrics import METRICS
from sluiceway.service.board_files import ALERTS

_MADE = "<!-- `make docs` writes this page. -->\n"
_DEFINITION = "#/definitions/"
_REPEATED = {
    "FieldOverride": "Every key of a column above, except `name`, `path`, `constant` and "
    "`expression`."
}
"""Blocks whose keys are those of another."""
_SHARED = frozenset({"install_completion", "show_completion"})
_OF_COURSE = re.compile(
    r"(?:;|\.) None (?:(?:\w+ )+(?:none|nothing|no [a-z ]+)|without(?: one)?|otherwise)(?=\.$)"
)
"""What a key that is not there does not do: a reader expects no less."""
_WORTH = 6
"""With fewer words a text stands again where it counts; a longer one leads to its first place."""


def table(rows: list[list[str]]) -> str:
    """Rows as Markdown, the first one as their head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines) + "\n"


def _of(kind: str) -> list[MessagePage]:
    return [page for page in read_messages() if page.kind == kind]


# Errors


def errors() -> str:
    """Every error: its code, exit code, meaning and next step; then the states of `status`."""
    exits = _exit_codes()
    parts = [
        "# Errors\n",
        _MADE,
        "Errors go to stderr as `error[CODE] place: message`, with a hint below. `sluiceway "
        "explain CODE` prints "
        "these texts offline, and `SLUICEWAY_DEBUG=1` adds the traceback. The exit code is 1 where "
        "none is named.\n",
        "**Keep the folder `_sluiceway` of a table as it is.** Never remove, rename or edit "
        "anything in it to end an "
        "error. To start the same job again is always safe.\n",
        "| exit code | of a command |\n|---|---|\n"
        "| 0 | done |\n| 1 | an error without a code of its own below, or a check that found "
        "something |\n"
        "| 2 | wrong arguments |\n| 3 | the job file is not valid |\n"
        "| 4 | `plan --detailed-exitcode`: something would change, or the next run would stop |\n"
        "| 5 | something outside is missing or unfit |\n| 6 | dirty rows |\n"
        "| 7 | ledger, table and source do not agree |\n| 130 | a second Ctrl-C |\n",
    ]
    for page in _of("errors"):
        code = page.names[0]
        title = page.title.partition(": ")[2]
        ends = "" if exits[code] == 1 else f" Exit {exits[code]}."
        parts.append(f"## {code}\n\n**{_upper(title)}.**{ends}\n\n{page.text}\n")
    parts.append("## States\n\n`status`, `partitions list` and `dirty list` show them.\n")
    rows = [["state", "of", "meaning"]]
    for page in _of("states"):
        rows.append([f"`{page.names[0]}`", page.title.partition(" of ")[2], page.text])
    return "\n".join([*parts, table(rows)])


def _exit_codes() -> dict[str, int]:
    found: dict[str, int] = {}
    waiting: list[type[SluicewayError]] = [SluicewayError]
    while waiting:
        kind = waiting.pop()
        found.setdefault(kind.code, kind.exit_code)
        waiting += [
            each for each in kind.__subclasses__() if each.__module__.startswith("sluiceway.")
        ]
    return found


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


# Events


def events() -> str:
    """Every event of the log."""
    parts = [
        "# Log events\n",
        _MADE,
        "The log is one JSON object per line, or a line of words on a terminal (`--log-format`, "
        "`--log-level`). Most events have "
        "the fields `job` and `route`. `sluiceway explain EVENT` prints the same texts.\n",
        "## Warnings and errors\n",
    ]
    pages = _of("events")
    for page in (each for each in pages if each.level != "info"):
        names = ", ".join(f"`{name}`" for name in page.names)
        of = page.title.partition(" of ")[2]
        fields = ", ".join(f"`{name}`" for name in page.fields)
        facts = " ".join(
            [
                *(["Level `error`."] if page.level == "error" else []),
                *([f"Fields: {fields}."] if fields else []),
            ]
        )
        head = f"{names} of `{of}`" if of else names
        parts.append(
            f"### {head}\n\n{facts}\n\n{page.text}\n" if facts else f"### {head}\n\n{page.text}\n"
        )
    parts.append(
        "## Other events\n\nThey need no action. `sluiceway explain EVENT` says what each means, "
        "`sluiceway explain` lists them all.\n"
    )
    by_owner: dict[str, list[str]] = {}
    for page in (each for each in pages if each.level == "info"):
        by_owner.setdefault(page.title.partition(" of ")[2], []).extend(page.names)
    for who, named in by_owner.items():
        parts.append(f"- {_upper(who)}: {', '.join(f'`{name}`' for name in named)}")
    return "\n".join(parts) + "\n"


# Metrics


def metrics() -> str:
    """Every metric and every alert."""
    rows = [["name", "kind", "labels", "meaning"]]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        own = labels if metric.of_route else ", ".join(filter(None, [labels, "(process)"]))
        rows.append(
            [f"`{metric.full_name.removeprefix('sluiceway_')}`", metric.kind, own, metric.help]
        )
    parts = [
        "# Metrics and alerts\n",
        _MADE,
        "Every name begins with `sluiceway_`. Metrics of a route have the labels `job_name`, "
        "`route` and `table`; metrics of the process "
        "have `job_name`. How to serve and scrape them is in "
        "[operations](../guides/operations.md).\n",
        "Rows count when they are committed: a row that is read twice counts once, and rows of "
        "replays do not count.\n",
        table(rows),
        "## Alerts\n\n`sluiceway dashboards export` writes them for Prometheus. None of them "
        "means a loss of rows.\n",
    ]
    said = {page.names[0]: page.text for page in _of("alerts")}
    for alert in ALERTS:
        parts.append(
            f"### {alert.name}\n\n{_upper(alert.severity)}, after {alert.for_}: "
            f"`{alert.expression}`\n\n{said[alert.name]}\n"
        )
    return "\n".join(parts)


# The job file


def job_file() -> str:
    """Every key of a job file with its form, default and meaning."""
    schema = job_file_schema()
    definitions: Mapping[str, Any] = schema["definitions"]
    parts = [
        "# Job file\n",
        _MADE,
        "All keys. `sluiceway schema` prints the same as JSON Schema for editors; [the "
        "guide](../guides/job-file.md) has examples. A value may "
        "be `${env:NAME}` or `${file:PATH}`. Durations are `500ms`, `10s`, `5m`, `1h`, `1d`; "
        "sizes `64MiB`, `2GiB`; rates `5000/s`; times "
        "`2026-11-20T08:00:00Z`. **Bold** keys are required, defaults come first. A key without "
        "a form is a text, or a block that has a section.\n",
        "## The file\n",
    ]
    places = dict(_places(schema, definitions))
    said: dict[str, str] = {}
    parts.append(_keys(schema, "", places, said))
    for name, place in places.items():
        block = definitions[name]
        if name in _REPEATED:
            parts.append(f"## `{place}`\n\n{_REPEATED[name]}\n")
            continue
        choice = _choice(block)
        keys = _keys(block, place, places, said)
        intro = choice or ("" if keys else block.get("description", ""))
        parts += [f"## `{place}`\n", *([f"{intro}\n"] if intro else []), *([keys] if keys else [])]
    return "\n".join(parts)


def _choice(block: Mapping[str, Any]) -> str:
    """Which keys of a block exclude each other; the key that leads to it says what it is."""
    choice = [one["required"][0] for one in block.get("oneOf", ())]
    if not choice:
        found = re.search(r"[^.;]*\b[Ee]xactly one\b[^.;]*", block.get("description", ""))
        return f"{_upper(found[0].strip())}." if found else ""
    named = [] if len(choice) == len(block.get("properties", ())) else choice
    return f"Exactly one of {', '.join(f'`{key}`' for key in named) or 'these keys'}."


def _places(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Definitions in the order of the file, with the first place of each."""
    seen: set[str] = set()
    waiting = [(schema, "")]
    while waiting:
        block, place = waiting.pop(0)
        found = []
        for key, value in block.get("properties", {}).items():
            for name, below in _references(value):
                if name not in seen:
                    seen.add(name)
                    where = f"{place}.{key}".lstrip(".") + below
                    yield name, where
                    found.append((definitions[name], where))
        waiting = [*found, *waiting] if place else [*waiting, *found]


def _references(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for one in value.get("allOf", ()):
        if "$ref" in one:
            yield one["$ref"].removeprefix(_DEFINITION), ""
    for one in value.get("anyOf", ()):
        yield from _references(one)
    if isinstance(value.get("items"), Mapping):
        yield from ((name, f"[]{below}") for name, below in _references(value["items"]))
    if isinstance(value.get("additionalProperties"), Mapping):
        found = _references(value["additionalProperties"])
        yield from ((name, f".<name>{below}") for name, below in found)


def _keys(
    block: Mapping[str, Any], place: str, places: Mapping[str, str], said: dict[str, str]
) -> str:
    """A line for each key: its form, its default and what it says; or where that stands.

    Args:
        block: Whose keys.
        place: Of the block in the file, dotted.
        places: Definition -> the place that its keys stand at.
        said: Line or description -> the first place that said it; this block's are added.
    """
    lines = []
    elsewhere: dict[str, list[str]] = {}
    required = set(block.get("required", ()))
    for key, value in block.get("properties", {}).items():
        shown = f"**`{key}`**" if key in required else f"`{key}`"
        facts = _facts(value)
        described = _OF_COURSE.sub("", value.get("description", ""))
        line = f"{shown} ({facts}): {described}" if facts else f"{shown}: {described}"
        inner = [places[name] for name, _ in _references(value)]
        if key in inner and place and _form(value) == "block":
            elsewhere.setdefault("the file", []).append(shown)
        elif line in said and len(line.split()) > _WORTH:
            elsewhere.setdefault(f"`{said[line]}`", []).append(shown)
        else:
            lines.append(f"- {line}\n")
        said.setdefault(line, place)
        said.setdefault(described, place)
    lines += [f"- {', '.join(keys)}: as in {where}\n" for where, keys in elsewhere.items()]
    return "".join(lines)


def _facts(value: Mapping[str, Any]) -> str:
    """The form of a value and its default; a text and a block have the form of their key."""
    form = _form(value)
    if "default" not in value:
        return "" if form in ("text", "block") else form
    default = _word(value["default"])
    words = [word for word in form.split(" ") if word != "or"]
    if default in words and all(word.startswith("`") for word in words):
        return " ".join([default, *(word for word in dict.fromkeys(words) if word != default)])
    return ", ".join(filter(None, ["" if form == "text" else form, f"default {default}"]))


_FORMS = {"(?:ms|s|m|h|d)": "duration", "iB)": "size", "/s)": "rate"}
"""By a part of the pattern."""
_TYPES = {
    "string": "text",
    "integer": "number",
    "number": "number",
    "boolean": "true/false",
    "null": "`null`",
}


def _form(value: Mapping[str, Any]) -> str:
    """How a value is written, in a word or two."""
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(filter(None, map(_form, value["anyOf"]))))
    words = value.get("enum", [value["const"]] if "const" in value else [])
    if words:
        return " ".join(map(_word, words))
    if "allOf" in value:
        return "block"
    known = [form for part, form in _FORMS.items() if part in value.get("pattern", "")]
    return known[0] if known else _form_of_type(value)


def _form_of_type(value: Mapping[str, Any]) -> str:
    kind = value.get("type", "")
    if isinstance(kind, list):
        return "value"
    if kind == "array":
        inner = _form(value.get("items", {}))
        return f"list of {inner}s" if inner else "list"
    if kind == "object":
        inner = _form(value.get("additionalProperties") or {})
        return f"name: {inner}" if inner else "mapping"
    return _TYPES[kind] if kind else ""


def _word(value: object) -> str:
    text = json.dumps(value) if value is None or isinstance(value, bool) else str(value)
    return f"`{text}`" if text else '`""`'


# Commands


def commands() -> str:
    """Every command with its arguments and options."""
    parts = [
        "# Commands\n",
        _MADE,
        "`sluiceway COMMAND --help` has the whole text and examples. Left out below: `-o table`, "
        "`-o json`, `-o yaml` of commands that read, `--route NAME` for a job with several routes, "
        f"{_room()}. JOB is a job file. Exit codes: [errors](errors.md).\n",
    ]
    verbs = {verb.name: verb for verb in VERBS}
    said: dict[str, str] = {}
    for group, names in GROUPS:
        parts.append(f"## {group}\n")
        for name in names:
            command = typer.main.get_command(verbs[name].app())
            parts += [_command(path, one, said) for path, one in _leaves(name, command)]
    return "\n".join(parts)


def _room() -> str:
    """What the app adds to each command with a job file, once it is run."""
    run = next(verb for verb in VERBS if verb.name == "run")
    command: Any = typer.main.get_command(run.app())
    add_room_option(command)
    (option,) = (param for param in command.params if param.name == "room")
    what, _, default = str(option.help).partition(", ")
    return f"`{_option(option)}` ({what[0].lower()}{what[1:]}) {default.rstrip('.')}"


def _leaves(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if not inner:
        yield path, command
        return
    for name, one in inner.items():
        yield from _leaves(f"{path} {name}", one)


def _command(path: str, command: Any, said: dict[str, str]) -> str:
    """A command's usage and options; an option that another one has too leads there.

    Args:
        path: The command's words.
        command: What Typer made of it.
        said: An option and its help -> the first command that has it.
    """
    arguments = [
        param.metavar or (param.name or "").upper()
        for param in command.params
        if param.param_type_name == "argument"
    ]
    summary = re.split(r"\n\n|\n\s*\$ ", command.help or "")[0]
    usage = " ".join(["sluiceway", path, *arguments])
    lines = [f"### `{usage}`\n", f"{' '.join(summary.split())}\n"]
    options = [
        param
        for param in command.params
        if param.param_type_name == "option"
        and param.name not in _SHARED
        and not {"--output", "--route"} & set(param.opts)
        and not param.hidden
    ]
    elsewhere: dict[str, list[str]] = {}
    for param in options:
        line = f"- `{_option(param)}`: {param.help}"
        first = said.setdefault(line, path)
        if first == path or len(param.help.split()) < _WORTH:
            lines.append(line)
        else:
            elsewhere.setdefault(first, []).append(f"`{param.opts[0]}`")
    lines += [f"- {', '.join(names)}: as in `{first}`" for first, names in elsewhere.items()]
    return "\n".join([*lines, ""] if options else lines)


def _option(param: Any) -> str:
    names = ", ".join(param.opts)
    if param.is_flag:
        return names
    return f"{names} {param.metavar}" if param.metavar else names


PAGES = {
    "reference/errors.md": errors,
    "reference/events.md": events,
    "reference/metrics.md": metrics,
    "reference/job-file.md": job_file,
    "reference/commands.md": commands,
}
"""By path below docs/."""
