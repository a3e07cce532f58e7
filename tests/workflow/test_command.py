"""The examples in the help of `ladder` do what they say, in a copy of the project with made-up data
of the device that they name.
"""

import shlex
import shutil
import subprocess

import pytest
import synthetic
from ladder.cli.main import COMMANDS
from ladder.storage.published_index import HEADLINE
from planted import HOME
from trying import ladder

MADE = {
    "problems": [(256, 256, 256), (4096, 4096, 4096)],
    "kernels": ("03_shared_tile", "cublas"),
    "processes": 3,
}
ON = {"fingerprint": {"driver": "1", "uuids": ["GPU"]}}


@pytest.mark.slow
def test_every_example_runs(project):
    shutil.copytree(HOME / "docs", project.folder / "docs")
    shutil.copy(HOME / "README.md", project.folder)
    results, published = project.folder / "results", project.folder / "results" / "published"
    for seed, folder in (
        (1, "default/nvidia-h200"),
        (3, "nightly/nvidia-h200"),
        (2, f"published/{HEADLINE}/earlier"),
    ):
        synthetic.write(results / folder, seed, "nvidia-h200", **MADE, **ON)
    synthetic.index(published)
    left = {shlex.split(example)[1]: shlex.split(example)[1:] for example in COMMANDS.values()}

    def example(name, *more, codes=(0,)):
        done = ladder(project, *(word for word in left.pop(name) if word != "--watch"), *more)
        assert done.returncode in codes, f"{name}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr * (codes != (0,))

    assert (
        example("publish") == f"published {published}/{HEADLINE}/2026-01-01T0000; now commit it\n"
    )
    # which the README shows
    assert (published / HEADLINE / "figures" / "headline-warm.svg").exists()
    assert example("repeat").split() == [
        f"{published}/repeat-nvidia-h200.{form}" for form in ("csv", "json")
    ]
    assert "B against A: 8 not distinguishable.\n" in example("compare")
    assert example("new").endswith(f"; now: ladder try {project.folder}/kernels/cpu/mine.c\n")
    assert "correct; " in example("try", "--json", "receipt.json")
    # how it is answered depends on the machine
    assert "cpu/mine: the source is that of" in example("check", codes=(0, 3, 5))
    # what synthetic data measured is no binary of it
    assert "03_shared_tile.cu: " in example("receipt", codes=(1,))
    assert example("export").startswith(f"wrote {results}/export/11_split_k: BM=64 ")
    assert "wrote my-kernels/config/mine.yaml\n" in example("init")
    assert "This was a dry-run" in example("run")
    own = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in ("init --quiet -b main", "add kernels", "commit --quiet -m kernels"):
        subprocess.run(["git", *own, *words.split()], cwd=project.folder, check=True)
    assert "**Gate: passed.**" in example("gate")
    assert left == {}
