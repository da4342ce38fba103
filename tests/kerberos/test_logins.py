"""Logins from keytabs at a real KDC: right ones, wrong ones, and renewals without an end."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluiceway.host.kerberos import KerberosLogin
from tools.own_realm import OwnRealm, logged_in_process, outcome, own_realm, without
from tools.wrong_clock import wrong_clock

SHORT_S = 10


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRealm]:
    with own_realm(tmp_path_factory.mktemp("realm") / "kdc") as found:
        found.admin(f'modify_principal -maxlife "{SHORT_S} seconds" {found.login.principal}')
        yield found


def test_ticket_is_for_its_user_alone_and_where_clients_look(
    realm: OwnRealm, tmp_path: Path
) -> None:
    found = outcome(logged_in_process(realm.login, tmp_path))
    assert found["error"] == ""
    assert found["mode"] == "0o600"
    assert found["cache"].startswith(f"FILE:{tmp_path}/")
    assert [event for event, _ in found["told"]] == ["kerberos_renewed"]


def test_tickets_of_ten_seconds_are_renewed_again_and_again(
    realm: OwnRealm, tmp_path: Path
) -> None:
    found = outcome(logged_in_process(realm.login, tmp_path, seconds=3.5 * SHORT_S))
    events = [event for event, _ in found["told"]]
    assert events.count("kerberos_renewed") >= 6
    assert "kerberos_not_renewed" not in events


def test_absent_kdc_is_told_and_renewals_go_on_when_it_is_back(
    realm: OwnRealm, tmp_path: Path
) -> None:
    process = logged_in_process(realm.login, tmp_path, seconds=3 * SHORT_S)
    time.sleep(SHORT_S / 4)
    realm.stop()
    try:
        time.sleep(SHORT_S)
    finally:
        realm.start()
    events = [event for event, _ in outcome(process)["told"]]
    assert "kerberos_not_renewed" in events
    assert events[-1] == "kerberos_renewed"


def test_kdc_that_is_down_at_the_start_is_told_with_exit_code_5(
    realm: OwnRealm, tmp_path: Path
) -> None:
    realm.stop()
    try:
        found = outcome(logged_in_process(realm.login, tmp_path))
    finally:
        realm.start()
    assert found["error"].startswith("SW107 ")
    assert "Cannot contact any KDC" in found["error"]
    assert "is the KDC up" in found["error"]
    assert found["exit_code"] == 5


def _wrong(realm: OwnRealm, kind: str, folder: Path) -> KerberosLogin:
    login = realm.login
    if kind == "missing":
        return without(login, keytab=str(folder / "none.keytab"))
    if kind == "another's":
        return without(login, keytab=str(realm.realm.keytab("hive")))
    if kind == "unknown":
        # A keytab may hold a principal that the realm has not any more.
        realm.admin("add_principal -randkey gone@SLUICEWAY.LAB")
        realm.admin(f"ktadd -k {folder}/gone.keytab gone@SLUICEWAY.LAB")
        realm.admin("delete_principal -force gone@SLUICEWAY.LAB")
        return without(login, principal="gone@SLUICEWAY.LAB", keytab=str(folder / "gone.keytab"))
    if kind == "old":
        realm.admin("add_principal -randkey old@SLUICEWAY.LAB")
        realm.admin(f"ktadd -k {folder}/old.keytab old@SLUICEWAY.LAB")
        realm.admin("change_password -randkey old@SLUICEWAY.LAB")
        return without(login, principal="old@SLUICEWAY.LAB", keytab=str(folder / "old.keytab"))
    (folder / "text").write_text("no keytab")
    return without(login, keytab=str(folder / "text"))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("missing", "`kerberos.keytab`"),
        ("another's", "`klist -kt`"),
        ("unknown", "`kerberos.principal`"),
        ("old", "exported again"),
        ("text", "no keytab"),
    ],
)
def test_wrong_keytab_is_told_in_one_line_with_the_fix(
    realm: OwnRealm, tmp_path: Path, kind: str, said: str
) -> None:
    found = outcome(logged_in_process(_wrong(realm, kind, tmp_path), tmp_path))
    assert found["error"].startswith("SW409 "), found["error"]
    assert said in found["error"]
    assert "\n" not in found["error"]
    assert found["exit_code"] == 5


@pytest.mark.parametrize("ahead_s", [900, -900])
def test_clock_that_differs_is_set_right_by_the_kdcs_answer(
    realm: OwnRealm, tmp_path: Path, ahead_s: int
) -> None:
    clock = wrong_clock(tmp_path, ahead_s)
    found = outcome(logged_in_process(realm.login, tmp_path, environment=clock))
    assert found["error"] == ""


@pytest.mark.parametrize("ahead_s", [900, -900])
def test_clock_that_may_not_be_set_right_is_told_with_the_fix(
    realm: OwnRealm, tmp_path: Path, ahead_s: int
) -> None:
    config = tmp_path / "krb5.conf"
    text = Path(realm.login.config).read_text()
    config.write_text(text.replace("[libdefaults]", "[libdefaults]\n  kdc_timesync = 0"))
    assert "kdc_timesync" in config.read_text()
    clock = wrong_clock(tmp_path, ahead_s)
    login = without(realm.login, config=str(config))
    found = outcome(logged_in_process(login, tmp_path, environment=clock))
    assert found["error"].startswith("SW409 "), found["error"]
    assert "Clock skew too great" in found["error"]
    assert "set this machine's clock" in found["error"]
    assert "\n" not in found["error"]
    assert found["exit_code"] == 5


def test_second_login_of_one_process_is_refused(realm: OwnRealm, tmp_path: Path) -> None:
    found = outcome(logged_in_process(realm.login, tmp_path, also="other@SLUICEWAY.LAB"))
    assert found["error"].startswith("SW409 ")
    assert "one Kerberos login" in found["error"]
