"""A folder that takes no writes for a while, also from root."""

import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def read_only(folder: Path) -> Iterator[Callable[[], None]]:
    """Nothing below `folder` can be written in the block, or until the function given is called.

    Permissions do not bind root, so root mounts the folder over itself; the test is skipped where
    that is not allowed.
    """
    change = _mounted if os.geteuid() == 0 else _without_permission
    with change(folder) as restore:
        yield restore


@contextmanager
def _mounted(folder: Path) -> Iterator[Callable[[], None]]:
    if not _mount("--bind", str(folder), str(folder)):
        pytest.skip("root may not mount here")
    mounted = [folder]

    def restore() -> None:
        if mounted:
            mounted.pop()
            subprocess.run(["umount", "--lazy", str(folder)], check=True)

    try:
        assert _mount("-o", "remount,bind,ro", str(folder))
        yield restore
    finally:
        restore()


def _mount(*arguments: str) -> bool:
    done = subprocess.run(["mount", *arguments], capture_output=True, check=False)
    return done.returncode == 0


@contextmanager
def _without_permission(folder: Path) -> Iterator[Callable[[], None]]:
    modes = {each: stat.S_IMODE(each.stat().st_mode) for each in (folder, *_folders(folder))}

    def restore() -> None:
        for each, mode in modes.items():
            if each.exists():
                each.chmod(mode)

    for each in sorted(modes, reverse=True):
        each.chmod(0o500)
    try:
        yield restore
    finally:
        restore()


def _folders(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_dir()]
