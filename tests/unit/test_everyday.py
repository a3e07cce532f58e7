"""What docs/everyday.md says of the Makefile."""

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
