"""Files of other programs that are taken for job files: what they are, and where to begin."""

import re

from sluiceway.jobfile.document import Mapping, Node
from sluiceway.jobfile.problems import JobFileProblem, Mark

_BEGIN = (
    "a job file of sluiceway is another one: `sluiceway init TOPIC` writes it from the topic that "
    "it reads, see docs/guides/first-table.md"
)
_FLINK_CDC = "a pipeline of Flink CDC"
_CONNECT = "a connector of Kafka Connect"
_KEYS = (
    (frozenset({"source", "sink", "pipeline"}), _FLINK_CDC),
    (frozenset({"source", "sink", "env"}), "a job of SeaTunnel"),
    (frozenset({"source", "sink"}), _FLINK_CDC),
    (frozenset({"connector.class"}), _CONNECT),
    (frozenset({"apiVersion", "kind"}), "a manifest of Kubernetes"),
    (frozenset({"services"}), "a file of Docker Compose"),
)
"""Keys at the top that no job file has together -> what has them."""
_LINES = (
    (r"debezium\.source\.[\w.]+\s*[=:]", "the properties of Debezium Server"),
    (r"[\"']?connector\.class[\"']?\s*[=:]", _CONNECT),
    (r"(?i:create\s+(?:temporary\s+)?table\s)", "SQL"),
)
"""How lines begin of files that are no YAML, or hide their keys in a block."""


def foreign_file(content: bytes, root: Node | None) -> JobFileProblem | None:
    """What a file is that another program reads; None for all else.

    Args:
        content: The whole file, which has no block of a job file.
        root: Its tree; None where it is no YAML.
    """
    keys = _keys(root)
    found = next((what for needed, what in _KEYS if needed <= keys), None)
    if found is None:
        text = content.decode("utf-8", "replace")
        found = next(
            (what for form, what in _LINES if re.search(rf"^[\s{{]*{form}", text, re.MULTILINE)),
            None,
        )
    if found is None:
        return None
    return JobFileProblem(Mark(1, 1), f"expected a job file, got {found}", _BEGIN)


def _keys(root: Node | None) -> set[str]:
    """Those at the top, and those of a connector's `config`."""
    entries = root.entries if isinstance(root, Mapping) else ()
    inner = (each.value for each in entries if each.key == "config")
    below = [one.key for each in inner if isinstance(each, Mapping) for one in each.entries]
    return {*(entry.key for entry in entries), *below}
