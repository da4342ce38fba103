"""MirrorMaker 2 as a process, with the transform of `sluiceway mirror-jar`."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from sluiceway.host.java import find_java
from sluiceway.lab.jars import PinnedJar, default_cache_folder, ensure_jars, jars_folder
from sluiceway.lab.mirror_jar import TRANSFORM, build_mirror_jar
from sluiceway.lab.server import QUICK_JVM_FLAGS, server_environment
from sluiceway.lab.support import ignore_progress

_PINS: Final = Path(__file__).resolve().parent / "mirror_jars.json"
_MAIN: Final = "org.apache.kafka.connect.mirror.MirrorMaker"
_SETTINGS = """\
clusters=a, b
a.bootstrap.servers={a}
b.bootstrap.servers={b}
a->b.enabled=true
a->b.topics={topics}
b->a.enabled=false
replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset-syncs.topic.location=target
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
emit.heartbeats.enabled=false
emit.checkpoints.enabled=false
refresh.topics.interval.seconds=1
tasks.max=1
a.consumer.isolation.level=read_committed
b.offset.flush.interval.ms={flush_ms}
"""
_ORIGIN = """\
a->b.transforms=origin
a->b.transforms.origin.type={transform}
a->b.transforms.origin.cluster={cluster_id}
"""
_EXACTLY_ONCE = """\
b.exactly.once.source.support=enabled
b.producer.transaction.timeout.ms=10000
"""


class MirrorMaker:
    """Copies topics from room a to room b. A context; ends what it has started.

    Killed, it begins again where it last wrote down its place: rows since then come twice, unless
    it copies exactly once.

    Args:
        folder: Of its own.
        servers: Bootstrap servers of both rooms.
        cluster_id: Id of room a's cluster, for the header of copied rows. Without it the mirror
            adds no header and copies exactly once.
        topics: What it copies.
        flush_ms: How often it writes down its place.
        launcher: Begins the command where it is to run elsewhere.
    """

    def __init__(
        self,
        folder: Path,
        servers: tuple[str, str],
        cluster_id: str,
        topics: str,
        *,
        flush_ms: int = 60_000,
        launcher: Sequence[str] = (),
    ) -> None:
        folder.mkdir()
        self._folder = folder
        java, cache = find_java(), default_cache_folder(os.environ)
        pins = tuple(PinnedJar(**pin) for pin in json.loads(_PINS.read_text())["jars"])
        jars = jars_folder(cache, "mirror-maker-4.1.1", pins)
        ensure_jars(jars, pins, java=java, on_progress=ignore_progress)
        settings = _SETTINGS.format(a=servers[0], b=servers[1], topics=topics, flush_ms=flush_ms)
        if cluster_id:
            build_mirror_jar(folder / "origin.jar", cache, java, ignore_progress)
            settings += _ORIGIN.format(transform=TRANSFORM, cluster_id=cluster_id)
        else:
            settings += _EXACTLY_ONCE
        (folder / "mm2.properties").write_text(settings)
        self._command = [
            *launcher,
            *(str(java.executable), "-Xmx512m", *QUICK_JVM_FLAGS),
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            *("-cp", f"{jars}/*:{folder / 'origin.jar'}", _MAIN, "mm2.properties"),
        ]
        self._environment = server_environment(java)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def log_in(self, login: Mapping[str, str]) -> None:
        """Have all its clients log in to both clusters. Called before it starts."""
        with (self._folder / "mm2.properties").open("a") as settings:
            for name, value in login.items():
                settings.write(f"a.{name}={value}\nb.{name}={value}\n")

    def start(self) -> None:
        """Start it, with what it had."""
        with (self._folder / "mirror.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kill(self) -> None:
        """SIGKILL it. Safe to repeat."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
