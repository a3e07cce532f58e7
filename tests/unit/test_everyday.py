"""What docs/everyday.md says of the Makefile, and what commands of the pages leave in a checkout."""

import re
import shutil
import subprocess

from planted import ROOT


def test_cleaning_leaves_what_is_published_and_what_is_installed(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    kept = ["results/published/x/environment.json", ".venv/bin/python", "kernels/cpu/mine.c"]
    gone = ["results/smoke/cpu-x/best.csv", "results/try/history", "results/.hidden", ".snakemake/log", ".pytest_cache/x"]
    for name in kept + gone:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    subprocess.run(["make", "clean"], cwd=tmp_path, check=True)
    assert [name for name in kept + gone if (tmp_path / name).exists()] == kept
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["published"]


def test_in_a_checkout_that_was_moved_the_environment_is_made_again(tmp_path):
    """What is installed there names the folder where it was."""
    here, moved = tmp_path / "here", tmp_path / "moved"
    for name in (
        "envs/requirements.lock",
        "envs/bootstrap.lock",
        "envs/start.py",
        "pyproject.toml",
        ".venv/.ready",
        ".venv/bin/ladder",
    ):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).touch()
    shutil.copy(ROOT / "Makefile", here)
    (here / ".venv" / "pyvenv.cfg").write_text(f"home = /usr/bin\ncommand = python3 -m venv --clear {here}/.venv\n")

    def would_run(folder):
        return subprocess.run(["make", "-n", "setup"], cwd=folder, capture_output=True, text=True, check=True).stdout

    assert "venv" not in would_run(here)
    here.rename(moved)
    assert "-m venv --clear .venv" in would_run(moved)
    assert "--editable ." in would_run(moved)


def test_what_the_pages_commands_write_here_makes_no_checkout_dirty(tmp_path):
    """Else what is measured after a report was made could not be published."""
    text = "".join(page.read_text() for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    written = set(re.findall(r"--report (\S+\.html)|tar -czf (\S+\.tar\.gz)", text))
    names = {name for found in written for name in found if name}
    assert {"report.html", "smoke.tar.gz"} <= names
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    shutil.copy(ROOT / ".gitignore", tmp_path)
    ignored = subprocess.run(["git", "check-ignore", *names], cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert set(ignored.split()) == names
