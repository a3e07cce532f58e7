"""Several simulated GPUs of a machine: measured at once, each by one job at a time, in one
dataset.
"""

import os
import re

import pytest
import rendezvous
from ladder.core.errors import NOTHING_MEASURED
from ladder.core.types import ELEMENT_TYPES
from ladder.storage import journal
from ladder.storage import samples as records
from planted import CU_RIGHT, cuda_kernel

pytestmark = pytest.mark.slow

CAMPAIGN = """
campaign: four
devices: [cuda]
kernels: ["cuda/8*"]
parameters: {cuda/80_many: {BX: [1]}, cuda/81_more: {BX: [4]}}
problems: {cuda: [[5, 6, 7]]}
measure: {sample_us: 10, min_samples: 10, max_samples: 10, target: 0.000001, race: false, timeout_seconds: 600}
baselines: {cuda: [cublas]}
confirm: {processes: 0}
figures: {formats: [pdf]}
"""
MEETING = "// python: __import__('rendezvous').meet(2); right()\n"
"""The first launch of each kernel waits until both have begun; a later run finds that they have
met.
"""
PARTS = [f"results/four/fake/samples/float32.{number}of3.parquet" for number in (1, 2)]


@pytest.fixture(scope="module")
def four(make_project, tmp_path_factory):
    """A project that sees four GPUs, on which two kernels were measured, each by a job."""
    project = make_project()
    for name in ("80_many", "81_more"):
        project.write(f"kernels/cuda/{name}.cu", cuda_kernel(name[3:], MEETING + CU_RIGHT))
    project.campaign(CAMPAIGN)
    project.simulate(uuids=[f"GPU-{n}" for n in range(4)])
    project.environment[rendezvous.VARIABLE] = str(tmp_path_factory.mktemp("met"))
    project.ok(*PARTS, "--configfile", "config/test.yaml", "--resources", "gpu=4", cores=4)
    return project


def test_parts_are_measured_at_once_each_on_a_gpu_of_its_own(four):
    rows = [records.read(four.folder / path)[0] for path in PARTS]
    used = [{row["uuid"] for row in of_one} for of_one in rows]
    assert all(len(uuids) == 1 for uuids in used)
    assert len(set.union(*used)) == 2
    assert [row["configuration"] for of_one in rows for row in of_one] == ["BX=1", "BX=4"]
    assert {row["status"] for of_one in rows for row in of_one} == {"correct"}


NCU = """#!/bin/sh
while [ "$1" != --metrics ]; do shift; done
shift 2
"$@" || { echo "==ERROR== The application returned an error code ($?)."; exit 1; }
echo '"ID","sm__inst_executed.sum"'
echo '"0","42"'
"""


def test_one_gpu_at_a_time_unless_more_are_asked_for_and_what_is_counted_runs_on_it(
    four, monkeypatch
):
    for path in PARTS:  # measured again
        (four.folder / path).unlink()
    for path in journal.journals_of(four.folder / PARTS[0]).glob("*.float32.journal"):
        path.unlink()
    four.ok("results/four/fake/summary.csv", "--configfile", "config/test.yaml", cores=4)
    summary = four.table("four/fake/summary.csv")
    assert len(summary) == 2 + len(summary[summary["kernel"].str.startswith("cublas")])
    assert set(summary["uuid"]) == {"GPU-0"}

    refused = four.snakemake("counters", "--configfile", "config/test.yaml")
    assert refused.returncode == 1
    assert "Error: PATH: no ncu found; `counters` needs" in refused.stdout
    assert not re.search(r"^(compile|probe|measure|count) ", refused.stdout, re.M)
    ncu = four.write("tools/ncu", NCU)
    ncu.chmod(0o755)
    monkeypatch.setenv("PATH", str(ncu.parent), prepend=os.pathsep)
    four.ok("counters", "--configfile", "config/test.yaml")
    counters = four.table("four/fake/counters.csv")
    assert counters["reason"].isna().all(), counters["reason"].tolist()
    assert list(counters["instructions"]) == [42, 42]
    compiled = four.table("four/fake/resources.csv").set_index(["kernel", "configuration"])[
        "sha256"
    ]
    for row in counters.to_dict("records"):
        assert row["binary_sha256"] == compiled[row["kernel"], row["configuration"]]
        assert (row["device"], row["uuid"]) == ("fake", "GPU-0")
    # drawn as the campaign says
    svg = four.folder / "results/four/fake/counters.svg"
    assert svg.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_a_campaign_of_every_element_type_is_planned(four):
    config = four.write(
        "config/typed.yaml",
        "campaign: typed\ndevices: [cuda]\nkernels: [cuda/40*]\nproblems: {cuda: [[5, 6, 7]]}\n"
        f"element_types: [{', '.join(ELEMENT_TYPES)}]\n",
    )
    plan = four.ok("--configfile", str(config), "--dry-run")
    for element_type in ELEMENT_TYPES:
        assert f"samples/{element_type}." in plan


def test_a_forced_run_measures_nothing_again_and_says_so(four):
    def made():
        return [records.read(four.folder / path)[0] for path in PARTS], described.read_bytes()

    described = four.folder / "results/four/fake/environment.json"
    before = made()
    forced = ("--configfile", "config/test.yaml", "--forcerun", "probe", "measure")
    again = four.ok(*PARTS, *forced, code=NOTHING_MEASURED)
    assert "Nothing to measure: measured 20" in again
    assert made() == before


def test_results_of_another_driver_are_refused_even_if_snakemake_does_not_look(four):
    settings = four.folder / "gpus.json"
    before = settings.read_text()
    settings.write_text(before.replace('"driver": "1.0"', '"driver": "2.0"'))
    made = ("results/four/fake/summary.csv", "--configfile", "config/test.yaml")
    run = four.snakemake(*made, "--forcerun", "aggregate", "--rerun-triggers", "mtime")
    settings.write_text(before)
    assert run.returncode == 1
    assert (
        "Error: results/four/fake/environment.json: fingerprint.driver: got '1.0'; expected '2.0', "
        "as on this machine" in run.stdout
    )
