"""A database of one table that sends its changes as Canal does: several rows in one message."""

import json
from dataclasses import dataclass, field
from random import Random

from tools.change_source import Change, Row

CANAL_COLUMNS = """\
    - {name: id, type: bigint}
    - {name: name, type: string}
    - {name: amount, type: "decimal(18,2)"}
    - {name: city, type: string}"""


@dataclass(slots=True)
class CanalSource:
    """Rows by id, and the messages of their changes in order.

    Attributes:
        moves: Updates change keys too, those of rows that are there as well.
        log: Messages that were not taken yet.
    """

    seed: int
    moves: bool = True
    rows: dict[int, Row] = field(default_factory=dict)
    log: list[bytes] = field(default_factory=list)
    random: Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)  # noqa: S311 - a game

    def statements(self, count: int, ids: int = 30) -> None:
        """So many random statements on rows with ids below `ids`."""
        for _ in range(count):
            act = self.random.choice(("INSERT", "UPDATE", "UPDATE", "DELETE"))
            free = [n for n in range(ids) if n not in self.rows]
            held = sorted(self.rows)
            size = self.random.randrange(1, 6)
            if act == "INSERT" and free:
                self._insert(self.random.sample(free, min(size, len(free))))
            elif act == "UPDATE" and held:
                self._update([self.random.choice(held) for _ in range(size)], ids)
            elif act == "DELETE" and held:
                self._delete(self.random.sample(held, min(size, len(held))))

    def take(self) -> dict[int, list[Change]]:
        """What was not taken yet, as records of one partition; Canal's have no key."""
        taken, self.log = self.log, []
        return {0: [(b"", message) for message in taken]}

    def wanted(self) -> list[tuple[object, ...]]:
        """What a reader of the table has to find."""
        return sorted((r["id"], r["name"], r["amount"], r["city"]) for r in self.rows.values())

    def tell(self, kind: str, data: list[Row] | None, old: list[Row] | None = None) -> None:
        """Write a message down."""
        message = {
            "data": None if data is None else [_texts(row) for row in data],
            "database": "shop",
            "table": "orders",
            "es": 1_760_000_000_000,
            "isDdl": data is None,
            "old": None if old is None else [_texts(row) for row in old],
            "pkNames": ["id"],
            "type": kind,
        }
        self.log.append(json.dumps(message, ensure_ascii=False).encode())

    def _insert(self, ids: list[int]) -> None:
        for number in ids:
            self.rows[number] = self._values(number)
        self.tell("INSERT", [self.rows[number] for number in ids])

    def _delete(self, ids: list[int]) -> None:
        self.tell("DELETE", [self.rows.pop(number) for number in ids])

    def _update(self, ids: list[int], end: int) -> None:
        """Change rows one after the other, a row perhaps more than once, all in one message."""
        data, old = [], []
        for number in ids:
            if number not in self.rows:
                continue
            before = self.rows.pop(number)
            new = number
            if self.moves and self.random.random() < 0.4:
                new = self.random.choice([n for n in range(end) if n not in self.rows])
            after = self._values(new)
            self.rows[new] = after
            data.append(after)
            old.append({name: value for name, value in before.items() if after[name] != value})
        self.tell("UPDATE", data, old)

    def _values(self, row_id: int) -> Row:
        cents = self.random.randrange(100_000)
        return {
            "id": row_id,
            "name": f"n{self.random.randrange(10**6)}",
            "amount": f"{cents // 100}.{cents % 100:02}",
            "city": self.random.choice(("Berlin", "Köln", "上海")),
        }


def _texts(row: Row) -> dict[str, object]:
    """Canal writes all values as text."""
    return {name: None if value is None else str(value) for name, value in row.items()}
