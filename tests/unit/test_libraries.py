"""Versions of cuBLAS: each is found, loaded and named, and its measurements are its own."""

import json
import re
import subprocess
import sys

import blas_stubs
import drivers
import pytest
from ladder.compiling import provenance
from ladder.core import surroundings
from ladder.core.errors import InputError
from ladder.devices import detect, libraries, lock
from ladder.devices.detect import DetectedDevice
from ladder.measuring import probe
from ladder.model import campaign_file
from ladder.pipeline import targets
from planted import written
from rungs import ALL as KERNELS

GPU = DetectedDevice("nvidia-x", "cuda", "NVIDIA X", "sm_90", 2**30, ("GPU-1", "GPU-2"), "1")
CPU = DetectedDevice("cpu-y", "cpu", "Y", "cpu-y", 2**30)
DATA = {
    "campaign": "t",
    "devices": ["cuda", "cpu"],
    "kernels": ["cuda/03_shared_tile", "cpu/03_blocked"],
    "problems": {"cuda": [[5, 6, 7]], "cpu": [[5, 6, 7]]},
}
needs_cuda = pytest.mark.skipif(not libraries.installed()[1], reason="needs the CUDA packages")
VERSIONS = {"libraries": {"cublas": ["13.1.0.3", "13.10.0.20"]}}


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A project in which version 1.1.1 is installed, and another lies in a folder."""
    monkeypatch.chdir(tmp_path)
    for folder in ("installed/nvidia/cu13/lib", "libraries/cublas-13.10.0.20/lib", "own"):
        for name in libraries.FILES:
            written(tmp_path / folder / name, folder)
    own = str(tmp_path / "installed/nvidia/cu13/lib")
    monkeypatch.setattr(libraries, "installed", lambda: ("13.1.0.3", own))
    return tmp_path


@pytest.mark.parametrize(
    ("version", "named", "found"),
    [
        ("13.1.0.3", "", "installed/nvidia/cu13/lib"),
        ("13.10.0.20", "", "libraries/cublas-13.10.0.20/lib"),
        ("13.2.0.1", "own", "own"),
        ("13.1.0.3", "own", "own"),
    ],
)
def test_a_version_is_the_one_named_or_installed_or_in_its_folder(places, version, named, found):
    assert libraries.find(version, named, "t") == str(places / found)


def test_a_version_that_is_missing_is_an_error_that_says_how_to_get_it(places):
    install = "uv pip install --no-deps --target libraries/cublas-13.2.0.9 nvidia-cublas==13.2.0.9"
    with pytest.raises(InputError, match=f"^t: got 13.2.0.9, but 13.1.0.3 is .*: {install}$"):
        libraries.find("13.2.0.9", "", "t")
    (places / "own" / "libcublas.so.13").unlink()
    with pytest.raises(InputError, match=r"^t\.folder: got own, which does not have libcublasLt"):
        libraries.find("13.2.0.9", "own", "t")


def resolved(**data):
    campaign = campaign_file.load(DATA | data, "t", KERNELS)
    return targets.Targets(campaign, detect.resolve(campaign, [GPU], CPU), ["sm_90"])


def test_each_version_is_a_dataset_of_each_gpu(places):
    of_campaign = resolved(**VERSIONS)
    names = ["nvidia-x-cublas-13-1-0-3", "nvidia-x-cublas-13-10-0-20", "cpu-y"]
    assert list(of_campaign.datasets.kinds) == names
    assert of_campaign.machine(names[1]) == {
        "slug": "nvidia-x",
        "library": "13.10.0.20",
        "library_folder": str(places / "libraries/cublas-13.10.0.20/lib"),
    }
    assert of_campaign.datasets.comparisons() == ["results/t/compared-cuda.svg"]
    plain = resolved()
    assert list(plain.datasets.kinds) == ["nvidia-x", "cpu-y"]
    assert [plain.machine(name) for name in plain.datasets.kinds] == [
        {"slug": "nvidia-x"},
        {"slug": "cpu-y"},
    ]


def test_versions_are_compared_on_one_gpu(places, monkeypatch):
    monkeypatch.setattr(lock, "visible", lambda slug: ["GPU-2"])
    first, second, _ = resolved(**VERSIONS).devices
    assert lock.uuids(first) == lock.uuids(second) == ["GPU-1"]
    assert lock.uuids(GPU) == ["GPU-1", "GPU-2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert lock.uuids(GPU) == ["GPU-2"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"libraries": {"cublas": ["13.2.0.9"]}},
            r"t: libraries\.cublas\[0\]: got 13\.2\.0\.9, but 13\.1\.0\.3 is installed",
        ),
        (
            {"libraries": {"cublas": ["13.1.0.3", {"version": "13.1.0.3", "folder": "own"}]}},
            r"t: libraries\.cublas\[1\]: got 13\.1\.0\.3 twice",
        ),
        ({"libraries": {"cublas": ["newest"]}}, r"t: libraries\.cublas\[0\]: got .*newest"),
        (
            VERSIONS | {"partitions": {"p": {"device": "nvidia-x", "architecture": "sm_90"}}},
            "t: libraries: got some with partitions; expected one or the other",
        ),
    ],
)
def test_versions_that_cannot_be_had_are_an_error(places, changes, message):
    with pytest.raises(InputError, match=message):
        resolved(**changes)


def test_a_library_that_changes_makes_measurements_stale(places, monkeypatch):
    monkeypatch.setattr(provenance, "compiler_version", lambda name: "nvcc 1")
    first, second, cpu = resolved(**VERSIONS).devices
    before = [provenance.fingerprint(device) for device in (first, second, GPU, cpu)]
    assert [each.get("nvidia-cublas") for each in before[:2]] == ["13.1.0.3", "13.10.0.20"]
    assert before[0]["cublas"] == before[2]["cublas"] != before[1]["cublas"]
    assert "cublas" not in before[3]
    written(places / "libraries/cublas-13.10.0.20/lib" / libraries.FILES[0], "another")
    after = [provenance.fingerprint(device) for device in (first, second, GPU, cpu)]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True, True]
    with pytest.raises(InputError, match=r"fingerprint\.cublas: got .*; expected .*, as on this"):
        provenance.check_alike(after[1], before[1], "environment.json: fingerprint")


class Child:
    def __init__(self):
        self.attributes = {"library": "cuBLAS 13.1.0"}

    def ask(self, request, timeout):
        yield probe.protocol.Probed({})


def test_a_folder_with_another_version_than_it_is_named_for_is_an_error(places, monkeypatch):
    monkeypatch.setattr(probe, "describe", lambda device: {"device": device.dataset})
    first, second, _ = resolved(**VERSIONS).devices
    assert probe.probe(first, Child())["device"] == "nvidia-x-cublas-13-1-0-3"
    with pytest.raises(InputError, match=r"lib: got cuBLAS 13\.1\.0; expected cuBLAS 13\.10\.0, w"):
        probe.probe(second, Child())


LOADED = """
import ctypes, json, sys
from cuda.pathfinder import load_nvidia_dynamic_lib
from ladder.core.surroundings import described, sha256
from ladder.devices import libraries
libraries.load(sys.argv[1])
found = {name: load_nvidia_dynamic_lib(name) for name in ("cublasLt", "cublas")}
print(json.dumps([
    {name: library.abs_path for name, library in found.items()},
    [ctypes.CDLL(name).cublasVersion() for name in libraries.FILES],
    described("cuda")["libraries"],
    sha256("cuda"),
]))
"""


@needs_cuda
def test_the_one_that_a_worker_loads_is_the_one_that_nvmath_gets(tmp_path):
    """Although another one is installed."""
    folder = blas_stubs.make(tmp_path / "13", 42)
    command = [sys.executable, "-c", LOADED, str(folder)]
    paths, versions, identities, digests = json.loads(subprocess.check_output(command, text=True))
    assert list(paths.values()) == [str(folder / name) for name in libraries.FILES]
    assert versions == [42, 42]
    assert identities == {name: surroundings.identity(folder / name) for name in libraries.FILES}
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests.values())
    assert set(digests) == set(libraries.FILES)


SEARCHED = """
import ctypes, json, sys
from types import SimpleNamespace
from ladder.devices import libraries
libraries.load(sys.argv[1])
from ladder.devices.cublaslt import Matmul, cublasLt
from ladder.model.problem import Problem
stub = ctypes.CDLL(libraries.FILES[0])
stub.lastUs.restype = ctypes.c_double

