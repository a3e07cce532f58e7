"""Run a command of `ladder` in the project's container image, without a network, with everything
read-only, and within limits of time and memory. docs/trust.md says what that keeps off.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path

from ladder.core.errors import InputError

IMAGE = "gemm-ladder"
"""What `make image` builds."""
SECONDS, MEMORY, PROCESSES = 1800, "8g", 4096
"""The most time, memory and processes of a run."""
FOLDER = "/judged"
"""The working folder in the container: in memory, and gone with it."""
NO_ENGINE, NO_COMMAND = 125, 127
"""Exit codes of Podman and Docker themselves (podman-run(1), "Exit Status")."""
HARDENED = [
    "--rm",
    "--network=none",
    "--read-only",
    "--tmpfs=/tmp:rw,nosuid,nodev,exec",
    f"--tmpfs={FOLDER}:rw,nosuid,nodev,exec,mode=1777",
    f"--workdir={FOLDER}",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--user=12345:23456",
    f"--memory={MEMORY}",
    f"--pids-limit={PROCESSES}",
    "--entrypoint=ladder",
]
GPUS = {"podman": "--device=nvidia.com/gpu=all", "docker": "--gpus=all"}
"""What gives a container the GPUs, by engine, in order of preference."""


def run(
    words: Sequence[str], files: Iterable[Path], needs_gpu: bool, output: Path | None = None
) -> int:
    """Run `ladder` with these words in a container that sees the `files` only, each at its own
    path, and return its exit code. What it prints goes to `output`, if given.

    Raises `InputError` if there is no container engine or no image, or at the time limit.
    """
    engine = next(filter(shutil.which, GPUS), None)
    if engine is None:
        raise InputError(
            "--sandbox: no container engine found; expected podman or docker, and the image that "
            "`make image` builds (docs/container.md)"
        )
    name = f"{IMAGE}-{os.getpid()}"
    mounts = [f"--volume={path}:{path}:ro" for path in dict.fromkeys(files)]
    gpus = [GPUS[engine]] if needs_gpu else []
    command = [engine, "run", f"--name={name}", *HARDENED, *gpus, *mounts, IMAGE, *words]
    try:
        with output.open("wb") if output else nullcontext() as file:
            code = subprocess.run(command, stdout=file, timeout=SECONDS, check=False).returncode
    except subprocess.TimeoutExpired:
        subprocess.run([engine, "kill", name], capture_output=True, check=False)
        raise InputError(f"--sandbox: not done within {SECONDS} s: it was ended") from None
    if NO_ENGINE <= code <= NO_COMMAND:
        raise InputError(
            f"--sandbox: {engine} cannot run the image {IMAGE}; build it: `make image` in a checkout"
        )
    return code
