"""The pipeline itself: Snakemake runs in a copy of the project and measures the CPU for real."""

import re
import shutil
import subprocess

import pandas as pd
import pytest
import synthetic
from ladder import records
from planted import C_RIGHT, ROOT, c_kernel

TINY = """
campaign: tiny
devices: [cpu]
architectures: [sm_80]
kernels: {kernels}
problems: {{cpu: [{{square: 48}}, [33, 17, 65]], cuda: [[1, 1, 1]]}}
measure: {{min_samples: 5, max_samples: 5, target: 0.5, timeout_seconds: {timeout}}}
confirm: {{processes: 0}}
"""


@pytest.fixture(scope="module")
def smoke(make_project):
    """The smoke campaign, run once from a fresh copy."""
    project = make_project()
    project.log = project.ok("--config", "campaign=smoke", "devices=[cpu]", cores=2)
    return project


def test_the_smoke_campaign_measures_everything_it_asks_for(smoke):
    summary = smoke.table("smoke/*/summary.csv")
    assert len(summary) == 3 * (2 + 1 + 1 + 2)
    assert set(summary["status"]) == {"correct"}
    assert set(summary.loc[summary["stop"] != "race", "samples"]) <= {10, 11, 12}
    assert summary["samples"].min() >= 5
    assert set(summary["stop"]) <= {"target", "drift", "race", "max_samples", "max_seconds"}
    assert ((summary["tflops_low"] <= summary["tflops"]) & (summary["tflops"] <= summary["tflops_high"])).all()
    best = smoke.table("smoke/*/best.csv")
    assert len(best) == 3 * (2 + 3)


def test_the_baseline_beside_itself_is_as_fast_as_itself(smoke):
    summary = smoke.table("smoke/*/summary.csv")
    control = summary[summary["kernel"] == "blas_1"]
    near = (control["ratio_low"] < 1.25) & (control["ratio_high"] > 0.8)  # on a busy machine intervals are wide
    assert near.all(), control[["problem", "ratio_low", "ratio", "ratio_high"]]


def test_cuda_kernels_are_compiled_without_a_gpu(smoke):
    rows = smoke.table("smoke/build/sm_90/03_shared_tile/resources.csv")
    assert set(rows["status"]) == {"compiled"}
    assert (rows["registers"] > 0).all()


def test_every_figure_is_there(smoke):
    (folder,) = (smoke.folder / "results" / "smoke").glob("cpu-*/figures")
    names = ["performance", "ratio", "time", "ladder", "roofline", "accuracy", "samples", "parameters-03_blocked"]
    for name in names:
        assert (folder / f"{name}-warm.svg").stat().st_size > 5000, name
    assert not list(folder.glob("gpus-*"))  # there is one device


def test_the_campaign_has_a_page_to_look_around_in(smoke):
    page = (smoke.folder / "results" / "smoke" / "index.html").read_text()
    assert "<title>Gemm Ladder: campaign smoke</title>" in page
    assert len(page.encode()) < 5e6


def test_the_models_have_a_row_for_all_that_ran(smoke):
    models, summary = (smoke.table(f"smoke/cpu-*/{name}.csv") for name in ("models", "summary"))
    ran = summary[~summary["kernel"].str.startswith("blas")]
    assert (
        models[["kernel", "configuration", "problem"]].to_numpy().tolist()
        == ran[["kernel", "configuration", "problem"]].to_numpy().tolist()
    )
    assert (models["flops"] == 2 * models["m"] * models["n"] * models["k"]).all()
    assert (models["intensity"] <= models["compulsory_intensity"]).all()


def test_where_nothing_can_be_counted_that_is_told_before_anything_is_measured(smoke):
    refused = smoke.snakemake("counters", "--forceall", "--config", "campaign=smoke", "devices=[cpu]")
    assert refused.returncode == 1
    assert re.search(r"Error: .*: devices: got cpu-\S+; expected an NVIDIA GPU among them: ", refused.stdout), refused.stdout
    assert "rule " not in refused.stdout


