"""What is closed: the named prefixes, and all that end before them."""

from sluiceway.eventtime.prefix_periods import ClosedPrefixes, PrefixPeriods

HOURS = (("dt", "yyyyMMdd"), ("hr", "HH"))


def closed(*prefixes: str, zone: str = "UTC") -> ClosedPrefixes:
    return ClosedPrefixes(PrefixPeriods(HOURS, zone), prefixes)


def test_closed_prefix_holds_all_partitions_below_it() -> None:
    found = closed("dt=20261120/hr=08")
    assert found.holds("dt=20261120/hr=08")
    assert found.holds("dt=20261120/hr=08/app=web")
    assert not found.holds("dt=20261120/hr=09/app=web")


def test_hour_before_the_first_closed_one_is_closed_too() -> None:
    found = closed("dt=20261120/hr=08", "dt=20261120/hr=09")
    assert found.holds("dt=20261120/hr=07")
    assert found.holds("dt=20251231/hr=23/app=web")


def test_nothing_closed_holds_nothing() -> None:
    assert not closed().holds("dt=20261120/hr=08")


def test_folder_that_is_no_time_is_closed_only_by_name() -> None:
    odd = "dt=__HIVE_DEFAULT_PARTITION__/hr=08"
    assert not closed("dt=20261120/hr=08").holds(odd)
    assert closed(odd).holds(odd)


def test_hour_that_begins_before_a_closed_one_ends_stays_open() -> None:
    # 00:01 is set back to 23:01: hour 00 has a minute before the second half of hour 23.
    found = closed("dt=20101106/hr=23", zone="America/St_Johns")
    assert found.holds("dt=20101106/hr=22")
    assert not found.holds("dt=20101107/hr=00")
