"""The pipeline itself: Snakemake runs in a copy of the project. The smoke campaign is in
test_documented.py.
"""

import re
import shutil
from importlib.metadata import version

import pytest
from ladder.cli import publish
from planted import C_RIGHT, HOME, c_kernel

pytestmark = pytest.mark.slow

TINY = """
campaign: tiny
devices: [cpu]
architectures: [sm_80]
kernels: ["c*/9*", "cpu/02*"]
problems: {cpu: [{square: 48}, [33, 17, 65]], cuda: [[1, 1, 1]]}
measure: {min_samples: 5, max_samples: 5, target: 0.5, timeout_seconds: 60}
confirm: {processes: 0}
"""


def test_dropping_a_kernel_is_all_it_takes(project):
    config = project.campaign(TINY)
    (shown,) = re.findall(r"```c\+\+\n(.*?)```", (HOME / "README.md").read_text(), re.DOTALL)
    project.write("kernels/cuda/90_mine.cu", shown)
    project.ok("--configfile", config, "--omit-from", "figures", "claims", "index")
    rows = project.table("tiny/build/sm_80/90_mine/resources.csv")
    assert rows["configuration"].tolist() == ["BX=8", "BX=16", "BX=32"]
    assert set(rows["status"]) == {"compiled"}

    swept = c_kernel("mine", C_RIGHT).replace(
        "---*/", "parameters: {U: 1}\nsweep: {U: [1, 2]}\n---*/", 1
    )
    project.write("kernels/cpu/91_mine.c", swept)
    project.ok("--configfile", config, "--until", "aggregate")
    log = project.logged()
    kept = not version("snakemake").startswith("9.0.")  # which keeps no log with a logger plugin
    for rule in ("measure", "compile"):  # its own job and no other
        assert log.count(f"\nlocalrule {rule}:") == int(kept)
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


def test_bad_input_is_refused_before_anything_runs(project):
    """By one line; tests/unit/test_campaign.py and test_kernels.py have the messages."""
    project.campaign("campaign: t\nproblems: {cpu: [{square: [-4]}]}")
    project.write("kernels/cpu/90_bad.c", "/*---\ntitle: t\nidea: i\nblok: 3\n---*/\n")
    for given, message in (
        (
            ("--configfile", "config/test.yaml"),
            'Error: config/test.yaml: problems.cpu[0]: got {"square": [-4]}; expected a problem',
        ),
        (("--config", "kernels=[cpu/9*]"), "90_bad.c: header: unknown key 'blok'; did you mean"),
    ):
        refused = project.snakemake(*given)
        assert refused.returncode != 0
        assert message in refused.stdout
        assert "Traceback" not in refused.stdout
        assert not (project.folder / "results").exists()


def test_published_data_are_planned_and_held_against_their_checksums(project):
    """What differs is named, and damaged data before anything is drawn. That all else passes, `make
    check-published` shows.
    """
    folder = project.publish(2)
    shutil.rmtree(folder / "1" / "samples")
    publish.write_sums(folder, folder / "nothing")
    half = project.write("kernels/cpu/half.c", "/*---\ntitle: begun\n")
    plan = project.ok("published", "--dry-run")
    assert f"Warning: {half}: no header; expected the file to begin with a comment" in plan
    jobs = re.findall(r"^(?:local)?rule (\w+):$", plan, re.MULTILINE)
    # figures and the page show the featured run only
    assert sorted(jobs) == ["index", "published", "redraw"]
    # all kernels are asked for
    assert f"Error: {half}: no header; " in project.snakemake("--dry-run").stdout
    half.unlink()

    target = "results/redrawn/nvidia-a/default/best.csv"
    assert "default: not in SHA256SUMS: best.csv, costs.csv, " in project.snakemake(target).stdout
    for path in (
        folder / "0" / "samples" / "03_shared_tile.float32.parquet",
        folder / "1" / "confirmed.parquet",
    ):
        path.write_bytes(path.read_bytes()[:-9])
    done = project.snakemake(target)
    assert done.returncode != 0
    assert (
        "differ from SHA256SUMS: 0/samples/03_shared_tile.float32.parquet, 1/confirmed.parquet. "
        in done.stdout
    )
    assert "git checkout" in done.stdout
    assert not re.search(r"rule (?!redraw)", project.logged()), done.stdout
