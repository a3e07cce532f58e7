"""What the pages tell a stranger to run, run in a copy of the project as a clone has it
(`tests/support/documented.py`), and what the first of these commands, the smoke campaign, leaves:
from the compiler to the page, on this machine's CPU for real.

Nothing here depends on how fast or how busy the machine is, but for what is marked `machine`.
"""

import json
import re

import documented
import pytest
from documented import HERE, SMOKE, Stranger
from ladder.core.errors import NOTHING_MEASURED
from ladder.storage import samples

pytestmark = pytest.mark.slow

KERNELS = ["01_naive_ijk", "02_reordered_ikj", "03_blocked"]
PROBLEMS, CONFIGURATIONS, BASELINES = 3, 4, 2


@pytest.fixture(scope="module")
def stranger(tmp_path_factory) -> Stranger:
    return Stranger(tmp_path_factory.mktemp("stranger") / "gemm-ladder")


@pytest.fixture(scope="module")
def smoke(stranger) -> Stranger:
    """The clone after the smoke campaign."""
    assert stranger.run(SMOKE) == 0, stranger.printed[SMOKE][-8000:]
    (stranger.device,) = (stranger.folder / "results" / "smoke").glob("cpu-*")
    return stranger


@pytest.mark.parametrize("command", documented.run_by(HERE))
def test_a_command_runs(stranger, command):
    code, answer = stranger.run(command), documented.way(command).answer
    printed = stranger.printed[command]
    assert code == 0 or (answer and answer in printed), printed[-8000:]


def test_a_second_run_has_nothing_to_do_but_print_the_table(stranger):
    """It says that nothing was measured, and an exit code of its own says it to a nightly run."""
    assert stranger.run(SMOKE) == 0
    again = stranger.ok("--config", "campaign=smoke", code=NOTHING_MEASURED)
    note, _, table = again.partition("\nGemm Ladder · ")
    assert re.search(
        r"^Nothing to do: measured 20\d\d-\d\d-\d\d \d\d:\d\d\. To measure again, remove "
        r"results/smoke or run in another folder\n$",
        note,
        re.MULTILINE,
    )
    stages, _, first = stranger.printed[SMOKE].partition("\nGemm Ladder · ")
    assert table.splitlines()[1:] == first.splitlines()[1:]
    assert len(stages.splitlines()) < 20
    assert not re.search(r"[\r\x1b]|rule |steps", stranger.printed[SMOKE])


def test_a_run_with_nothing_to_do_imports_no_library_of_tables(stranger, monkeypatch):
    """Nor what checks headers: they were checked before. Each takes as long as to plan the campaign."""
    assert stranger.run(SMOKE) == 0
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    for option, code, more in (("-n", 0, {"pyarrow"}), ("-q", NOTHING_MEASURED, set())):
        printed = stranger.ok("--config", "campaign=smoke", option, code=code)
        imported = set(re.findall(r"^import time:.*\| +(\S+)$", printed, re.MULTILINE))
        assert {"snakemake.cli", "ladder.pipeline.targets"} <= imported
        assert not imported & {"pandas", "jsonschema", "matplotlib", *more}


def test_the_report_is_one_offline_page(stranger):
    assert stranger.run(f"{SMOKE} --report report.html") == 0
    page = (stranger.folder / "report.html").read_text()
    for part in ("performance-warm", "summary.csv", "each timed beside the vendor"):
        assert part in page
    assert 'src="http' not in page


AROUND = {
    "docs/clusters.md": "",
    "docs/compilers.md": "campaign: by-two\nkernels: [cuda/03*]\nproblems: {cuda: [[64, 64, "
    "64]]}\ndevices: [cuda]\n",
}


@pytest.mark.parametrize("page", AROUND)
def test_a_block_of_a_campaign_is_planned(stranger, page, monkeypatch):
    block = next(block for block in documented.blocks() if block.name == f"{page}: yaml")
    monkeypatch.setattr(stranger, "environment", {})
    stranger.simulate(name="NVIDIA H200")
    plan = stranger.ok("--configfile", stranger.campaign(AROUND[page] + block.text), "--dry-run")
    assert "rule measure:" in plan


