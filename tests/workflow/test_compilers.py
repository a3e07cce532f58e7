"""Two compilers in one campaign: what each made is measured, recorded and drawn as its own; every rung compiles by both."""

import pytest
from ladder.compiling import compile
from ladder.core import yaml_schema
from ladder.core.files import ROOT
from ladder.model import campaign_file
from ladder.model.kernel_file import discover
from ladder.storage import samples as records
from planted import CU_RIGHT, cuda_kernel

pytestmark = pytest.mark.slow
CAMPAIGN = """
campaign: two
devices: [cuda]
kernels: ["cuda/8*"]
compiler: [nvcc, nvrtc]
problems: {cuda: [[5, 6, 7], {square: 8}]}
measure: {min_samples: 4, max_samples: 4, target: 0.9, race: false}
confirm: {processes: 3, rounds: 3, within: 0.5, finalists: 4}
"""
LABELS = {"BX=8", "BX=16", "BX=8 compiler=nvrtc", "BX=16 compiler=nvrtc"}


def test_what_each_compiler_made_is_measured_as_its_own(project, monkeypatch):
    project.write("kernels/cuda/80_right.cu", cuda_kernel("right", CU_RIGHT))
    for name, value in project.simulate(name="Fake", uuids=["GPU-1"], driver="1.0", compiler="1.0", others=[0]).items():
        monkeypatch.setenv(name, value)
    project.campaign(CAMPAIGN)
    project.ok("--configfile", "config/test.yaml", "--until", "aggregate")
    rows = records.read(project.folder / "results/two/fake/samples/80_right.float32.parquet")[0]
    assert {row["configuration"] for row in rows} == LABELS
    assert len({row["key"] for row in rows}) == 8  # on two problems
    assert set(project.table("two/fake/summary.csv").query("kernel == '80_right'")["configuration"]) == LABELS
    resources = project.table("two/fake/resources.csv")
    assert dict(zip(resources["configuration"], resources["compiler"], strict=True)) == {
        label: "nvrtc" if "nvrtc" in label else "nvcc" for label in LABELS
    }
    confirmed, _ = records.read(project.folder / "results/two/fake/confirmed.parquet")
    assert {row["configuration"] for row in confirmed if row["kernel"] == "80_right"} <= LABELS


def test_every_rung_compiles_by_nvrtc_and_for_an_older_architecture(tmp_path):
    """In its first element type for sm_80, if it is supported there, in all else for sm_90. `make` compiles all by nvcc for sm_90."""
    text = "campaign: x\nkernels: ['cuda/*']\ncompiler: nvrtc\nelement_types: [float32, float64, float16]\nproblems: {cuda: [[1, 1, 1]]}"
    plan = campaign_file.load(yaml_schema.load(text, "x"), "x", discover(ROOT))
    older, rows = {}, []
    for id, configurations in plan.configurations.items():
        if plan.kernels[id].path.suffix != ".cu" or plan.kernels[id].uses:
            continue
        kernel, folder = plan.kernels[id], tmp_path / id
        legal = {
            configuration.element_type: (configuration, objection)
            for configuration, objection in reversed(configurations)
            if not objection
        }
        first = next(element_type for element_type in plan.element_types if element_type in legal)
        (older[kernel.name],) = compile.compile_kernel(kernel, [legal[first]], "sm_80", folder, 1)
        if older[kernel.name].status == "compiled":
            del legal[first]
        if legal:
            rows += compile.compile_kernel(kernel, list(legal.values()), "sm_90", folder, 2)
    needs = {
        kernel.name: f"needs architecture {kernel.architecture}"
        for kernel in plan.kernels.values()
        if kernel.architecture and not kernel.uses
    }
    needs["14_cluster_split_k"] = "needs compute capability 9.0"
    assert {name: row.reason for name, row in older.items() if row.status == "not_supported"} == needs
    assert len(older) >= 18
    rows += [row for name, row in older.items() if name not in needs]
    assert {row.compiler for row in rows} == {"nvrtc"}
    assert {row.kernel for row in rows} == set(older)
    assert [(row.slug, row.reason) for row in rows if row.status != "compiled"] == []
