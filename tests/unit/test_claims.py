"""What the README says was measured is what the committed data say."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "results" / "published"
README = (ROOT / "README.md").read_text()
WORKSTATION = (ROOT / "docs" / "workstation.md").read_text()


def data(name):
    return json.loads((PUBLISHED / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def repeatability():
    spec = importlib.util.spec_from_file_location("repeatability", ROOT / "tests" / "repeatability.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def both(repeatability):
    return repeatability.compare(*(repeatability.summary(PUBLISHED / name) for name in ("nvidia-h200", "nvidia-h200-x4/one")))


def test_the_campaign():
    found = data("nvidia-h200/benchmark")
    assert f"{found['campaign_s']:.0f} s, in {100 * found['measure_jobs']['nvidia-h200']['busy_share']:.0f} % of" in README


def test_agreement():
    rows = [(row["size"], row["name"], row) for row in data("nvidia-h200/agreement")["rows"]]
    differ = {
        (state, size, name): abs(row["ours"][f"{state}_us"] / row["theirs"][f"{state}_us"] - 1)
        for size, name, row in rows
        for state in ("warm", "cold")
    }
    assert len(differ) == 18
    worst = differ.pop(("cold", 512, "cublas"))
    warm, cold = (max(value for key, value in differ.items() if key[0] == state) for state in ("warm", "cold"))
    assert f"`warm` medians within {100 * warm:.1f} %" in README
    assert f"single launches: within {100 * cold:.1f} %, but cuBLAS at 512 {100 * worst:.1f} %" in README


def test_repeatability(both):
    changes = abs(both.loc[~both["raced"], "ratio_change"])
    assert f"{100 * np.mean(changes <= 0.02):.1f} % of {len(changes)} ratios to cuBLAS within 2 %" in README
    far = both.loc[changes[changes > 0.02].index, "problem"].value_counts()
    assert far.loc[["256", "256x256x16384"]].sum() > 0.75 * far.sum()


def test_choosing_flatters_little(repeatability, both):
    picked = repeatability.chosen_again(both)
    assert f"{100 * picked['ratio_change'].median():+.2f} % in the\n  median" in README
    assert f"median, and {100 * np.mean(picked['behind'] <= 0.01):.0f} % of them the best there too" in README


def test_compiling_does_not_disturb():
    moved = [abs(row["busy_to_quiet"] - 1) for row in data("nvidia-h200/disturbance")["rows"] if "name" in row]
    assert len(moved) == 9
    assert max(moved) < 0.001


def test_several_gpus():
    found = data("nvidia-h200-x4/several_gpus")
    four, one = (run["wall_s"] for run in found["runs"])
    assert f"four: {four:.0f} s, one: {one:.0f} s, with {found['cores']} cores each ({four / one:.2f} of the time)" in README
    assert f"took {four:.0f} s, on one of them {one:.0f} s" in WORKSTATION
    summary = (PUBLISHED / "nvidia-h200-x4" / "summary.csv").read_text()
    assert all(summary.count(uuid) > 100 for uuid in found["runs"][0]["uuids"])
    assert len(found["runs"][0]["uuids"]) == 4


def test_kernel_tuner():
    runs = data("nvidia-h200/kernel_tuner")
    many, alone = (
        {run["backend"]: run["faster"] for run in runs if (run["kernel_tuner"]["configurations"], run["cores"]) == (110, cores)}
        for cores in (16, 1)
    )
    few = [run for run in runs if run["kernel_tuner"]["configurations"] < 20]
    assert f"110 configurations {many['nvcuda']:.1f} (NVRTC) and {many['pycuda']:.1f} (PyCUDA) times as fast" in README
    assert f"with one core {alone['nvcuda']:.1f} and {alone['pycuda']:.1f} times" in README
    times = [run["faster"] for run in few]
    assert f"16 to 19 configurations {min(times):.1f} to {max(times):.1f} times" in README
    assert all(run["cores"] == 16 for run in few)


def test_the_image():
    facts, page = data("robustness/image"), (ROOT / "docs" / "container.md").read_text()
    assert f"{facts['unpacked'] / 1000:.2f} GB unpacked, {facts['archive'] / 1000:.2f} GB as an OCI archive" in page
    assert f"on a base of {facts['base']} MB" in page
    assert f"| {facts['base']} | Debian's base" in page
    rest = facts["unpacked"] - facts["base"]
    shown = {"nvcc": "| {} | `nvcc`", "bindings": "| {} | `cuda-bindings`", "tables and figures": "| {} | pandas"}
    shown |= {"project": "| {} | the project", "cuBLASLt": "({} of them cuBLASLt)", "bytecode": "{} MB of all that is Python"}
    for what, size in facts["parts"].items():
        assert shown.get(what, f"| {{}} | {what}").format(size) in page, what
        rest -= 0 if what in ("cuBLASLt", "bytecode") else size
    assert f"| {rest} | the rest" in page
    assert f"the same {facts['packages']} packages and the same\nbytes in all {facts['files']:,} files" in page
    assert (facts["files_that_differ"], facts["layers_that_differ"]) == ([], 0)
    assert "builds took {} s and {} s".format(*facts["build_seconds"]) in page
