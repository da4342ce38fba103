import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from sluiceway.host.process import boot_id, identity_of, is_alive, own_identity


def test_own_identity_is_alive() -> None:
    me = own_identity()
    assert me.pid == os.getpid()
    assert is_alive(me) is True


def test_boot_id_is_the_same_at_each_call() -> None:
    assert boot_id() == boot_id() != ""


def test_is_alive_reused_pid_is_dead() -> None:
    earlier = replace(own_identity(), start_ticks=own_identity().start_ticks - 1)
    assert is_alive(earlier) is False


def test_is_alive_other_host_is_unknown() -> None:
    assert is_alive(replace(own_identity(), host="another-host")) is None


def test_is_alive_other_boot_is_unknown() -> None:
    assert is_alive(replace(own_identity(), boot_id="another-boot")) is None


def test_is_alive_unknown_boot_is_unknown() -> None:
    assert is_alive(replace(own_identity(), boot_id="")) is None


def test_is_alive_ended_process_is_dead() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        identity = identity_of(child.pid)
        assert identity is not None
        assert is_alive(identity) is True
        child.kill()
    assert is_alive(identity) is False


def test_is_alive_zombie_is_dead() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        identity = identity_of(child.pid)
        assert identity is not None
        child.kill()
        deadline = time.monotonic() + 10
        while is_alive(identity) and time.monotonic() < deadline:
            time.sleep(0.01)
        # Nobody has waited for it yet: its entry in the process table is still there.
        os.kill(child.pid, 0)
        assert is_alive(identity) is False


def test_is_alive_while_only_the_first_thread_has_ended_is_alive() -> None:
    # The first thread ends itself by a raw system call; the other one goes on.
    script = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "print('up', flush=True)\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"up\n"
            identity = identity_of(child.pid)
            assert identity is not None
            stat = Path("/proc") / str(child.pid) / "stat"
            deadline = time.monotonic() + 10
            while ") Z " not in stat.read_text() and time.monotonic() < deadline:
                time.sleep(0.01)
            assert ") Z " in stat.read_text()
            assert is_alive(identity) is True
        finally:
            child.kill()
    assert is_alive(identity) is False


def test_identity_of_unused_pid_is_none() -> None:
    assert identity_of(2**22 + 1) is None
