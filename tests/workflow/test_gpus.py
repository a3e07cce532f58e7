"""Several simulated GPUs of a machine: measured at once, each by one job at a time, in one dataset."""

import os

import pytest
import rendezvous
from ladder.storage import samples as records
from planted import CU_RIGHT, cuda_kernel

pytestmark = pytest.mark.slow

CAMPAIGN = """
campaign: four
devices: [cuda]
kernels: ["cuda/8*"]
parameters: {cuda/80_many: {BX: [1, 2, 3, 4, 5, 6, 7, 8]}}
problems: {cuda: [[5, 6, 7], {square: 8}]}
measure: {min_samples: 10, max_samples: 10, target: 0.000001, race: false, shard: 3, timeout_seconds: 600}
confirm: {processes: 3, rounds: 3}
"""
MEETING = "// python: __import__('rendezvous').meet(3); right()\n"
"""The first launch of each shard waits until all three have begun."""


@pytest.fixture
def four(project, monkeypatch):
    """A project that sees four GPUs, with a kernel of eight configurations."""
    project.write("kernels/cuda/80_many.cu", cuda_kernel("many", CU_RIGHT))
    project.campaign(CAMPAIGN)
    given = project.simulate(name="Fake", uuids=[f"GPU-{n}" for n in range(4)], driver="1.0", compiler="nvcc 1.0", others=[0])
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return project


def test_shards_are_measured_at_once_each_on_a_gpu_of_its_own(four, tmp_path, monkeypatch):
    four.write("kernels/cuda/80_many.cu", cuda_kernel("many", MEETING + CU_RIGHT))
    monkeypatch.setenv(rendezvous.VARIABLE, str(tmp_path / "met"))
    (tmp_path / "met").mkdir()
    four.ok("--configfile", "config/test.yaml", "--resources", "gpu=4", "--until", "measure", cores=4)
    samples = sorted(four.folder.glob("results/four/fake/samples/*.parquet"))
    assert [path.stem for path in samples] == [
        "80_many.float32.1of3",
        "80_many.float32.2of3",
        "80_many.float32.3of3",
        "baselines.float32",
    ]
    rows = [records.read(path)[0] for path in samples]
    used = [{row["uuid"] for row in of_one} for of_one in rows]
    assert all(len(uuids) == 1 for uuids in used)
    assert len(set.union(*used[:3])) == 3  # the baselines may be done before the last begins
    assert {row["configuration"] for of_one in rows[:3] for row in of_one} == {f"BX={b}" for b in range(1, 9)}
    assert {row["status"] for of_one in rows for row in of_one} == {"correct"}


NCU = """#!/bin/sh
while [ "$1" != --metrics ]; do shift; done
shift 2
"$@" || { echo "==ERROR== The application returned an error code ($?)."; exit 1; }
echo '"ID","sm__inst_executed.sum"'
echo '"0","42"'
"""


def test_one_gpu_at_a_time_unless_more_are_asked_for_and_what_is_counted_runs_on_it(four, monkeypatch):
    four.campaign(
        CAMPAIGN.replace("[1, 2, 3, 4, 5, 6, 7, 8]", "[1, 2]")
        .replace("shard: 3", "shard: 1")
        .replace("processes: 3, rounds: 3", "processes: 0")
    )
    four.ok("results/four/fake/summary.csv", "--configfile", "config/test.yaml", cores=4)
    assert set(four.table("four/fake/summary.csv")["uuid"]) == {"GPU-0"}

    refused = four.snakemake("counters", "--configfile", "config/test.yaml")
    assert refused.returncode == 1
    assert "Error: PATH: got no ncu; expected that of Nsight Compute" in refused.stdout
    assert "rule " not in refused.stdout
    ncu = four.write("tools/ncu", NCU)
    ncu.chmod(0o755)
    monkeypatch.setenv("PATH", str(ncu.parent), prepend=os.pathsep)
    four.ok("counters", "--configfile", "config/test.yaml")
    counters = four.table("four/fake/counters.csv")
    assert counters["reason"].isna().all(), counters["reason"].tolist()
    assert list(counters["instructions"]) == [42]
    compiled = four.table("four/fake/resources.csv").set_index(["kernel", "configuration"])["sha256"]
    (row,) = counters.to_dict("records")
    assert row["binary_sha256"] == compiled[row["kernel"], row["configuration"]]
    assert (row["device"], row["uuid"]) == ("fake", "GPU-0")