def time_calls(calls):
    times = []
    for call in calls:
        call()
        times.append(stub.lastUs())
    return times

device = SimpleNamespace(
    given=Problem(8, 8, 8, padding=int(sys.argv[2])),
    blas=SimpleNamespace(sms=0),
    device=SimpleNamespace(compute_capability=lambda: (9, 0)),
    stream=SimpleNamespace(handle=0, synchronize=lambda: None),
    spare=lambda: (1, 2, 3),
    first=lambda: (1, 2, 3),
    time_calls=time_calls,
)
matmul = Matmul(device, cublasLt.create(), (4, 32 << 20), (68, 0, 0, 0), False)
found = matmul.search()
print(json.dumps([
    list(matmul.spaces()),
    [dict(matmul.parameters(each)) for each in matmul.offered()],
    [values in matmul.proposals() for values in map(matmul.parameters, matmul.offered())],
    dict(found),
    matmul.made(dict(found)) is not None,
    matmul.made(dict(found) | {"SPLITK": 3}) is not None,
    matmul.made(dict(found) | {"STAGES": 4}) is not None,
]))
"""


@needs_cuda
@pytest.mark.parametrize(("padding", "best"), [(0, 8), (1, 7)])
def test_cublaslt_is_searched_for_the_fastest_that_it_runs(tmp_path, padding, best):
    """Of the ID 8 only where rows begin on 16 bytes."""
    folder = blas_stubs.make(tmp_path / "13", 42)
    command = [sys.executable, "-c", SEARCHED, str(folder), str(padding)]
    driver = drivers.make(written(tmp_path / "driver" / "x", "").parent)
    said = subprocess.check_output(command, text=True, env=driver.environment())
    ids, offered, proposed, found, *made = json.loads(said)
    assert ids == ([7, 8] if padding == 0 else [7])  # 9 is not on this device
    own = {"ID": 7, "TILE": 1, "STAGES": 1, "SPLITK": 1}
    rest = dict.fromkeys(("REDUCTION", "SWIZZLE", "CUSTOM", "INNER", "CLUSTER"), 0)
    assert offered == [own | rest]  # the second one is not usable
    assert proposed == [True]
    assert (found["ID"], found["TILE"], found["SPLITK"], found["REDUCTION"]) == (best, 5, 2, 2)
    assert made == [True, False, False]  # too much workspace, and too many stages
