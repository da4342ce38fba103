"""Cargo's lock without addresses: `crates.lock` has version and hash of every crate.

python native/crates_lock.py restore    Cargo.lock from crates.lock, for `cargo build --locked`
python native/crates_lock.py keep       crates.lock from Cargo.lock, after a change of versions

Cargo's own lock names the registry of each crate, so it is made where it is needed and not kept.
"""

import re
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_CARGO_LOCK = _HERE / "Cargo.lock"
_KEPT = _HERE / "crates.lock"
_SOURCE = re.compile(r'^source = ".*"\n', re.MULTILINE)
_CHECKSUM = re.compile(r'^checksum = "', re.MULTILINE)


def restore() -> None:
    """Write Cargo.lock: the kept versions and hashes, with Cargo's own name of its registry.

    Raises:
        SystemExit: Cargo cannot resolve the crates, or knows more than one registry.
    """
    _CARGO_LOCK.unlink(missing_ok=True)
    command = ["cargo", "generate-lockfile", "--quiet", "--manifest-path", "native/Cargo.toml"]
    if subprocess.run(command, cwd=_HERE.parent, check=False).returncode != 0:  # noqa: S603 - fixed words
        sys.exit("error: cargo could not look up the crates of native/Cargo.toml")
    sources = set(_SOURCE.findall(_CARGO_LOCK.read_text()))
    if len(sources) != 1:
        sys.exit(f"error: native/Cargo.toml names crates of {len(sources)} registries, wanted one")
    source = sources.pop()
    _CARGO_LOCK.write_text(_CHECKSUM.sub(lambda found: source + found.group(), _KEPT.read_text()))


def keep() -> None:
    """Write crates.lock from the Cargo.lock that stands there."""
    _KEPT.write_text(_SOURCE.sub("", _CARGO_LOCK.read_text()))


if __name__ == "__main__":
    {"restore": restore, "keep": keep}[sys.argv[1]]()
