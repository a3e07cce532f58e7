"""NVIDIA drivers that do not work, or are too old, and GPUs that cannot be measured: each is named,
and never taken for no GPU.
"""

import json
import subprocess
import sys

import drivers
import pynvml
import pytest
from drivers import GT_1030, H200, V100
from ladder.core.errors import InputError
from ladder.devices import detect

SEEN = """
import json
from ladder.core.errors import InputError
from ladder.devices import detect
try:
    gpus = [[gpu.name, gpu.arch, gpu.memory >> 30, gpu.uuids, gpu.driver] for gpu in detect.detect_gpus()]
    found = {"gpus": gpus, "left_out": detect.left_out()}
except InputError as error:
    found = {"error": str(error)}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return drivers.make(tmp_path_factory.mktemp("drivers"))


@pytest.fixture
def seen(made):
    """What a process sees with such a driver."""

    def look(*gpus, **given):
        environment = made.environment(*gpus, **given)
        return json.loads(
            subprocess.check_output([sys.executable, "-c", SEEN], env=environment, text=True)
        )

    return look


def test_the_gpus_that_a_driver_shows(seen):
    uuids = [["NVIDIA H200", "sm_90", 140, ["GPU-0", "GPU-1"], drivers.NEW]]
    assert seen(H200, H200) == {"gpus": uuids, "left_out": []}
    assert seen() == {"gpus": [], "left_out": []}


def test_no_driver_is_no_gpu(seen):
    assert seen(init=pynvml.NVML_ERROR_DRIVER_NOT_LOADED) == {"gpus": [], "left_out": []}


@pytest.mark.parametrize("init", [18, pynvml.NVML_ERROR_NO_PERMISSION, pynvml.NVML_ERROR_UNKNOWN])
def test_a_broken_driver_is_named(seen, init):
    (message,) = seen(H200, init=init).values()
    assert message.startswith("NVIDIA driver: ")
    assert "reboot. To measure the CPU instead: --config 'devices=[cpu]'" in message
    assert ("Driver/library version mismatch" in message) == (init == 18)


def test_a_driver_that_is_too_old_is_named_with_its_version(seen):
    assert seen(H200, driver="535.183.01", cuda=12020) == {
        "error": "NVIDIA driver 535.183.01: it runs CUDA 12.2 at most; expected CUDA 13.0, which "
        "the driver 580 and later run. "
        "To measure the CPU instead: --config 'devices=[cpu]'"
    }
    # with a library of compatibility beside it, an older kernel module runs CUDA 13 too
    assert seen(H200, driver="535.183.01", cuda=13000)["gpus"]
    assert "error" not in seen(driver="535.183.01", cuda=12020)  # without a GPU it does not matter


def test_a_container_without_the_capability_is_named(seen):
    (message,) = seen(H200, cuda=None).values()
    assert (
        "NVML shows a GPU, but CUDA's library cannot be used: libcuda.so.1: cannot open" in message
    )
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in message


def test_a_gpu_that_cannot_be_measured_is_left_out_by_name_beside_a_good_one(seen):
    detected = seen(GT_1030, H200, H200.replace("140;0", "140;1"), "x;9;0;1;0;15", V100)
    assert [(gpu[0], gpu[3]) for gpu in detected["gpus"]] == [("NVIDIA H200", ["GPU-1"])]
    assert detected["left_out"] == [
        "GPU 0, NVIDIA GeForce GT 1030: left out: compute capability 6.1; expected 7.5 or more "
        "(CUDA 13)",
        "GPU 2, NVIDIA H200: left out: split by MIG; expected a whole GPU: `nvidia-smi -i 2 -mig 0`",
        "GPU 3: left out: GPU is lost",
        "GPU 4, Tesla V100: left out: compute capability 7.0; expected 7.5 or more (CUDA 13)",
    ]
    assert seen(V100)["gpus"] == []  # and no word of a driver


def test_memory_that_a_gpu_does_not_tell_is_unknown(seen):
    assert seen("NVIDIA GB10;12;1;0;0;0")["gpus"] == [
        ["NVIDIA GB10", "sm_121", 0, ["GPU-0"], drivers.NEW]
    ]


@pytest.mark.parametrize(
    ("node", "advice"),
    [("/dev/nvidiactl", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"), ("/dev/dxg", "On WSL")],
)
def test_a_gpu_whose_library_is_missing_is_named(monkeypatch, tmp_path, node, advice):
    def missing():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    hint = detect.OF_NODE[node]
    monkeypatch.setattr(detect, "OF_NODE", {str(tmp_path / "none"): hint})
    assert detect.detect_gpus() == []
    monkeypatch.setattr(detect, "OF_NODE", {str(tmp_path): hint})
    with pytest.raises(
        InputError, match=f"exists, but libnvidia-ml.so.1 was not found. .*{advice}"
    ):
        detect.detect_gpus()


def test_a_gpu_without_waits_in_a_stream_is_named():
    detect.check_gate("x", "CUDA_SUCCESS")
    with pytest.raises(
        InputError,
        match=r"NVIDIA X: the driver refuses cuStreamWaitValue32 \(CUDA_ERROR_NOT_SUPPORTED\), "
        r".*WSL",
    ):
        detect.check_gate("NVIDIA X", "CUDA_ERROR_NOT_SUPPORTED")


@pytest.mark.slow
def test_a_run_stops_before_any_work_unless_it_measures_the_cpu(made, project):
    """The rules too: no rule asks a broken driver, and what is left out is a warning of the run."""
    smoke = ("--config", "campaign=smoke")

    def run(environment, *arguments):
        project.environment = environment
        done = project.snakemake("--dry-run", *arguments)
        return done.returncode, done.stdout

    broken = made.environment(H200, init=18)
    code, output = run(broken, *smoke)
    assert code == 1
    assert "Driver/library version mismatch" in output
    assert "Traceback" not in output
    assert "rule compile" not in output
    assert run(broken, *smoke, "devices=[cpu]")[0] == 0
    assert run(broken, "published")[0] == 0
    code, output = run(made.environment(GT_1030, H200), *smoke)
    assert code == 0
    assert (
        output.count(
            "Warning: GPU 0, NVIDIA GeForce GT 1030: left out: compute capability 6.1; expected "
            "7.5 or more"
        )
        == 1
    )
    assert "sm_61" not in output
    assert "results/smoke/nvidia-h200/" in output
    code, output = run(made.environment(GT_1030), *smoke, "devices=[cuda]")
    assert code == 1
    assert "no usable GPU was found here; GPU 0, NVIDIA GeForce GT 1030: left out" in output
