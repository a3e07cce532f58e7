"""What `ladder try` does before it has a kernel's binary."""

import os
import subprocess
import sys

import numpy as np
import pytest
from ladder.cli import best_rung, trial_verdict
from ladder.compiling import provenance, toolchain
from ladder.core import places
from ladder.core.errors import InputError
from ladder.devices.detect import DetectedDevice
from ladder.model.problem import Problem
from ladder.storage import published_index, samples
from planted import written

NVIDIA_X = DetectedDevice("nvidia-x", "cuda", "NVIDIA X", "sm_90", 1)
HEADER = "/*---\ntitle: t\nidea: i\nblock: [1]\ngrid: [1]\n{}---*/\n"
WITHOUT_PANDAS = """
import os
import sys
from pathlib import Path
import ladder.cli.trial
from ladder.cli import best_rung
from ladder.core import places
from ladder.model.problem import Problem
from ladder.devices.detect import DetectedDevice

places.HOME = Path(sys.argv[1])
os.chdir(places.HOME)
device = DetectedDevice("nvidia-x", "cuda", "NVIDIA X", "sm_90", 1, (), "")
assert best_rung.best_rung(device, places.HOME / "kernels" / "cuda" / "mine.cu", Problem(64, 64, 64))
assert "pandas" not in sys.modules
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A folder with kernels, of which one is tried, for the best of all results there."""
    needs = {"older": "architecture: sm_80a\n", "newer": "compute_capability: 10.0\n"}
    for name in ("mine", "slow", "fast", "padded", "foreign", "older", "newer"):
        path = tmp_path / "kernels" / "cuda" / f"{name}.cu"
        written(path, HEADER.format(needs.get(name, "")))
    monkeypatch.setattr(places, "HOME", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def best(root, tried="kernels/cuda/mine.cu", **given):
    tried, problem = root / tried, Problem(64, 64, 64, **given)
    fastest = best_rung.best_rung(NVIDIA_X, tried, problem)
    return fastest and fastest[0].stem


def measured(folder, *rungs, reference_us=(10.0,) * 3, stop="target", status="correct", **given):
    """Samples of kernels that are there, each with its time, or its times, beside a reference of 10
    microseconds.
    """
    row = vars(Problem(64, 64, 64, **given)) | {
        "configuration": "-",
        "status": status,
        "state": "warm",
        "stop": stop,
        "reference": "cublas",
        "reference_us": reference_us,
    }
    rows = [
        row | {"kernel": name, "key": name, "samples_us": np.broadcast_to(us, 3).tolist()}
        for name, us in rungs
    ]
    (folder / "samples").mkdir(parents=True, exist_ok=True)
    name = "-".join(map(str, (stop, *given.values())))
    samples.write(folder / "samples" / f"{name}.parquet", rows, {})


def published(results, **devices):
    """Published results of devices: the rungs of each."""
    run, index = "2026-01-01T0000", {}
    for slug, rungs in devices.items():
        group = f"nvidia-{slug}/default"
        folder = results / "published" / group / run
        measured(folder, *rungs)
        (folder / "environment.json").write_text("{}")
        index[group] = {"featured": run, "runs": {run: "made up"}}
    published_index.write(results / "published", index)


def test_pandas_which_takes_longer_than_all_else_is_not_imported(root):
    measured(root / "results" / "a" / "nvidia-x", ("fast", 5.0))
    command = [sys.executable, "-c", WITHOUT_PANDAS, str(root)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_best_rung_is_that_of_all_results_of_the_device(root):
    """A dataset of one's own kernels alone, whose name comes first, does not hide a faster
    published rung, of the device or of another.
    """
    results = root / "results"
    own, of_y = results / "a" / "nvidia-x", [("foreign", 1.0), ("slow", 0.9)]
    of_y += [("older", 0.5), ("newer", 0.5)]
    assert best(root) is None
    published(results, y=of_y)
    assert best(root) == "slow"
    measured(own, ("mine", 2.0), ("slow", 9.0), ("gone", 1.0))
    # what another device says of what was measured here does not count
    assert best(root) == "foreign"
    measured(own, ("slow", 7.0), ("foreign", 8.0))
    assert best(root) == "slow"
    # neither does what it says of what is incorrect here, or published for this device
    measured(own, ("padded", 1.0), stop="", status="incorrect")
    of_y.append(("padded", 1.0))
    published(results, y=[*of_y, ("fast", 1.0)], x=[("fast", 9.0)])
    assert best(root) == "slow"
    published(results, y=of_y, x=[("fast", 5.0)])
    assert best(root) == "fast"
    measured(own, ("slow", 4.0), element_type="float64")
    # where the reference may be slow
    measured(own, ("padded", 3.0), padding=3)
    assert best(root) == "fast"
    assert best(root, element_type="float64") == "slow"
    assert best(root, padding=3) == "padded"


def test_a_file_with_the_name_of_the_best_rung_is_timed_beside_it(root):
    measured(root / "results/a/nvidia-x", ("slow", 5.0), ("fast", 4.0))
    assert best(root, "kernels/cuda/fast.cu") == "slow"
    assert best(root, written(root / "own" / "fast.cu", "")) == "fast"


def test_the_best_rung_is_the_one_with_the_highest_median_of_paired_ratios(root):
    """The sweep, the confirmation and the tables order so. The ratio of the medians chooses the
    other of these two.
    """
    even, paired, reference = [5.0, 10.0, 15.0], [4.0, 11.0, 13.0], [10.0, 20.0, 30.0]
    assert np.median(reference) / np.median(even) > np.median(reference) / np.median(paired)
    own = root / "results" / "a" / "nvidia-x"
    measured(own, ("fast", even), ("slow", paired), reference_us=reference)
    assert best(root) == "slow"


def test_what_the_tables_do_not_rank_is_not_the_best_rung(root):
    """What early stopping ended, and what failed in the confirmation."""
    own = root / "results" / "a" / "nvidia-x"
    measured(own, ("slow", 9.0), ("padded", 7.0))
    measured(own, ("fast", 5.0), stop="race")
    assert best(root) == "padded"
    rows, _ = samples.read(own / "samples" / "target.parquet")
    refused = [row | {"process": 1, "status": "incorrect"} for row in rows[1:]]
    samples.write(own / "confirmed.parquet", refused, {})
    assert best(root) == "slow"


CORES = len(os.sched_getaffinity(0))
BUSY_CPU = {"disturbed": f"timed while other processes used 1.3 of {CORES} cores"}
BUSY_GPU = {"disturbed": "timed while 1 other process(es) computed on the device"}
ITSELF = "{} times as fast as itself in adjacent rounds"


@pytest.mark.parametrize(
    ("kind", "others", "reference_us", "doubts"),
    [
        ("cpu", 0.0, [10.0, 10.4] * 5, {}),
        ("cpu", 0.0, [], {}),
        ("cpu", 1.26, [10.0] * 6, BUSY_CPU),
        ("cuda", 1, [10.0] * 6, BUSY_GPU),
        ("cuda", 0, [12.0, 10.0] * 3, {"unsteady": ITSELF.format("cublas is 1.2")}),
        (
            "cpu",
            0.0,
            [10.0, 10.0, 10.0, 40.0, 40.0, 10.0, 10.0],
            {"unsteady": ITSELF.format("blas_1 is 1 (interval not known)")},
        ),
    ],
)
def test_a_busy_machine_makes_a_try_doubtful(kind, others, reference_us, doubts):
    assert trial_verdict.doubts(kind, others, reference_us) == doubts


@pytest.mark.parametrize("code", [0, 1])
def test_what_says_no_version_is_no_compiler(code, monkeypatch, tmp_path):
    written(tmp_path / "cc", f"#!/bin/sh\nexit {code}\n", 0o755)
    monkeypatch.setattr(toolchain, "cc", lambda: (str(tmp_path / "cc"),))
    monkeypatch.setattr(provenance, "cc", lambda: (str(tmp_path / "cc"),))
    toolchain._version.cache_clear()
    with pytest.raises(
        InputError,
        match=f"/cc --version: exit code {code}; expected a compiler, which says its version",
    ):
        toolchain.compiler_version("cc")
