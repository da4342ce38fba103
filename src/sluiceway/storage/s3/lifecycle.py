"""Rules by which a bucket removes objects of itself, and its policy for replication."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from sluiceway.errors import StorageUnavailableError, UnhealthyEnvironmentError
from sluiceway.storage.s3.requests import ObjectName

_LOOKED_AT_ANEW_S = 60.0
_ENABLED = "Enabled"
REPLICATE: Final = "s3:ReplicateObject"
"""What a bucket's policy denies to have no more objects of another bucket."""

Rule = Mapping[str, Any]
Ask = Callable[[ObjectName], Iterable[Rule]]
"""Asks a store for the rules of a bucket; raises `StorageUnavailableError`."""


class BucketRules:
    """Lifecycle rules of the buckets that tables lie in. Safe for several threads.

    Args:
        ask: Returns a bucket's rules.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._known: dict[str, tuple[float, tuple[Rule, ...]]] = {}

    def admit(self, name: ObjectName) -> None:
        """Refuse a folder whose objects the bucket removes. Called at each route's start.

        A login that may not see the rules, and a store that has none, admit everything.

        Raises:
            UnhealthyEnvironmentError: Names the rule.
        """
        rule = expiring_rule(self._of(name), f"{name.key}/")
        if rule is not None:
            raise UnhealthyEnvironmentError(
                f"the bucket {name.bucket} has a lifecycle rule {rule!r} that removes objects of "
                f"{name.location}",
                hint="take the rule away, or give it a prefix that no table lies below: rows and "
                "ledger would be lost",
            )

    def _of(self, name: ObjectName) -> tuple[Rule, ...]:
        now_s = time.monotonic()
        asked_s, rules = self._known.get(name.bucket, (-_LOOKED_AT_ANEW_S, ()))
        if now_s - asked_s >= _LOOKED_AT_ANEW_S:
            try:
                rules = tuple(self._ask(name))
            except StorageUnavailableError:
                rules = ()
            self._known[name.bucket] = (now_s, rules)
        return rules


def expiring_rule(rules: Iterable[Rule], folder: str) -> str | None:
    """The name of a rule that removes objects below a folder, or in part of it; None if none does.

    Rules for objects with tags are for others: ours have none.

    Source: `LifecycleRule` of Amazon's API reference.
    """
    for rule in rules:
        filtered: Mapping[str, Any] = rule.get("Filter") or {}
        both: Mapping[str, Any] = filtered.get("And") or {}
        tagged = "Tag" in filtered or both.get("Tags")
        prefix = filtered.get("Prefix") or both.get("Prefix") or rule.get("Prefix") or ""
        touches = folder.startswith(prefix) or prefix.startswith(folder)
        expires = {"Days", "Date"} & set(rule.get("Expiration") or {})
        if rule.get("Status") == _ENABLED and expires and touches and not tagged:
            return str(rule.get("ID") or prefix or "without a name")
    return None


def denies_replication(policy: str, folder: ObjectName) -> bool:
    """Whether a bucket's policy denies `REPLICATE` to all, for all objects below a folder.

    Args:
        policy: Its JSON. A statement with a condition may not hold, and counts for nothing.
        folder: The folder.

    Source: "Policies and permissions in Amazon S3" of Amazon's user guide.
    """
    try:
        stated = json.loads(policy).get("Statement", ())
    except (ValueError, AttributeError):
        return False
    wanted = f"{folder.bucket}/{folder.key.rstrip('/')}/"
    for each in stated if isinstance(stated, list) else [stated]:
        to_all = each.get("Principal") in ("*", {"AWS": "*"}, {"AWS": ["*"]})
        if each.get("Effect") != "Deny" or not to_all or each.get("Condition"):
            continue
        # The name of a resource begins with the partition, `arn:aws:s3:::` or `arn:aws-cn:s3:::`.
        places = [one.rpartition(":::")[2] for one in _several(each, "Resource")]
        actions = _several(each, "Action")
        named = any(fnmatchcase(REPLICATE.lower(), action.lower()) for action in actions)
        if named and any(one.endswith("*") and fnmatchcase(wanted, one) for one in places):
            return True
    return False


def _several(statement: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = statement.get(key, ())
    return (found,) if isinstance(found, str) else tuple(found)
