"""Answers for the page, by the functions of the reading commands."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

from sluiceway.audit.dirty_rows import DirtyFilter, DirtyRows, DirtyState
from sluiceway.audit.job_status import job_status
from sluiceway.audit.open_table import find_ledger, open_ledger, read_ledger
from sluiceway.audit.partition_wait import PartitionWatch
from sluiceway.audit.pick_route import job_routes, pick_route, routes_without_brokers
from sluiceway.cli.commands.dirty import chosen_rows, count_rows, counted_document, plain_row
from sluiceway.cli.commands.explain import explained
from sluiceway.cli.commands.ledger import describe
from sluiceway.cli.commands.partitions import list_route, listed_document
from sluiceway.cli.commands.status import status_document
from sluiceway.cli.job_file import load_checked_job
from sluiceway.cli.options import OutputFormat
from sluiceway.cli.views.answers import error_fields, in_milliseconds, read_each, route_answers
from sluiceway.cli.views.typed_commands import quoted, typed, typed_fields, typed_text
from sluiceway.console.contract import DirtyChoice, Document, JobAnswers
from sluiceway.errors import SluicewayError, WrongUsageError
from sluiceway.jobfile.blocks.models import JobSpec
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.observe.log import Log


class JobFileAnswers:
    """Answers of one job file, which is read for each answer: it may change at any time.

    Args:
        path: Path of the job file.
        log: Gets a warning for brokers that do not answer.
        values: Whether keys, values and headers of dirty rows are shown.
    """

    def __init__(self, path: Path, log: Log, *, values: bool) -> None:
        self._path = path.absolute()
        self._log = log
        self._values = values

    @property
    def path(self) -> Path:
        """See `JobAnswers.path`."""
        return self._path

    def status(self) -> Document:
        """See `JobAnswers.status`."""
        spec = self._spec()
        seen = job_status(spec, self._log)
        return _plain(status_document(spec.name, seen, typed_fields(self._path)))

    def partitions(self) -> Document:
        """See `JobAnswers.partitions`."""
        routes = routes_without_brokers(self._spec(), self._log, None)
        found = read_each(routes, list_route, OutputFormat.JSON)
        return _plain({"routes": route_answers(routes, found, listed_document)})

    def why(self, route: str, partition: str) -> Document:
        """See `JobAnswers.why`."""
        config = pick_route(routes_without_brokers(self._spec(), self._log, route), route)
        found = PartitionWatch(config, partition).check_until_known()
        text = typed_text(found.text, str(self._path), anywhere=True)
        return _plain(asdict(replace(found, text=text)))

    def dirty(self) -> Document:
        """See `JobAnswers.dirty`."""
        routes = self._routes()
        found = read_each(routes, count_rows, OutputFormat.JSON)
        answers = route_answers(routes, found, counted_document)
        for answer in answers:
            for group in answer.get("groups", ()):
                group["replay"] = self._replay(len(routes), answer["route"], group)
        return _plain({"routes": answers})

    def dirty_rows(self, route: str, choice: DirtyChoice) -> Document:
        """See `JobAnswers.dirty_rows`."""
        states = {each.label: each for each in DirtyState}
        if choice.state not in states:
            raise WrongUsageError(f"no state `{choice.state[:60]}`; known: {', '.join(states)}")
        wanted = DirtyFilter(
            reasons=frozenset(() if choice.reason is None else (choice.reason,)),
            fields=frozenset(() if choice.path is None else (choice.path,)),
            states=frozenset((states[choice.state],)),
        )
        rows = DirtyRows.read(open_ledger(self._route(route)).log)
        found = chosen_rows(rows, wanted)
        shown = [plain_row(row, values=self._values) for row in islice(found, choice.limit)]
        more = next(found, None) is not None
        return _plain({"rows": shown, "more": more, "values": self._values})

    def ledger(self, route: str, start: int | None, limit: int) -> Document:
        """See `JobAnswers.ledger`."""
        ledger = read_ledger(find_ledger(self._route(route)))
        following = ledger.fold.next_seq
        first = max(0, following - limit) if start is None else start
        records = [
            {
                "seq": record.seq,
                "term": record.term,
                "type": record.type.value,
                "what": describe(record),
                # As it is stored: a signed record keeps its units.
                "raw": json.dumps(json.loads(raw), indent=2, ensure_ascii=False),
            }
            for record, raw in islice(ledger.log.records(first), limit)
        ]
        return {"records": records, "next_seq": following}

    def _spec(self) -> JobSpec:
        return load_checked_job(self._path).spec

    def _routes(self) -> Sequence[RouteConfig]:
        return job_routes(self._spec(), self._log)

    def _route(self, name: str) -> RouteConfig:
        return pick_route(self._routes(), name)

    def _replay(self, routes: int, route: str, group: dict[str, Any]) -> str | None:
        """The command that replays a group of open rows, first as a dry run."""
        if group["state"] != DirtyState.OPEN.label:
            return None
        words = ["sluiceway", "dirty", "replay", "JOB"]
        if routes > 1:
            words += ["--route", route]
        words += ["--reason", group["reason"]]
        if group["path"]:
            words += ["--field", group["path"]]
        command = " ".join([*(quoted(word) for word in words), "--dry-run"])
        return typed(command, str(self._path), anywhere=True)


def error_document(error: SluicewayError, job: JobAnswers) -> Document:
    """An error in the form of every answer for programs, with commands that can be pasted."""
    return typed_fields(job.path)(error_fields(error))


def code_document(code: str) -> Document:
    """The meaning of an error code, as a terminal shows it.

    Raises:
        WrongUsageError: There is none.
    """
    page = explained(code)
    return {"title": page.title, "text": page.plain_text}


def _plain(document: object) -> dict[str, Any]:
    found: dict[str, Any] = in_milliseconds(document)
    return found
