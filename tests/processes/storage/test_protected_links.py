"""Files of another user, which the kernel may refuse to link: told before anything is committed."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.errors import StorageRefusedError
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.storage import local
from sluiceway.storage.contract import FileStatus
from sluiceway.storage.local import LocalStorage
from sluiceway.worker.answers import check_staged_files

OWNER, DRIVER = 65_532, 65_533
# As a driver of another user: what the listing says of each file, and what a link to it does.
LOOK = """
import json, os, sys
from sluiceway.storage.local import LocalStorage
os.setgroups([int(group) for group in sys.argv[3:]])
os.setegid(int(sys.argv[2])); os.seteuid(int(sys.argv[2]))
told = {}
for status in LocalStorage().list(sys.argv[1]):
    try:
        os.link(status.path, status.path + ".link")
        linked = True
    except PermissionError:
        linked = False
    told[os.path.basename(status.path)] = [not status.unfit, linked]
print(json.dumps(told))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that another user gets into; pytest's own are closed to others."""
    place = Path(tempfile.mkdtemp(prefix="sluiceway-links-"))
    place.chmod(0o777)
    yield place
    shutil.rmtree(place)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of other users")
@pytest.mark.parametrize("groups", [[], [OWNER]], ids=["no common group", "common group"])
def test_listing_says_of_files_of_others_what_the_kernel_does(
    folder: Path, groups: list[int]
) -> None:
    for owner in (OWNER, DRIVER, 0):
        for mode in (0o600, 0o640, 0o644, 0o660, 0o664, 0o666, 0o4666):
            file = folder / f"{owner}-{mode:o}"
            file.write_bytes(b"rows")
            os.chown(file, owner, OWNER)
            file.chmod(mode)
    asked = [sys.executable, "-c", LOOK, str(folder), str(DRIVER), *map(str, groups)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout or "{}")
    assert len(told) == 21, done.stderr
    assert {name: said for name, (said, linked) in told.items() if said != linked} == {}
    if Path("/proc/sys/fs/protected_hardlinks").read_text().strip() == "1":
        assert told[f"{OWNER}-644"] == [False, False]
        assert told[f"{OWNER}-660"][0] == bool(groups)
        assert told[f"{DRIVER}-600"] == [True, True]


def test_file_of_another_user_is_told_with_both_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows").write_bytes(b"rows")
    (fit,) = LocalStorage().list(str(tmp_path))
    assert fit.unfit == ""
    monkeypatch.setattr(local, "_protects_links", lambda: True)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 7)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    (refused,) = LocalStorage().list(str(tmp_path))
    assert f"belongs to user {os.getuid()}, this process is user {os.getuid() + 7}" in refused.unfit
    monkeypatch.setattr(local, "_protects_links", lambda: False)
    (unprotected,) = LocalStorage().list(str(tmp_path))
    assert unprotected.unfit == ""


def test_staged_file_that_cannot_be_published_is_refused_before_the_commit() -> None:
    layout = LedgerLayout("/table", "orders")
    staged = layout.attempt("1-1-a")
    file = SimpleNamespace(staged="1-1-a/rows.parquet", size_bytes=4)
    result = SimpleNamespace(task=0, attempt="1-1-a", files=[file], dirty_files=[], late_files=[])

    def check(unfit: str) -> None:
        found = [FileStatus(f"{staged}/rows.parquet", 4, is_dir=False, unfit=unfit)]
        storage = SimpleNamespace(list=lambda _: found)
        check_staged_files(cast("Any", storage), layout, [cast("Any", result)])

    check("")
    with pytest.raises(StorageRefusedError, match="cannot be published: it is not ours") as caught:
        check("it is not ours")
    assert caught.value.where.endswith("rows.parquet")
    assert "umask 002" in caught.value.hint
