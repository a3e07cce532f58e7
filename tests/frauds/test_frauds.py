"""Planted frauds and faults, through real measure jobs: each gets its status, and a reason that names where it was caught."""

import subprocess
from pathlib import Path

import planted_frauds
import pytest
from ladder.environment import detect_cpu, nvcc
from ladder.kernels import Configuration
from ladder.lock import first_gpu
from planted_frauds import FOLDER, KERNELS, complaints, expected


def test_there_are_forty_and_the_page_is_that_of_the_tests():
    assert len({name for (_, name), must in expected().items() if must["status"] != "correct"}) >= 40
    assert planted_frauds.DOCUMENT.read_text() == planted_frauds.document()


def test_on_the_cpu(tmp_path, monkeypatch):
    monkeypatch.setattr("ladder.measure.ROOT", FOLDER)
    found = planted_frauds.run(detect_cpu(), "planted-frauds", tmp_path, 2)
    assert complaints("cpu", found) == []


def test_all_for_a_gpu_compile(tmp_path):
    """As one file, in which each has a name of its own."""
    texts = ['#include "fraud.cuh"', '#include "rounding.cuh"', "using T = float; using Acc = float;"]
    for kernel in KERNELS.values():
        if kernel.kind == "cuda":
            source = kernel.source(Configuration("float32", ())).partition(f'"{kernel.path.name}"')[2]
            renamed = source.replace("spoil(", f"spoil_{kernel.name}(")
            texts.append(f"#define gemm gemm_{kernel.name}\nnamespace of_{kernel.name} {{{renamed}}}\n#undef gemm")
    (tmp_path / "all.cu").write_text("\n".join(texts))
    command = [
        nvcc(),
        "-std=c++17",
        "-arch=sm_90",
        "-cubin",
        "-Xptxas",
        "-O0",
        f"-I{FOLDER}/kernels/include",
        "-o",
        "all.cubin",
        "all.cu",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.gpu
def test_on_a_gpu(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("ladder.measure.ROOT", FOLDER)
    device = first_gpu()
    found = planted_frauds.run(device, device.uuids[0], tmp_path, 8)
    assert complaints("cuda", found) == []
