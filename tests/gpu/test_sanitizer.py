"""compute-sanitizer over every rung, and over a planted fault that it must find.

A tool takes minutes over all rungs, so each test takes a share of them: `-n 8` uses 8 cores, and a
run that must end early can choose some (`-k "racecheck-0 or racecheck-1"`).
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ladder.model.kernel_file import discover
from planted import HOME, Project
from waiting import LIMIT

pytestmark = pytest.mark.gpu


SHARES = 8


def sanitize(
    tool: str, root: Path, folder: Path, share: str, python: str = sys.executable
) -> tuple[int, str]:
    """Errors that a tool of compute-sanitizer counts in a share of the project's own kernels, and
    what it printed; binaries are kept in a folder.
    """
    command = shutil.which("compute-sanitizer")
    if not command:
        pytest.skip("compute-sanitizer is not on the PATH (it comes with the CUDA toolkit)")
    cuda = [kernel for kernel in discover(root).values() if kernel.kind == "cuda"]
    names = {"gemm", *(launch["function"] for kernel in cuda for launch in kernel.then)}
    only = [arg for name in sorted(names) for arg in ("--kernel-name", f"kernel_name={name}")]
    # between allocations: what leaves one does not land in the next
    apart = ("--padding", "65536") if tool == "memcheck" else ()
    launches = [python, str(root / "tests" / "gpu" / "sanitize.py"), str(folder), share]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be compiling the same
        subprocess.run([*launches, "--compile"], timeout=LIMIT, check=True)
    done = subprocess.run(
        [command, "--tool", tool, *apart, *only, *launches],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    summary = re.search(
        r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)", done.stdout
    )
    assert summary, done.stdout[-3000:]
    return int(summary.group(1) or summary.group(2)), done.stdout


def first(output: str) -> str:
    """What a tool complained of first, and before it the launch."""
    match = re.search(r"[^\n]*\n========= (?!COMPUTE-SANITIZER)(?:.*\n?){,30}", output)
    return match[0] if match else output[-1000:]


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the tools share, in whichever of pytest's processes they run."""
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "binaries"


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("tool", ["racecheck", "memcheck", "synccheck"])
def test_every_rung_is_clean(tool, share, binaries, record_property):
    errors, output = sanitize(tool, HOME, binaries / str(share), f"{share}/{SHARES}")
    done = re.search(r"(\d+) launches, 0 wrong", output)
    found = {"tool": tool, "errors": errors, "launches": int(done[1]) if done else 0}
    for name, value in found.items():
        record_property(name, value)  # for studies/checks.py
    assert errors == 0, f"{errors} of {tool}, the first:\n{first(output)}"
    assert done, output[-500:]


@pytest.mark.parametrize(
    ("tool", "right", "wrong"),
    [
        ("memcheck", "row0 + r < M && k0 + k < K", "k0 + k < K"),
        ("racecheck", "__syncthreads();  // the tiles are complete", ""),
    ],
)
def test_a_planted_fault_is_found(project: Project, tmp_path, tool, right, wrong):
    shutil.copytree(HOME / "tests" / "gpu", project.folder / "tests" / "gpu")
    for path in (project.folder / "kernels" / "cuda").glob("*.cu"):
        if path.stem != "03_shared_tile":
            path.unlink()
    kernel = project.folder / "kernels" / "cuda" / "03_shared_tile.cu"
    assert right in kernel.read_text()
    kernel.write_text(kernel.read_text().replace(right, wrong, 1))
    errors, output = sanitize(tool, project.folder, tmp_path / "binaries", "0/1", project.python)
    assert errors > 0, output[-3000:]
