"""A real notebook: tables, figures and progress bars are shown by its kernel."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

CELLS = [
    "import mixts\n"
    "prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))\n"
    "prior",
    "prior.belief(n_tasks=3)",
    "environment = mixts.BanditEnvironment(prior)\n"
    "results = mixts.simulate({'MixTS': prior}, environment, 20, 10, seed=1, engine=1, "
    "progress=True)\n"
    "results",
    "mixts.plot(results)",
    "import matplotlib.pyplot as plt\nfigure, ax = plt.subplots()\nmixts.plot(results, ax=ax);",
    "mixts.plot(prior)",
]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """What each cell shows, by type of content."""
    folder = tmp_path_factory.mktemp("kernel")
    kernel = folder / "kernels" / "mixts-test" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    command = f'["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"]'
    kernel.write_text(f'{{"argv": {command}, "display_name": "test", "language": "python"}}')
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the client and its sockets
        patch.setenv("JUPYTER_PATH", str(folder))
        patch.setenv("IPYTHONDIR", str(folder))
        client = nbclient.NotebookClient(book, timeout=120, kernel_name="mixts-test")
        client.execute(cwd=str(Path.cwd()))
    return [[output.get("data", output) for output in cell.outputs] for cell in book.cells]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the client and its sockets
def test_a_notebook_shows_tables_bars_and_figures(outputs: list[list[dict[str, Any]]]) -> None:
    (prior,), (belief,), (bar, results), (figure,), (own,), (again,) = outputs
    assert "<table" in prior["text/html"]
    assert prior["text/plain"].startswith("MixturePrior of")
    assert "Belief about 3 tasks" in belief["text/html"]
    assert "simulating" in bar["text/html"]
    assert 'value="1.0000"' in bar["text/html"]
    assert "Results of 10 runs" in results["text/html"]
    # Before and after pyplot is imported, a figure is one picture.
    for shown in (figure, own, again):
        assert len(shown["image/png"]) > 1000
