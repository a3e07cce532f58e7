"""Write what a study measured, with its answer in words, to
`results/studies/<study>.<device>.json`.

A copy in `results/published/studies/` is what the pages show. Its date and commit are those of the
run: the script of that commit measures the same again.
"""

import json
import os
import shlex
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from ladder.compiling.provenance import describe
from ladder.core.errors import InputError
from ladder.core.files import write_whole
from ladder.core.places import HOME
from ladder.devices.detect import DetectedDevice, detect_gpus, left_out
from ladder.devices.lock import visible
from ladder.model.kernel import Kernel, code_digest


def first_gpu() -> DetectedDevice:
    """Return the first GPU that this process may use, as a device with no other GPU. Raises
    `InputError` for none.
    """
    for device in detect_gpus():
        for uuid in visible(device.slug):
            return replace(device, uuids=(uuid,))
    raise InputError(
        ". ".join(["No GPU found", *left_out(), "Check `nvidia-smi` and CUDA_VISIBLE_DEVICES"])
    )


def write(
    study: str,
    question: str,
    short: str,
    long: str,
    device: DetectedDevice,
    measured: Any,
    kernels: Iterable[Kernel] = (),
    **provenance: Any,
) -> Path:
    """Write an answer, print it, and return its path.

    `short` has at most 12 words and one number. The digests of the `kernels` tell a page whether
    their code has changed since. The caller passes the rest of the provenance: `uuids` of the GPUs
    used, `binaries`, the SHA-256 of what was timed, and `software` of others.
    """
    path = HOME / "results" / "studies" / f"{study}.{device.slug}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    command = shlex.join([os.path.relpath(sys.argv[0], HOME), *sys.argv[1:]])
    answer: dict[str, Any] = {"question": question, "short": short, "long": long}
    digests = {kernel.id: code_digest(kernel.text, kernel.includes) for kernel in kernels}
    if digests:
        answer["kernels"] = digests
    answer |= {
        "provenance": describe(device) | {"command": command, **provenance},
        "measured": measured,
    }
    write_whole(path, (json.dumps(answer, indent=1) + "\n").encode())
    print(f"{question} {long}\nwritten: {path.relative_to(HOME)}", flush=True)
    return path


def command_line(doc: str | None) -> ArgumentParser:
    """Return the parser of a script's options, to which the script adds its own. The help is the
    docstring of its module.
    """
    return ArgumentParser(description=doc, formatter_class=RawDescriptionHelpFormatter)


def binaries(campaign: Path) -> dict[str, str]:
    """Return the SHA-256 of all binaries that a campaign timed, from the `resources.csv` of the
    datasets in its folder.

    The keys are architecture, kernel, element type and configuration: `sm_90 03_shared_tile.float32
    BM=32 BN=32 BK=32`.
    """
    sha256: dict[str, str] = {}
    for path in sorted(campaign.glob("*/resources.csv")):
        # configurations that were not compiled have none
        for row in pd.read_csv(path).dropna(subset=["sha256"]).to_dict("records"):
            name = f"{row['kernel']}.{row['element_type']} {row['configuration']}"
            sha256[f"{row['arch']} {name}"] = row["sha256"]
    return sha256


def percent(ratio: float) -> str:
    """Return the deviation of a ratio from 1, such as `+2.3 %`."""
    return f"{100 * (ratio - 1):+.1f} %"


def furthest(ratios: Iterable[float]) -> float:
    """Return the ratio that is furthest from 1."""
    return max(ratios, key=lambda ratio: abs(ratio - 1))
