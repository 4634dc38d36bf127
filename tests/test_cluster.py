"""What a run does on Dask: bounded submission, readable names, the report, and the workers it starts."""

import os
from pathlib import Path

import numpy as np
import pytest
import zarr

from shuffle_tasks import RunError, ShuffleConfig, run_shuffle
from shuffle_tasks.graph.cluster import MMAP_THRESHOLD, allocator_note, local_client
from shuffle_tasks.graph.execute import DaskExecutor


@pytest.fixture
def request_of(tmp_path):
    """Return the fields of a request for a small array in several piles."""
    zarr.create_array(tmp_path / "in.zarr", data=np.arange(400.0), chunks=(20,))
    return {"source": tmp_path / "in.zarr", "target": tmp_path / "out.zarr", "pile_rows": 40, "scatter_rows": 40}


def double(value):
    """Return twice the value; -1 fails."""
    if value < 0:
        raise RunError(f"cannot take {value}")
    return 2 * value


class CountingClient:
    """A client that notes the keys and the most futures that were submitted and not yet released."""

    def __init__(self, client):
        self._client, self.loop = client, client.loop
        self.keys, self.futures, self.most = [], [], 0

    def submit(self, function, argument, *, key, pure):
        """Submit and count."""
        self.futures.append(self._client.submit(function, argument, key=key, pure=pure))
        self.keys.append(key)
        self.most = max(self.most, sum(future.client.refcount[future.key] > 0 for future in self.futures))
        return self.futures[-1]

    def cancel(self, futures):
        """Cancel."""
        self._client.cancel(futures)


def test_submission_is_bounded_and_futures_are_released(client_of):
    """However many tasks there are, a few are in flight, every result comes once, and no future is kept."""
    client = CountingClient(client_of(2))
    executor = DaskExecutor(client, "run", 2)
    assert sorted(executor.run("doubling", double, range(60))) == [2 * n for n in range(60)]
    assert client.most <= 2 * 2 + 3
    assert all(future.status == "cancelled" or not future.client.refcount[future.key] for future in client.futures)
    assert client.keys[:2] == ["doubling-00000-run", "doubling-00001-run"]


def test_first_failure_ends_the_stage(client_of):
    """The error of a task comes through as it is, and the tasks behind it are not submitted."""
    client = CountingClient(client_of(2))
    with pytest.raises(RunError, match="cannot take -1"):
        list(DaskExecutor(client, "failing", 2).run("doubling", double, [1, 2, -1, *range(1000)]))
    assert len(client.keys) < 30


def test_performance_report_is_written(request_of, tmp_path, client_of):
    """On request Dask's report is there after the run, with the names of the tasks."""
    report = tmp_path / "report.html"
    run_shuffle(ShuffleConfig(**request_of, performance_report=report), client_of(2))
    assert "shuffle" in report.read_text()


def environment_of(pid):
    """Return the environment with which a process was started."""
    items = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(item.decode().split("=", 1) for item in items if b"=" in item)


def test_own_workers_have_a_sound_allocator_and_listen_here_only():
    """Workers are exec'ed with the allocator's settings, and all addresses are loopback ones."""
    with local_client(2, 256 * 2**20) as client:
        pids = list(client.run(os.getpid).values())
        assert len(set(pids)) == 2
        for pid in pids:
            found = environment_of(pid)
            assert found["MALLOC_MMAP_THRESHOLD_"] == str(MMAP_THRESHOLD)
            assert int(found["MALLOC_TRIM_THRESHOLD_"]) >= 8 * 2**20
        assert allocator_note(client) is None
        info = client.scheduler_info()
        addresses = [info["address"], *info["workers"], client.dashboard_link]
        assert all("127.0.0.1" in address for address in addresses)


def test_workers_of_others_are_told_of_the_allocator(client_of):
    """Workers that were started without the settings get a note that says how to start them."""
    note = allocator_note(client_of(1))
    assert f"MALLOC_MMAP_THRESHOLD_={MMAP_THRESHOLD}" in note
