"""The notebook runs, inside the event loop of a kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "flows" / "notebooks" / "shuffle_a_dataset.ipynb"


def test_no_stored_outputs() -> None:
    """Outputs hold paths and times of whoever ran it: they are not stored."""
    import nbformat

    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in cells)


# The kernel's own machinery: sockets that the garbage collector closes, and a kernel on the loopback address.
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_notebook(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell runs, and the target passes its verification."""
    import nbclient
    import nbformat

    monkeypatch.setenv("PREFECT_API_URL", server)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    results = [
        output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "data" in output
    ]
    assert results[-1] == "True"
    assert any("shuffled.zarr" in result for result in results)
