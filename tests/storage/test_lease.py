"""One attempt at a time works on a request; the claim of a dead one is seen to be dead."""

import json
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from shuffle_tasks.errors import RequestError, RunError
from shuffle_tasks.storage import lease
from shuffle_tasks.storage.lease import LEASE_NAME, Lease, check_token


def claim(path, **changes):
    """Write a lease that another process left behind, and return it."""
    holder = {"run_id": "other", "host": socket.gethostname(), "pid": os.getpid(), "started": 0.0} | changes
    path.joinpath(LEASE_NAME).write_text(json.dumps(holder))
    return holder


def test_lease_is_exclusive(tmp_path):
    """A second attempt is refused with the name of the first, until the first gives its lease back."""
    first, second = Lease(str(tmp_path), "first"), Lease(str(tmp_path), "second")
    first.acquire()
    with pytest.raises(RequestError, match="run first"):
        second.acquire()
    first.check()
    first.release()
    second.acquire()
    second.release()
    assert os.listdir(tmp_path) == ["lease.lock"]


def test_killed_holder_is_dead_at_once(tmp_path):
    """The lease of a process that was killed is taken over without waiting, and the dead run's tasks cannot commit."""
    script = f"""import os, signal
from shuffle_tasks.storage.lease import Lease
Lease({str(tmp_path)!r}, "killed").acquire()
os.kill(os.getpid(), signal.SIGKILL)"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    check_token(str(tmp_path), "killed")
    mine = Lease(str(tmp_path), "mine")
    mine.acquire()
    with pytest.raises(RunError, match="lost its claim"):
        check_token(str(tmp_path), "killed")
    mine.release()
    with pytest.raises(RunError, match="lost its claim"):
        check_token(str(tmp_path), "mine")


@pytest.mark.parametrize("change", [{"pid": 2**22 - 1}, {"started": 1.0}, {"pid": None}, {"started": "x"}])
def test_holder_on_this_host_without_its_process_is_dead(tmp_path, change):
    """A process id that is free, or has been given to another process since, holds nothing."""
    claim(tmp_path, **change)
    mine = Lease(str(tmp_path), "mine")
    mine.acquire()
    assert mine.is_held()
    mine.release()


def test_heartbeat_decides_for_another_host(tmp_path, monkeypatch):
    """A holder elsewhere lives while its heartbeat is fresh, and is dead when it is too old."""
    claim(tmp_path, host="elsewhere")
    mine = Lease(str(tmp_path), "mine")
    with pytest.raises(RequestError, match="elsewhere"):
        mine.acquire()
    old = time.time() - lease.EXPIRY_SECONDS - 1
    os.utime(tmp_path / LEASE_NAME, (old, old))
    monkeypatch.setattr(lease, "HEARTBEAT_SECONDS", 0.01)
    mine.acquire()
    os.utime(tmp_path / LEASE_NAME, (old, old))
    deadline = time.monotonic() + 10
    while (tmp_path / LEASE_NAME).stat().st_mtime == old and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (tmp_path / LEASE_NAME).stat().st_mtime > old
    mine.release()


def test_one_of_many_contenders_takes_over(tmp_path):
    """However many attempts see the same dead lease, exactly one gets it."""
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        claim(folder)
        contenders = [Lease(str(folder), f"run-{k}") for k in range(4)]

        def attempt(one):
            try:
                one.acquire()
            except RequestError:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            won = list(pool.map(attempt, contenders))
        assert sum(won) == 1
        assert [one.is_held() for one in contenders] == won
        contenders[won.index(True)].release()
