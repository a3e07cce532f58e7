"""`snakemake reproduce` holds what it measures against the claims, tells, and fails where something
is not reproduced.
"""

import json
import re

import pytest
import synthetic
from ladder.storage import csv_files, samples

pytestmark = pytest.mark.slow

TINY = """
campaign: tiny
devices: [cpu]
kernels: [cpu/02*]
problems: {cpu: [{square: 48}]}
baselines: {cpu: [blas_1]}
measure: {min_samples: 5, max_samples: 5, target: 0.5}
confirm: {processes: 0}
"""
COUNTED = "table: summary, test: count, which: {status: incorrect}"
CLAIM = f"""
- {{id: exact, says: Nothing is wrong., where: {{kind: cpu}}, {COUNTED}}}
- {{id: wrong, says: "Nothing is right: {{value}}.", where: {{kind: cpu}}, table: summary, test: count, which: {{status: correct}}}}
- {{id: elsewhere, says: A GPU is a GPU., where: {{kind: cuda}}, {COUNTED}}}
"""
SLOW = """
- {id: slow, says: Rung 02 is never the best., where: {kind: cpu}, table: best, test: count, which: {kernel: 02_reordered_ikj}}
"""


@pytest.fixture(scope="module")
def tiny(make_project):
    """A copy whose claims are few, and one of them wrong; what `reproduce` said there."""
    project = make_project()
    project.write("config/claims.yaml", CLAIM)
    project.campaign(TINY)
    project.ok("--configfile", "config/test.yaml", "--until", "aggregate")
    (path,) = project.folder.glob("results/tiny/cpu-*/summary.csv")
    csv_files.write_csv(csv_files.read_csv(path).assign(marks=""), path)  # however busy it was
    project.done = project.snakemake("reproduce", "--configfile", "config/test.yaml")
    return project


def test_what_is_not_reproduced_is_named_and_fails(tiny):
    """Last, after the table of the measured kernels. The entries and the page are there all the
    same.
    """
    assert tiny.done.returncode == 1
    assert re.search(
        r"GFLOP/s.*\n(.*\n)+.*exact: reproduced\n +wrong: not reproduced\n +elsewhere: not "
        r"applicable here\n(.*\n)?"
        r"Claims: 1 reproduced, 1 not reproduced, 1 not applicable here\n"
        r"Not reproduced: Nothing is right: \d+\. Here \d+\. wrong, results/tiny/cpu-.*\n(  .*\n)+$",
        tiny.done.stdout,
    ), tiny.done.stdout[-3000:]
    folder = tiny.folder / "results" / "tiny"
    entries = json.loads((folder / "reproduced.json").read_text())
    (own,) = folder.glob("cpu-*/claims.json")
    entries = [entry for entry in entries if entry["dataset"]]  # nothing is published in the copy
    assert [entry.pop("attempt") for entry in entries] == [1] * len(entries)
    assert json.loads(own.read_text()) == entries
    assert {entry["dataset"] for entry in entries} == {f"results/tiny/{own.parent.name}"}
    assert "Nothing is right: " in (folder / "reproduced.html").read_text()


def test_what_a_busy_machine_leaves_open_has_an_exit_code_of_its_own(tiny):
    (path,) = tiny.folder.glob("results/tiny/cpu-*/best.csv")
    best = csv_files.read_csv(path)
    csv_files.write_csv(best.assign(marks="few; disturbed"), path)
    tiny.write("config/claims.yaml", SLOW)
    done = tiny.snakemake("reproduce", "--configfile", "config/test.yaml")
    assert done.returncode == 5, done.stdout[-3000:]
    again = (
        rf"\nMeasure again: 1 item\(s\) rest on rows marked disturbed, .*Remove "
        rf"results/tiny/{path.parent.name}, and run again while"
    )
    assert re.search(
        r"\nClaims: 0 reproduced, 0 not reproduced, 1 measure again" + again, done.stdout
    )
    entries = json.loads((path.parents[1] / "reproduced.json").read_text())
    assert [(entry["state"], entry["marks"]) for entry in entries if entry["dataset"]] == [
        ("measure again", ["disturbed"])
    ]


def test_a_corrected_claim_is_judged_again_and_nothing_is_measured(tiny):
    """With data published meanwhile, which are judged by the present claims."""
    published = tiny.folder / "results" / "published" / "nvidia-made-up" / "default" / "1"
    synthetic.write(
        published, problems=[(256, 256, 256)], kernels=("03_shared_tile", "cublas"), processes=0
    )
    synthetic.index(tiny.folder / "results" / "published")
    path = published / "samples" / "03_shared_tile.float32.parquet"
    rows, session = samples.read(path)
    samples.write(
        path,
        [rows[0] | {"status": "incorrect", "reason": "made up", "samples_us": []}, *rows[1:]],
        session,
    )
    tiny.write("config/claims.yaml", CLAIM.replace("status: correct", "status: timeout"))
    done = tiny.snakemake("reproduce", "--configfile", "config/test.yaml")
    assert done.returncode != 0
    assert "wrong: reproduced" in done.stdout
    assert "Claims: 2 reproduced, 0 not reproduced, 1 not applicable here\n" in done.stdout
    row = f"03_shared_tile {rows[0]['configuration']} 256 float32 warm: made up"
    expected = (
        rf"Not reproduced: A GPU is a GPU\. Here 1, published 1\. elsewhere, nvidia-.*\n  "
        rf"{re.escape(row)}\n$"
    )
    assert re.search(expected, done.stdout)
    assert "rule claims" in tiny.logged()
    assert "rule measure" not in tiny.logged()

    again = tiny.snakemake("reproduce", "--configfile", "config/test.yaml")
    assert again.returncode != 0
    assert "wrong: reproduced" in again.stdout  # printed every time
    assert "rule claims" not in tiny.logged()
