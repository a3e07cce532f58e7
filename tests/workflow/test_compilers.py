"""Two compilers in one campaign: what each made is measured, recorded and drawn as its own; every
rung compiles by both.
"""

import pytest
from ladder.compiling import compile, toolchain
from ladder.core import yaml_schema
from ladder.core.places import HOME
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
parameters: {cuda/80_right: {BX: [8]}}
baselines: {cuda: [cublas]}
problems: {cuda: [[5, 6, 7]]}
measure: {sample_us: 10, min_samples: 4, max_samples: 4, target: 0.9, race: false}
confirm: {processes: 3, rounds: 3, within: 0.5}
"""
LABELS = {"BX=8", "BX=8 compiler=nvrtc"}


def test_what_each_compiler_made_is_measured_as_its_own(project):
    project.write("kernels/cuda/80_right.cu", cuda_kernel("right", CU_RIGHT))
    project.simulate()
    project.campaign(CAMPAIGN)
    project.ok("--configfile", "config/test.yaml", "--until", "aggregate")
    (swept,) = (project.folder / "results/two/fake/samples").glob("float32.1of*.parquet")
    rows = records.read(swept)[0]
    assert {row["configuration"] for row in rows} == LABELS
    assert len({row["key"] for row in rows}) == 2
    assert (
        set(project.table("two/fake/summary.csv").query("kernel == '80_right'")["configuration"])
        == LABELS
    )
    resources = project.table("two/fake/resources.csv")
    assert dict(zip(resources["configuration"], resources["compiler"], strict=True)) == {
        label: "nvrtc" if "nvrtc" in label else "nvcc" for label in LABELS
    }
    confirmed, _ = records.read(project.folder / "results/two/fake/confirmed.parquet")
    assert {row["configuration"] for row in confirmed if row["kernel"] == "80_right"} <= LABELS


def test_every_rung_compiles_by_nvrtc(tmp_path, monkeypatch):
    """For sm_90, and not optimized, which takes less than half the time.
    `tests/unit/test_other_gpus.py` compiles the first element type for others.
    """
    monkeypatch.setitem(
        toolchain.FLAGS, "nvrtc", (*toolchain.FLAGS["nvrtc"], "--Ofast-compile=max")
    )
    text = (
        "campaign: x\nkernels: ['cuda/*']\ncompiler: nvrtc\nelement_types: [float32, float64, "
        "float16]\nproblems: {cuda: [[1, 1, 1]]}"
    )
    plan = campaign_file.load(yaml_schema.load(text, "x"), "x", discover(HOME))
    rows, compiled = [], 0
    for id, configurations in plan.configurations.items():
        kernel = plan.kernels[id]
        if kernel.path.suffix != ".cu" or kernel.uses:
            continue
        compiled += 1
        legal = {
            configuration.element_type: configuration
            for configuration, objection in reversed(configurations)
            if not objection
        }
        needs_9_0 = kernel.architecture or "__cluster_dims__" in kernel.text
        types = [it for it in plan.element_types if it in legal][0 if needs_9_0 else 1 :]
        if types:
            rows += compile.compile_kernel(
                kernel, [(legal[it], "") for it in types], "sm_90", tmp_path / id, 2
            )
    assert compiled >= 18
    assert {row.compiler for row in rows} == {"nvrtc"}
    assert [(row.slug, row.reason) for row in rows if row.status != "compiled"] == []
