"""Rules by which a bucket removes objects: which of them cover a table's folder."""

import json
from typing import Any

import pytest

from sluiceway.errors import StorageRefusedError, UnhealthyEnvironmentError
from sluiceway.storage.s3.lifecycle import (
    REPLICATE,
    BucketRules,
    Rule,
    denies_replication,
    expiring_rule,
)
from sluiceway.storage.s3.storage import object_name

FOLDER = "ods/orders/_sluiceway/orders/stage/"


def rule(prefix: str = "", **other: Any) -> Rule:
    return {
        "ID": "old",
        "Status": "Enabled",
        "Filter": {"Prefix": prefix},
        "Expiration": {"Days": 30},
        **other,
    }


@pytest.mark.parametrize(
    "covers",
    [
        rule(),
        rule("ods/"),
        rule("ods/orders/_sluiceway/orders/stage/1-"),
        rule(Filter={"And": {"Prefix": "ods/", "ObjectSizeGreaterThan": 1}}),
        rule(Filter={}, Prefix="ods"),
        rule(Expiration={"Date": "2027-01-01"}),
    ],
)
def test_rule_that_covers_a_folder_or_part_of_it_is_found(covers: Rule) -> None:
    assert expiring_rule([rule("elsewhere/"), covers], FOLDER) == "old"


@pytest.mark.parametrize(
    "harmless",
    [
        rule("ods/order_items/"),
        rule("ods/", Status="Disabled"),
        rule("ods/", Expiration={}),
        rule("ods/", Expiration={"ExpiredObjectDeleteMarker": True}),
        rule(Filter={"Tag": {"Key": "k", "Value": "v"}}),
        rule(Filter={"And": {"Prefix": "", "Tags": [{"Key": "k", "Value": "v"}]}}),
        {"ID": "uploads", "Status": "Enabled", "AbortIncompleteMultipartUpload": {}},
        {"ID": "versions", "Status": "Enabled", "NoncurrentVersionExpiration": {}},
    ],
)
def test_rule_that_leaves_the_folder_alone_is_no_hindrance(harmless: Rule) -> None:
    assert expiring_rule([harmless], FOLDER) is None


def test_folder_below_a_rule_is_refused_by_its_name_and_others_are_not() -> None:
    asked: list[str] = []

    def ask(name: Any) -> list[Rule]:
        asked.append(name.bucket)
        return [rule("ods/")]

    rules = BucketRules(ask)
    with pytest.raises(UnhealthyEnvironmentError, match="'old' that removes objects") as refused:
        rules.admit(object_name("s3a://lake/ods/orders"))
    assert "take the rule away" in refused.value.hint
    assert refused.value.exit_code == 5
    rules.admit(object_name("s3a://lake/raw/orders"))
    # Many routes start at one time.
    assert asked == ["lake"]


def test_store_that_shows_no_rules_admits_all() -> None:
    asked: list[str] = []

    def ask(name: Any) -> list[Rule]:
        asked.append(name.location)
        raise StorageRefusedError("AccessDenied", where=name.location)

    BucketRules(ask).admit(object_name("s3a://lake/ods/orders"))
    assert asked == ["s3a://lake/ods/orders"]


_DENY = {"Effect": "Deny", "Principal": "*", "Action": REPLICATE, "Resource": "arn:aws:s3:::lake/*"}


@pytest.mark.parametrize(
    ("changes", "denied"),
    [
        ({}, True),
        ({"Principal": {"AWS": "*"}, "Action": ["s3:GetObject", "s3:Replicate*"]}, True),
        ({"Action": "s3:*", "Resource": ["arn:aws:s3:::lake/ods/orders/*"]}, True),
        ({"Resource": "arn:aws:s3:::lake/ods/*"}, True),
        ({"Resource": "arn:aws-cn:s3:::lake/ods/*"}, True),
        ({"Resource": "*"}, True),
        ({"Resource": "arn:aws:s3:::lake/ods/orders/"}, False),
        ({"Resource": "arn:aws:s3:::lake/ods/orders/log*"}, False),
        ({"Resource": "arn:aws:s3:::other/*"}, False),
        ({"Effect": "Allow"}, False),
        ({"Principal": {"AWS": "arn:aws:iam::1:role/copier"}}, False),
        ({"Action": "s3:PutObject"}, False),
        ({"Condition": {"Bool": {"aws:SecureTransport": "false"}}}, False),
    ],
)
def test_replication_is_denied_to_all_for_all_objects_of_a_folder(
    changes: dict[str, object], *, denied: bool
) -> None:
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow"}, {**_DENY, **changes}]}
    name = object_name("s3a://lake/ods/orders")
    assert denies_replication(json.dumps(policy), name) is denied
    one = {"Statement": {**_DENY, **changes}}
    assert denies_replication(json.dumps(one), name) is denied
    assert denies_replication("no policy", name) is False