def test_every_configuration_is_correct_on_every_problem(smoke):
    summary = smoke.table("smoke/cpu-*/summary.csv")
    assert len(summary) == PROBLEMS * (CONFIGURATIONS + BASELINES)
    assert set(summary["status"]) == {"correct"}
    assert (summary["samples"] >= 1).all()
    assert set(summary["stop"]) <= {"target", "drift", "race", "max_samples", "max_seconds"}
    for low, value, high in (
        ("tflops_low", "tflops", "tflops_high"),
        ("ratio_low", "ratio", "ratio_high"),
    ):
        assert ((summary[low] <= summary[value]) & (summary[value] <= summary[high])).all()


def test_the_best_of_each_kernel_is_confirmed_in_fresh_processes(smoke):
    best = smoke.table("smoke/cpu-*/best.csv")
    warm = best[best["state"] == "warm"]
    assert len(warm) == PROBLEMS * (len(KERNELS) + BASELINES)
    assert set(warm["kernel"]) == {*KERNELS, "blas_1", "blas_all"}
    assert set(warm["interval"]) == {"between-process"}
    assert set(warm["processes"]) == {3}
    assert warm["bits"].str.startswith("same: every launch").all()
    rows, session = samples.read(smoke.device / "confirmed.parquet")
    assert session["children"] >= 3
    assert session["measured"] == len(rows)
    assert "simulated" not in (smoke.device / "environment.json").read_text()


def test_cuda_kernels_are_not_compiled_without_a_gpu(smoke):
    assert [path.name for path in smoke.device.with_name("build").iterdir()] == [smoke.device.name]
    assert "3 CUDA kernels not compiled: no GPU found; `--config" in smoke.printed[SMOKE]


def test_every_figure_and_page_is_there(smoke):
    figures = smoke.device / "figures"
    names = ["headline", "performance", "ladder", "roofline", "accuracy", "parameters-03_blocked"]
    for name in names:
        assert (figures / f"{name}-warm.svg").stat().st_size > 5000, name
    assert not list(figures.glob("gpus-*"))  # there is one device
    page = (smoke.device.parent / "index.html").read_text()
    assert "<title>Gemm Ladder: campaign smoke</title>" in page
    assert len(page.encode()) < 5e6
    claims = json.loads((smoke.device / "claims.json").read_text())
    assert {claim["id"]: claim["state"] for claim in claims}["exact"] == "reproduced"


def test_the_costs_are_recorded(smoke):
    costs = smoke.table("smoke/cpu-*/costs.csv")
    assert set(costs["job"]) == {"float32", "confirmed"}
    assert costs["busy_share"].between(0, 1).all()
    assert (costs["peak_memory_bytes"] > 0).all()
    swept = costs[costs["job"] != "confirmed"]
    assert (
        (swept["gauntlet_seconds"] > 0) & (swept["gauntlet_seconds"] < swept["wall_seconds"])
    ).all()


def test_counters_without_a_gpu_are_refused_before_anything_is_measured(smoke):
    refused = smoke.snakemake(
        "counters", "--forceall", "--config", "campaign=smoke", "devices=[cpu]"
    )
    assert refused.returncode == 1
    assert re.search(
        r"Error: .*: devices: got cpu-\S+; expected an NVIDIA GPU among them\. ", refused.stdout
    ), refused.stdout
    assert not re.search(r"^(compile|probe|measure|count) ", refused.stdout, re.M)


@pytest.mark.machine
def test_the_baseline_is_as_fast_as_itself_and_the_ladder_rises(smoke):
    summary = smoke.table("smoke/cpu-*/summary.csv")
    control = summary[summary["kernel"] == "blas_1"]
    near = (control["ratio_low"] < 1.25) & (control["ratio_high"] > 0.8)
    assert near.all(), control[["problem", "ratio_low", "ratio", "ratio_high"]]
    pairs = smoke.table("smoke/cpu-*/pairs.csv").query(
        "pair == 'gain' and kernel == '02_reordered_ikj' and state == 'warm'"
    )
    gains = pairs.set_index("problem").loc[["64", "128"]]
    assert (gains["low"] > 1.2).all(), gains
    assert set(gains["verdict"]) == {"faster"}
