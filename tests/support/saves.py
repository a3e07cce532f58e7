"""How soon a kernel that was saved is answered by `ladder try`, anew and with `--watch`, beside a campaign of that kernel alone.

    .venv/bin/python tests/support/saves.py       a minute or two; a CPU kernel, and a CUDA kernel where there is a GPU

In a copy of the project a kernel of one configuration is saved again and again, each time with an edit that changes its machine code.
Measured are wall times in seconds: of `ladder try` the first time and after each further save; with `--watch` from each save to the
answer's last line; and of the smoke campaign of that kernel, which has run before, after a save.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from author import BY_FOURS, LOOP
from ladder.claims.answers import STUDIES
from ladder.claims.study import command_line
from ladder.cli import new_kernel
from ladder.core.files import ROOT, write_whole
from ladder.devices.detect import DetectedDevice, detect_cpu, detect_gpus
from ladder.devices.lock import first_gpu
from ladder.storage.dataset_layout import PUBLISHED
from planted import Project

SAVES = 5
RUNG = "10_block_tile_128"
PAD = "constexpr int PAD = {};"
KERNELS: dict[str, tuple[str, str, tuple[str, str], Sequence[str]]] = {
    "cpu": ("mine.c", new_kernel.TEXT[".c"].format(title="Mine"), (LOOP, BY_FOURS), ()),
    "cuda": (
        "mine.cu",
        (ROOT / "kernels" / "cuda" / f"{RUNG}.cu").read_text(),
        (PAD.format(4), PAD.format(8)),
        ("--set", "BM=128", "--set", "BN=128", "--set", "TN=8"),
    ),
}
"""File, text, what an edit replaces and by what, and what leaves one configuration of it: the template, and rung 10."""


def saves(project: Project, kind: str, further: int = SAVES) -> dict[str, Any]:
    """Seconds, for a kernel of a device kind in a copy of the project: of each way of trying it the first, and so many further saves.

    Raises `AssertionError` where an answer is not `right`.
    """
    name, text, (old, new), settings = KERNELS[kind]
    assert text.count(old) == 1
    texts = text, text.replace(old, new)
    path, count = project.write(f"kernels/{kind}/{name}", text), 0

    def save() -> None:
        nonlocal count
        count += 1
        write_whole(path, texts[count % 2].encode())  # so that none sees half of it

    command = [project.python, "-m", "ladder", "try", f"kernels/{kind}/{name}", *settings]
    quiet: Mapping[str, Any] = {"cwd": project.folder, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}

    def try_seconds() -> float:
        start = time.monotonic()
        output = subprocess.run(command, check=False, **quiet).stdout
        assert "\ncorrect; " in output, output
        return time.monotonic() - start

    first, again = try_seconds(), []
    for _ in range(further):
        save()
        again.append(try_seconds())
    watched = []
    with subprocess.Popen([*command, "--watch"], **quiet) as watching:

        def answer() -> None:
            lines = []
            for line in watching.stdout or ():
                lines.append(line)
                if line.startswith(("correct; ", "incorrect; ", "Error: ")):
                    break
            assert lines[-1:] and lines[-1].startswith("correct; "), "".join(lines)

        try:
            answer()
            for _ in range(further):
                start = time.monotonic()
                save()
                answer()
                watched.append(time.monotonic() - start)
        finally:
            watching.terminate()

    def campaign() -> None:
        project.ok(
            "--config", "campaign=smoke", f"devices=[{kind}]", f"kernels=[{kind}/mine]", cores=len(os.sched_getaffinity(0))
        )

    campaign()
    save()
    start = time.monotonic()
    campaign()
    return {
        "kind": kind, "first_s": first, "again_s": median(again), "watch_s": median(watched), "campaign_s": time.monotonic() - start,
        "each_again_s": again, "each_watch_s": watched,
    }  # fmt: skip


def main() -> None:
    """Measure on the CPU, and on a GPU where there is one, and write what was found."""
    command_line(__doc__).parse_args()
    devices: list[DetectedDevice] = [*([first_gpu()] if detect_gpus() else []), detect_cpu()]
    for device in devices:
        with tempfile.TemporaryDirectory() as scratch:
            project = Project(Path(scratch) / "project")
            shutil.copytree(ROOT / PUBLISHED, project.folder / PUBLISHED)
            STUDIES["saves"].write(device, saves(project, device.kind), uuids=list(device.uuids))


if __name__ == "__main__":
    main()
