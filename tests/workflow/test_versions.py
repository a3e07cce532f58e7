"""A campaign with two versions of cuBLAS, on simulated GPUs: measured, compared and drawn."""

import json

import pytest
from ladder.analysis import compare
from ladder.core.places import HOME
from ladder.devices.libraries import FILES
from ladder.storage.dataset_layout import PUBLISHED
from planted import CU_RIGHT, cuda_kernel

pytestmark = pytest.mark.slow

CAMPAIGN = """
campaign: versions
devices: [cuda]
libraries: {cublas: [13.2.0.1, {version: 13.10.0.20, folder: own}]}
kernels: ["cuda/8*"]
problems: {cuda: [[5, 6, 7]]}
measure: {sample_us: 10, min_samples: 4, max_samples: 4, target: 0.000001, race: false, timeout_seconds: 600}
baselines: {cuda: [cublas, cublas_bf16x9]}
parameters: {cuda/80_many: {BX: [8]}}
confirm: {processes: 3, rounds: 3}
"""
OLD, NEW = (f"results/versions/fake-cublas-{version}" for version in ("13-2-0-1", "13-10-0-20"))


@pytest.fixture(scope="module")
def project(make_project):
    """One that has measured beside both: the newer one takes half as long."""
    project = make_project()
    project.write("kernels/cuda/80_many.cu", cuda_kernel("many", CU_RIGHT))
    project.campaign(CAMPAIGN)
    project.simulate(uuids=["GPU-0", "GPU-1"], **{"cublas 13.10.0": "right(); slow(0.5)"})
    for folder, version in (("libraries/cublas-13.2.0.1", "13.2.0"), ("own", "13.10.0")):
        project.write(f"{folder}/version", version)
        for name in FILES:
            project.write(f"{folder}/{name}", version)
    project.ok("results/versions/compared-cuda.svg", "--configfile", "config/test.yaml", cores=2)
    return project


def test_each_version_has_a_dataset_that_names_it_on_one_gpu(project):
    for folder, version in ((OLD, "13.2.0.1"), (NEW, "13.10.0.20")):
        environment = json.loads((project.folder / folder / "environment.json").read_text())
        assert environment["name"] == f"Fake, cuBLAS {version}"
        assert environment["fingerprint"]["nvidia-cublas"] == version
        assert set(environment["fingerprint"]["cublas"]) == set(FILES)
        device = folder.rpartition("/")[2]
        best = project.table(f"versions/{device}/best.csv")
        assert set(best["uuid"]) == {"GPU-0"}
        assert environment["device"] == device
        summary = project.table(f"versions/{device}/summary.csv")
        assert set(summary["device"]) == {device}


def test_versions_are_compared_and_drawn(project):
    folders = [project.folder / folder for folder in (OLD, NEW)]
    (comparison,) = compare.compare(folders, HOME / PUBLISHED)
    text = comparison.text()
    assert "name: Fake, cuBLAS 13.2.0.1 -> Fake, cuBLAS 13.10.0.20" in text
    assert "fingerprint.nvidia-cublas: 13.2.0.1 -> 13.10.0.20" in text
    assert "faster? cublas 5x6x7 warm" in text
    rows = comparison.rows.set_index(["kernel", "problem"])
    assert rows.loc[("cublas", "5x6x7"), "ratio"] == pytest.approx(2, rel=0.02)
    assert rows.loc[("80_many", "5x6x7"), "ratio"] == pytest.approx(1, rel=0.02)
    drawn = (project.folder / "results/versions/compared-cuda.svg").read_text()
    assert all(folder.name in drawn for folder in folders)