def test_a_second_run_has_nothing_to_do_but_to_tell(smoke):
    again = smoke.ok("--config", "campaign=smoke", "devices=[cpu]")
    assert "1 of 1 steps (100%) done" in again
    table, told = (said[said.index("steps (100%) done") : said.index("Complete log")] for said in (smoke.log, again))
    assert told == table


def test_what_it_cost_is_printed_and_recorded(smoke):
    assert "of the measure jobs'" in smoke.log
    costs = smoke.table("smoke/*/costs.csv")
    assert costs["busy_share"].between(0.01, 1).all()
    assert costs["peak_memory_bytes"].between(1e7, 4e9).all()
    measured = costs[costs["job"] != "confirmed"]
    assert (measured["gauntlet_seconds"] > 0).all()
    assert (measured["gauntlet_seconds"] < measured["wall_seconds"]).all()


def test_the_report_is_one_offline_page(smoke):
    smoke.ok("--config", "campaign=smoke", "devices=[cpu]", "--report", "report.html")
    page = (smoke.folder / "report.html").read_text()
    assert "performance-warm" in page
    for words in ("A kernel has reached", "A column with one bright cell", "A narrow column round 0"):
        assert words in " ".join(page.split()), words
    assert "summary.csv" in page
    assert 'src="http' not in page


def test_dropping_a_kernel_is_all_it_takes(project):
    """And its figures are drawn as the campaign says."""
    text = TINY.format(kernels='["c*/9*", "cpu/02*"]', timeout=60) + "figures: {width: 3.4, formats: [pdf]}\n"
    config = project.campaign(text)
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
    (svg,) = (project.folder / "results" / "tiny").glob("cpu-*/figures/parameters-91_mine-warm.svg")
    assert re.search(r'<svg [^>]*width="244\.8pt"', svg.read_text())
    assert svg.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_a_rerun_takes_what_the_journal_has(project):
    config = project.campaign(TINY.format(kernels="[cpu/02_reordered_ikj]", timeout=60))
    project.ok("--configfile", config, "--until", "measure")
    (samples,) = (project.folder / "results" / "tiny").glob("cpu-*/samples/02_reordered_ikj.float32.parquet")
    before = pd.read_parquet(samples)
    journal = records.journal_of(samples)
    lines = journal.read_bytes().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if b'"samples_us"' in line)  # what is before it is of the gauntlet
    journal.write_bytes(b"".join(lines[: first + 1]) + lines[first + 1][:40])  # as a killed job leaves it
    project.ok("--configfile", config, "--forcerun", "measure", "--until", "measure")
    after = pd.read_parquet(samples)
    assert after["key"].tolist() == before["key"].tolist()
    assert after["samples_us"][0].tolist() == before["samples_us"][0].tolist()
    assert after["samples_us"][1].tolist() != before["samples_us"][1].tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "campaign: t\nproblems: {cpu: [{square: [-4]}]}",
            'config/test.yaml: problems.cpu[0]: got {"square": [-4]}; expected a problem',
        ),
        ("campaign: t\nproblems: {cpu: [{square: 4}]}\nbaseline: 1", "config/test.yaml: unknown key 'baseline'; expected one of"),
        (
            "campaign: t\nproblems: {cpu: [{square: 4}]}\nkernels: [cpu/07]",
            'config/test.yaml: kernels[0]: got "cpu/07"; expected one of',
        ),
        (
            "campaign: t\nproblems: {cpu: [{square: 400000}]}",
            "config/test.yaml: problems.cpu: got [400000, 400000, 400000] in float32, which",
        ),
        (
            "campaign: t\nproblems: {cuda: [[1, 1, 1]], cpu: [[1, 1, 1]]}\nparameters: {cuda/03_shared_tile: {BM: [999]}}",
            "config/test.yaml: parameters.cuda/03_shared_tile: none of the",
        ),
        ("campaign: [", ""),
    ],
)
def test_bad_input_is_refused_before_anything_runs(project, text, message):
    done = project.snakemake("--configfile", project.campaign(text))
    assert done.returncode != 0
    assert message in done.stdout
    assert "Traceback" not in done.stdout
    assert not (project.folder / "results").exists()


