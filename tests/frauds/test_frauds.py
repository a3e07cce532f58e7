"""Planted frauds and faults, through real measure jobs: each gets its status, and a reason that
names where it was caught.
"""

import re
import subprocess
from pathlib import Path

import planted_frauds
import pytest
from answer import first_gpu
from ladder.compiling import toolchain
from ladder.compiling.toolchain import nvcc
from ladder.core import clock
from ladder.devices.detect import detect_cpu
from ladder.model.kernel import BATCH, Configuration
from planted import HOME
from planted_frauds import INCLUDE, NOTES, StuckClock, assemble, by_kind, complaints


def test_there_are_eighty_and_the_page_says_what_becomes_of_some():
    frauds = {name for (_, name), must in by_kind().items() if must["status"] != "correct"}
    assert len(frauds) > 80
    rows = re.findall(
        r"^\| [^|]+ \(`(\w+)`\): [^|]+ \| ([^|]*?) ?\| ([^|]*?) ?\|$",
        (HOME / "docs" / "frauds.md").read_text(),
        re.MULTILINE,
    )
    documented = {
        (kind, name): cell
        for name, *cells in rows
        for kind, cell in zip(("cpu", "cuda"), cells, strict=True)
        if cell
    }
    becomes = {
        key: f"`{must['status']}`" + f", {must['by']}".replace(", nothing", "")
        for key, must in by_kind().items()
    }
    assert len(rows) >= 12
    assert documented.items() <= becomes.items()


@pytest.mark.slow
def test_on_the_cpu(tmp_path, monkeypatch):
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setenv(NOTES, str(notes))
    monkeypatch.setattr(toolchain, "PASSED", (*toolchain.PASSED, NOTES))
    with clock.use(StuckClock(notes / "hangs")):
        outcomes = planted_frauds.run(detect_cpu(), "planted-frauds", tmp_path, 2)
    assert complaints("cpu", outcomes) == []
    # these hope to find a result; every timed launch has computed its own
    for name in ("if_right", "unless_poisoned", "cached_by_contents", "keeps_a"):
        timed = sum(
            len(outcomes[name][problem]["samples_us"]) * outcomes[name][problem]["repeats"]
            for problem in ("deep", "wide")
        )
        assert (notes / name).stat().st_size >= timed >= 80


@pytest.mark.slow
def test_all_for_a_gpu_compile(tmp_path):
    """As one file, in which each has a name of its own."""
    texts = ['#include "fraud.cuh"', "using T = float; using Acc = float;", BATCH]
    for kernel in assemble(tmp_path).values():
        if kernel.kind == "cuda":
            source = kernel.source(Configuration("float32", ()))
            source = source.partition(f'"{kernel.path.name}"')[2]
            renamed = source.replace("spoil(", f"spoil_{kernel.name}(")
            texts.append(
                f"#define gemm gemm_{kernel.name}\nnamespace of_{kernel.name} "
                f"{{{renamed}}}\n#undef gemm"
            )
    (tmp_path / "all.cu").write_text("\n".join(texts))
    command = [nvcc(), "-std=c++17", "-arch=sm_90", "-cubin", "-Xptxas", "-O0", f"-I{INCLUDE}"]
    command += ["-o", "all.cubin", "all.cu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.gpu
def test_on_a_gpu(tmp_path: Path, monkeypatch):
    device = first_gpu()
    assert complaints("cuda", planted_frauds.run(device, device.uuids[0], tmp_path, 8)) == []
