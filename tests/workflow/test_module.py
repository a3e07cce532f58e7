"""The wheel in an environment of its own, without the checkout: its commands in an empty folder,
and its rules as a module of another workflow, as docs/module.md says.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import documented
import pytest
import yaml
from planted import C_RIGHT, HOME, c_kernel, written
from trying import PLAIN

pytestmark = pytest.mark.slow

PAGE = documented.PAGES["docs/module.md"]
BLOCKS = [block.text for block in documented.blocks() if block.name == "docs/module.md: snakemake"]
SMALL = {
    "campaign": "mine",
    "kernels": ["./mine/*.c"],
    "devices": ["cpu"],
    "problems": {"cpu": [[8, 8, 8]]},
    "measure": {"min_samples": 3, "max_samples": 3},
    "confirm": {"processes": 0},
}


class Installed:
    """An environment with the wheel and what it needs, and nothing of the checkout."""

    def __init__(self, folder: Path) -> None:
        self.bin, tools = folder / "env" / "bin", HOME / ".venv" / "bin"
        # the environment of the tests stays as it is
        made = f"make -C {HOME} -o setup wheel BUILT={folder}/tree DIST={folder}"
        env = f"{tools}/python -m venv --without-pip env"
        pip = f"{tools}/uv pip install -q --python {self.bin}/python --offline *.whl"
        lock = f"-c {HOME}/envs/requirements.lock"
        self("sh", "-ec", f"{made}\n{env}\n{pip} {lock}", folder=folder)
        (self.home,) = folder.glob("env/lib/python3*/site-packages/ladder/home")

    def __call__(self, *command: str, folder: Path, code: int = 0) -> str:
        """Run a command in a folder; returns its output and errors."""
        variables = {"PATH": f"{self.bin}:{os.environ['PATH']}", "NO_COLOR": "1"}
        done = subprocess.run(
            command,
            cwd=folder,
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout[-8000:]
        return done.stdout

    def files(self) -> dict[Path, int]:
        """When each file of the package and of home was written, but for bytecode."""
        files = {path: path.stat() for path in self.home.parent.rglob("*") if path.is_file()}
        return {path: of.st_mtime_ns for path, of in files.items() if path.suffix != ".pyc"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def home(installed):
    """Where nothing is written."""
    before = installed.files()
    yield installed.home
    assert installed.files() == before


def test_the_commands_of_the_page_run_in_an_empty_folder(installed, home, tmp_path):
    (project,) = re.findall(r"```sh\n(ladder init .*?)```", PAGE, re.DOTALL)
    one = (
        "echo 'parameters: {cpu/03_blocked: {BM: [256], BN: [256], BK: [32]}}' >> config/mine.yaml"
    )
    project = project.replace("ladder run", f"{one}\nladder run")  # one configuration
    # a comparison of a run with itself says so by its exit code
    printed = installed("sh", "-ec", project, folder=tmp_path, code=4)
    folder = tmp_path / "my-kernels"
    assert "correct; " in printed
    assert "Explore   results/mine/index.html" in printed
    # without a home that can be written, and in a locale that is not UTF-8
    odd = "env -u XDG_CACHE_HOME HOME=/dev/null/x PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 LC_ALL=POSIX "
    dry = installed(
        *(odd + "ladder run config/mine.yaml --dry-run").split(), folder=folder / "kernels"
    )
    assert "This was a dry-run" in dry
    assert installed("ladder", "init", folder=folder).startswith("now: ")
    unpublished = installed("ladder", "run", "mine", "published", folder=folder, code=1)
    assert "has no published data; expected a clone of the repository" in unpublished
    needs = installed("ladder", "export", "03_shared_tile", folder=folder, code=1)
    assert needs.startswith("Error: needs gemm-ladder[cuda]: pip install 'gemm-ladder[cuda]', or")


def test_any_file_is_judged_as_data_in_an_empty_folder(installed, home, tmp_path):
    (tmp_path / "mine.c").write_text(PLAIN)
    installed("ladder", "try", "mine.c", "--size=24", "--json=r.json", folder=tmp_path)
    (tmp_path / "mine.c").write_text(PLAIN.replace("k * ldb", "k * N"))
    code = "import ladder; print(ladder.judge('mine.c', [[8, 9, 7]]).problems[0].outcomes[0].line)"
    line = "Line(file='mine.c', line=7, text="
    assert line in installed("python", "-c", code, folder=tmp_path)
    check = "ladder check r.json --trust || true"  # how it is answered depends on the machine
    printed = installed("sh", "-c", check, folder=tmp_path)
    assert "cpu/mine: the source is that of the receipt" in printed
    assert "reproduced\n" in printed


@pytest.fixture
def hosted(home, tmp_path, monkeypatch):
    """The repository of the rules, as if the page's address led there."""
    repository = tmp_path / "rules"
    shutil.copytree(home / "workflow", repository / "workflow")
    who = ("-c", "user.name=Owner", "-c", "user.email=owner@example.org")
    for command in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "x"], ["tag", "v0.1.0"]):
        subprocess.run(["git", *command], cwd=repository, check=True)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.file://{repository}.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/OWNER/gemm-ladder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def workflow(folder, block, name, data):
    """Write a workflow with a block of the page and a campaign; returns what runs it."""
    snakefile = written(folder / "workflow" / "Snakefile", BLOCKS[block])
    written(folder / "mine" / "fast.c", c_kernel("Fast", C_RIGHT))
    written(folder / "config" / f"{name}.yaml", yaml.safe_dump(data))
    return "snakemake", "--cores=1", f"--snakefile={snakefile}", f"--directory={folder}"


def test_the_rules_are_a_module(installed, hosted, tmp_path):
    folder = tmp_path / "theirs"
    snakemake = workflow(folder, 0, "all", {"gemm": SMALL, "other": 1})
    printed = installed(*snakemake, folder=tmp_path)
    assert (folder / "all.txt").exists()
    (best,) = folder.glob("judged/results/mine/cpu-*/best.csv")
    assert ",fast," in best.read_text()
    assert "Explore   judged/results/mine/index.html" in printed
    assert "rule measure" not in installed(*snakemake, folder=tmp_path)


def test_a_module_without_a_prefix_is_planned(installed, hosted, tmp_path):
    snakemake = workflow(tmp_path / "theirs", 1, "config", SMALL)
    plan = installed(*snakemake, "--dry-run", folder=tmp_path)
    assert "rule measure" in plan
    assert " results/mine/index.html" in plan
