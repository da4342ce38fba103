"""Builds the native module and installs it into this Python, where Rust is new enough.

python native/install.py                 says in one line what it did; without Rust that is nothing
python native/install.py --needed        the same, but a failure where there is no Rust
python native/install.py --wheel DIR     builds the wheel only, the same bytes each time
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import crates_lock

_HERE = Path(__file__).resolve().parent
_RUST = (1, 88)
_FILE_DATE = "1790812800"  # 2026-10-01; files in the wheel have it.


def rust_version() -> tuple[int, int] | None:
    """Version of the cargo that is on the path; None without one."""
    try:
        told = subprocess.run(
            ["cargo", "--version"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r"cargo (\d+)\.(\d+)", told)
    return None if found is None else (int(found[1]), int(found[2]))


def build_wheel(folder: Path, target: Path | None = None) -> Path:
    """Build the release wheel into a folder.

    Args:
        folder: Where the wheel goes.
        target: An empty folder to build in; None goes on in cargo's own.

    Raises:
        subprocess.CalledProcessError: The build failed; what it said is on stderr.
    """
    crates_lock.restore()
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "SOURCE_DATE_EPOCH": _FILE_DATE,
        # No path of the machine that built it.
        "RUSTFLAGS": f"--remap-path-prefix={_HERE}=native --remap-path-prefix={Path.home()}=home",
    }
    if target is not None:
        environ["CARGO_TARGET_DIR"] = str(target)
    command = [sys.executable, "-m", "maturin", "build", "--release", "--quiet"]
    told = ["--manifest-path", str(_HERE / "Cargo.toml"), "--out", str(folder)]
    built = subprocess.run(  # noqa: S603 - fixed words
        [*command, *told], capture_output=True, text=True, check=False, env=environ
    )
    if built.returncode != 0:
        print(built.stdout, built.stderr, sep="\n", file=sys.stderr)
        built.check_returncode()
    (wheel,) = folder.glob("sluiceway_native-*.whl")
    return wheel


def install(wheel: Path) -> None:
    """Install a wheel into this Python, in the place of another one."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    how = ["--no-deps", "--no-index", "--force-reinstall", str(wheel)]
    subprocess.run([*command, *how], check=True)  # noqa: S603 - fixed words


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--needed", action="store_true")
    parser.add_argument("--wheel", type=Path, metavar="DIR")
    asked = parser.parse_args()
    found = rust_version()
    if found is None or found < _RUST:
        what = "is not found" if found is None else f"has version {found[0]}.{found[1]}"
        print(
            f"native module: not built, cargo {what} and Rust 1.88 or newer is needed; everything "
            "works without it, at several times the CPU a record",
            file=sys.stderr,
        )
        return int(asked.needed or asked.wheel is not None)
    try:
        if asked.wheel is not None:
            # From nothing, so that the same bytes are no accident of what is left.
            with tempfile.TemporaryDirectory() as target:
                print(build_wheel(asked.wheel, Path(target)))
            return 0
        print("native module: building it with cargo (half a minute)", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            install(build_wheel(Path(folder)))
    except subprocess.CalledProcessError as error:
        print(
            f"error: native module: `{' '.join(error.cmd[2:4])}` failed, see above; "
            "`make install NATIVE_MODULE=0` goes on without it",
            file=sys.stderr,
        )
        return 1
    print("native module: built and installed", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