def test_a_bad_kernel_header_is_refused_before_anything_runs(project):
    project.write("kernels/cpu/90_bad.c", "/*---\ntitle: t\nidea: i\nblok: 3\n---*/\n")
    done = project.snakemake("--config", "kernels=[cpu/9*]")
    assert done.returncode != 0
    assert "kernels/cpu/90_bad.c: header: unknown key 'blok'; expected one of accesses, architecture, block," in done.stdout
    assert "Traceback" not in done.stdout


def publish(project, name="nvidia-a"):
    """A made-up published dataset with a repeat in the copy of the project; returns its folder."""
    folder = project.folder / "results" / "published" / name
    small = {"problems": synthetic.SMALL, "kernels": ("03_shared_tile", "cublas"), "processes": 3}
    synthetic.write(folder, device=name, **small)
    synthetic.write(folder / "again", seed=1, device=name, **small)
    write_sums(project, name)
    return folder


MADE = ("summary.csv", "best.csv", "pairs.csv", "costs.csv", "models.csv")


def write_sums(project, *names):
    """The checksums of published datasets, drawn by a process of the copy: it knows the kernels there."""
    code = "import sys, pathlib; from ladder import publish; list(publish.redraw(pathlib.Path('results/published')))"
    first = "import pathlib; from ladder import publish\n"
    for name in names:
        first += f"publish.write_sums(pathlib.Path('results/published/{name}'), pathlib.Path('nothing'))\n"
    for text in (first, code):
        subprocess.run([project.python, "-c", text], cwd=project.folder, check=True)


def test_published_data_are_drawn_again_and_held_against_their_checksums(project):
    """What was drawn is checked to the byte; damaged data are named before anything is drawn."""
    folder = publish(project)
    half = project.write("kernels/cpu/half.c", "/*---\ntitle: begun\n")
    done = project.snakemake("published")
    assert done.returncode == 0, done.stdout[-8000:]
    assert f"Warning: {half}: no header; expected the file to begin with a comment" in done.stdout
    assert f"Error: {half}: no header; " in project.snakemake("--dry-run").stdout  # all kernels are asked for
    half.unlink()
    redrawn = project.folder / "results" / "redrawn" / "nvidia-a"
    assert (redrawn / "figures" / "performance-warm.svg").exists()
    assert not (folder / "figures").exists()
    assert (redrawn / "again" / "best.csv").exists()  # the page shows the repeat; no figure does
    assert not (redrawn / "again" / "figures").exists()
    assert (redrawn.parent / "index.html").exists()

    svg, table = redrawn / "figures" / "ladder-warm.svg", redrawn / "again" / "best.csv"
    before = svg.read_bytes(), table.read_bytes()
    for path in (svg, table):
        path.write_bytes(path.read_bytes() + b" ")
    project.ok("published")  # what was changed since is made anew
    assert (svg.read_bytes(), table.read_bytes()) == before
    sums = folder / "SHA256SUMS"
    lines = sums.read_text().splitlines(keepends=True)
    sums.write_text("".join("0" * 64 + line[64:] if line.endswith("figures/ladder-warm.svg\n") else line for line in lines))
    done = project.snakemake("published")
    assert done.returncode != 0
    assert "figures/ladder-warm.svg is another; expected what" in done.stdout
    assert "performance-warm" not in done.stdout.split("is another")[0].split("Error")[-1]

    shutil.rmtree(redrawn)
    samples = folder / "samples" / "03_shared_tile.float32.parquet"
    samples.write_bytes(samples.read_bytes()[:-9])
    done = project.snakemake("published")
    assert done.returncode != 0
    assert "samples/03_shared_tile.float32.parquet is another" in done.stdout
    assert "git checkout" in done.stdout
    assert not (redrawn / "summary.csv").exists()
