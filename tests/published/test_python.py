"""The page and the notebook on the use from Python."""

import json
import re
import subprocess
import sys

import pytest
from planted import HOME

CHEAP = """
import sys
import ladder
assert not {"numpy", "pandas", "yaml", "matplotlib", "jsonschema"} & sys.modules.keys()
print(ladder.__all__)
"""


@pytest.fixture
def run(tmp_path):
    """Run code in a fresh process, in a folder that has the kernels and the published data; returns
    what it printed.
    """
    (tmp_path / "kernels").symlink_to(HOME / "kernels")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "published").symlink_to(HOME / "results" / "published")

    def run(*cells):
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(cells)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


def test_importing_the_package_is_cheap(run):
    assert run(CHEAP) == "['InputError', 'compare', 'figure', 'judge', 'open']\n"


def test_the_blocks_of_the_page_run_one_after_another(run, tmp_path):
    page = (HOME / "docs" / "python.md").read_text()
    printed = run(*re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE))
    assert re.match(r"correct \d", printed)
    assert "04_vectorized_parallel" in printed
    assert re.search(r"^not distinguishable +\d+$", printed, re.MULTILINE)
    assert (tmp_path / "ladder.png").stat().st_size > 9000
    assert {path.name for path in (tmp_path / "results").iterdir()} == {"published", "try"}


def test_the_notebook_runs_cell_by_cell(run):
    cells = json.loads((HOME / "docs" / "judge.ipynb").read_text())["cells"]
    assert all(not cell.get("outputs") for cell in cells)
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert run(*code, "print(verdict.status, type(figure).__name__)") == "correct Figure\n"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("ladder.open('kernels')", "Error: kernels: no environment.json and samples"),
        ("ladder.compare('kernels', 'kernels')", "Error: kernels"),
    ],
)
def test_what_cannot_be_opened_is_one_line(tmp_path, call, message):
    command = [sys.executable, "-c", f"import ladder; {call}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1
