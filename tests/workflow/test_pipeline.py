"""The pipeline itself: Snakemake runs in a copy of the project. The smoke campaign is in test_smoke.py."""

import re
import shutil
import subprocess

import pytest
import synthetic
from planted import C_RIGHT, ROOT, c_kernel

pytestmark = pytest.mark.slow

TINY = """
campaign: tiny
devices: [cpu]
architectures: [sm_80]
kernels: ["c*/9*", "cpu/02*"]
problems: {cpu: [{square: 48}, [33, 17, 65]], cuda: [[1, 1, 1]]}
measure: {min_samples: 5, max_samples: 5, target: 0.5, timeout_seconds: 60}
confirm: {processes: 0}
figures: {width: 3.4, formats: [pdf]}
"""


def test_dropping_a_kernel_is_all_it_takes(project):
    """And its figures are drawn as the campaign says."""
    config = project.campaign(TINY)
    (shown,) = re.findall(r"```c\+\+\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    project.write("kernels/cuda/90_mine.cu", shown)
    project.ok("--configfile", config, "--omit-from", "figures", "claims", "index")
    rows = project.table("tiny/build/sm_80/90_mine/resources.csv")
    assert rows["configuration"].tolist() == ["BX=8", "BX=16", "BX=32"]
    assert set(rows["status"]) == {"compiled"}

    project.write(
        "kernels/cpu/91_mine.c", c_kernel("mine", C_RIGHT).replace("---*/", "parameters: {U: 1}\nsweep: {U: [1, 2]}\n---*/", 1)
    )
    log = project.ok("--configfile", config, "--omit-from", "claims", "index")
    assert log.count("\nlocalrule measure:") == 1  # its own job and no other
    assert log.count("\nlocalrule compile:") == 1
    summary = project.table("tiny/*/summary.csv")
    mine = summary[summary["kernel"] == "91_mine"]
    assert mine["configuration"].tolist() == ["U=1", "U=2"] * 2
    assert set(mine["status"]) == {"correct"}
    # and without a confirmation there is none
    assert not list(project.folder.glob("results/tiny/cpu-*/confirmed.*"))
    assert "confirmed" not in set(project.table("tiny/*/costs.csv")["job"])
    best, pairs = (project.table(f"tiny/*/{name}.csv") for name in ("best", "pairs"))
    assert (set(best["interval"]), set(best["processes"])) == ({"within-run"}, {1})
    assert best["marks"].str.contains("few").all()
    assert (set(pairs["pair"]), set(pairs["verdict"])) == ({"gain"}, {"not confirmed"})
    (svg,) = (project.folder / "results" / "tiny").glob("cpu-*/figures/parameters-91_mine-warm.svg")
    assert re.search(r'<svg [^>]*width="244\.8pt"', svg.read_text())
    assert svg.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_bad_input_is_refused_before_anything_runs(project):
    """By one line; tests/unit/test_campaign.py and test_kernels.py have the messages."""
    square = "campaign: t\nproblems: {cpu: [{square: [-4]}]}"
    written = ("--configfile", "config/test.yaml")
    cases = [
        (square, written, 'config/test.yaml: problems.cpu[0]: got {"square": [-4]}; expected a problem'),
        ("campaign: [", written, ""),
        (square.replace("-4", "4"), (*written, "--config", "architectures=[sm_80,sm_999]"),
         "Error: config/test.yaml and --config: architectures[1]: got 'sm_999'; expected one that "),
        ("", ("--config", "kernels=[cpu/9*]"), "kernels/cpu/90_bad.c: header: unknown key 'blok'; expected one of accesses, "),
    ]  # fmt: skip
    for text, arguments, message in cases:
        if text:
            project.campaign(text)
        else:
            project.write("kernels/cpu/90_bad.c", "/*---\ntitle: t\nidea: i\nblok: 3\n---*/\n")
        refused = project.snakemake(*arguments)
        assert refused.returncode != 0, arguments
        assert message in refused.stdout
        assert "Traceback" not in refused.stdout
        assert not (project.folder / "results").exists()


NAME = "nvidia-a/default"


def publish(project):
    """A made-up published dataset with a repeat in the copy of the project; returns the folder of both."""
    folder = project.folder / "results" / "published" / NAME
    small = {"problems": synthetic.SMALL[:2], "kernels": ("03_shared_tile", "cublas"), "processes": 3}
    for seed in (0, 1):
        synthetic.write(folder / str(seed), seed, device="nvidia-a", **small)
    shutil.rmtree(folder / "1" / "samples")
    synthetic.index(folder.parents[1])
    write_sums(project, NAME)
    return folder


def write_sums(project, *names):
    """The checksums of published datasets, drawn by a process of the copy: it knows the kernels there."""
    code = "import pathlib; from ladder.publishing import publish; published = pathlib.Path('results/published')\n"
    code += "".join(f"publish.write_sums(published / '{name}', pathlib.Path('nothing'))\n" for name in names)
    subprocess.run([project.python, "-c", code + "list(publish.redraw(published))"], cwd=project.folder, check=True)


def test_published_data_are_drawn_again_and_held_against_their_checksums(project):
    """What was drawn is checked to the byte; damaged data are named before anything is drawn."""
    folder = publish(project)
    half = project.write("kernels/cpu/half.c", "/*---\ntitle: begun\n")
    done = project.snakemake("published")
    assert done.returncode == 0, done.stdout[-8000:]
    assert f"Warning: {half}: no header; expected the file to begin with a comment" in done.stdout
    assert f"Error: {half}: no header; " in project.snakemake("--dry-run").stdout  # all kernels are asked for
    half.unlink()
    redrawn = project.folder / "results" / "redrawn" / NAME
    assert (redrawn / "figures" / "performance-warm.svg").exists()
    assert not (folder / "figures").exists()
    assert (redrawn.parents[1] / "index.html").exists()

    svg, table = redrawn / "figures" / "ladder-warm.svg", redrawn / "best.csv"
    before = svg.read_bytes(), table.read_bytes()
    for path in (svg, table):
        path.write_bytes(path.read_bytes() + b" ")
    sums = folder / "SHA256SUMS"
    lines = sums.read_text().splitlines(keepends=True)
    sums.write_text("".join("0" * 64 + line[64:] if line.endswith("figures/ladder-warm.svg\n") else line for line in lines))
    # of the dataset alone: that all of `published` is checked is shown above
    done = project.snakemake(f"results/redrawn/{NAME}/drawn.checked")
    assert (svg.read_bytes(), table.read_bytes()) == before  # what was changed since is made again
    assert done.returncode != 0
    assert "figures/ladder-warm.svg is another; expected what" in done.stdout
    assert "performance-warm" not in done.stdout.split("is another")[0].split("Error")[-1]

    shutil.rmtree(redrawn)
    for path in (folder / "0" / "samples" / "03_shared_tile.float32.parquet", folder / "1" / "confirmed.parquet"):
        path.write_bytes(path.read_bytes()[:-9])
    done = project.snakemake(f"results/redrawn/{NAME}/drawn.checked")
    assert done.returncode != 0
    assert "0/samples/03_shared_tile.float32.parquet is another, 1/confirmed.parquet is another" in done.stdout
    assert "git checkout" in done.stdout
    assert not (redrawn / "summary.csv").exists()
