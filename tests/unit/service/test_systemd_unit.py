"""The systemd template says what the program does."""

from collections import defaultdict
from pathlib import Path

from sluiceway.errors import (
    DirtyLimitError,
    FencedError,
    JobFileError,
    UnhealthyEnvironmentError,
    WrongUsageError,
)

UNIT = Path(__file__).parents[3] / "examples" / "sluiceway@.service"


def settings() -> dict[str, list[str]]:
    found = defaultdict(list)
    for line in UNIT.read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            key, _, value = line.partition("=")
            found[key].append(value)
    return found


def test_unit_does_not_restart_what_a_person_has_to_look_at() -> None:
    unit = settings()
    (prevented,) = unit["RestartPreventExitStatus"]
    looked_at = (WrongUsageError, JobFileError, DirtyLimitError, FencedError)
    codes = {error.exit_code for error in looked_at}
    assert set(map(int, prevented.split())) == codes
    assert UnhealthyEnvironmentError.exit_code not in codes
    assert unit["Restart"] == ["on-failure"]


def test_unit_asks_the_driver_alone_to_stop() -> None:
    unit = settings()
    assert (unit["KillMode"], unit["KillSignal"]) == (["mixed"], ["SIGTERM"])
    assert unit["ExecStart"][0].split()[1:] == ["run", "/etc/sluiceway/%i.yaml"]


def test_unit_keeps_from_settings_that_break_the_jvm_or_the_lease() -> None:
    unit = settings()
    assert not {"MemoryDenyWriteExecute", "ProcSubset", "PrivatePIDs"} & unit.keys()
    assert unit["NoNewPrivileges"] == ["yes"]
