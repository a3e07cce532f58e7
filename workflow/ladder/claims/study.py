"""Define a study: a question about the project that a script answers by its own run.

The script writes its measurements to a JSON file through its `Study`. docs/evidence.md quotes the answers that are committed in
`results/published/studies/`. Nothing here imports a script.
"""

import csv
import json
import os
import shlex
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder.compiling.provenance import describe
from ladder.core.errors import InputError
from ladder.core.files import ROOT, read_json, write_whole
from ladder.devices.detect import DetectedDevice
from ladder.storage.dataset_layout import ANSWERS, PUBLISHED

NOTHING = "not measured yet"


@dataclass(frozen=True)
class Study:
    """A question, the command that measures, and functions that word the answer."""

    name: str
    question: str
    answer: Callable[[Any], str]
    """Turns the measurements into a part of a sentence."""
    short: Callable[[Any], str]
    """Turns the measurements into at most 12 words with one number."""
    run: str
    """The command that measures."""
    files: str = ""
    """A pattern for the files of answers below results/published, if they are not `studies/<name>.*.json`."""

    def write(self, device: DetectedDevice, measured: Any, **provenance: Any) -> Path:
        """Write the measurements on a device, with their provenance, to `results/studies/<name>.<device>.json`, and return that path.

        The caller passes the rest of the provenance: `uuids` of the GPUs used, `binaries`, the SHA-256 of the timed binaries, and
        `software` of others.
        """
        path = ROOT / ANSWERS / f"{self.name}.{device.slug}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        command = shlex.join([os.path.relpath(sys.argv[0], ROOT), *sys.argv[1:]])
        answer = {
            "question": self.question,
            "provenance": describe(device) | {"command": command, **provenance},
            "measured": measured,
        }
        write_whole(path, (json.dumps(answer, indent=1) + "\n").encode())
        print(f"{self.question} {self.answer(measured)}\nwritten: {path.relative_to(ROOT)}", flush=True)
        return path

    def published(self, root: Path) -> dict[Path, tuple[str, Any]]:
        """Return the device and the measurements of every committed answer, by file.

        Raises `InputError` for an answer measured from a checkout with changes or without a commit.
        """
        answers = {}
        for path in sorted((root / PUBLISHED).glob(self.files or f"studies/{self.name}.*.json")):
            answer = read_json(path)
            if self.files:  # made of published data, which have their own provenance
                answers[path] = answer["device"], answer
                continue
            provenance = answer["provenance"]
            if not provenance["project"]["commit"] or provenance["project"]["dirty"]:
                raise InputError(f"{path}: measured from a checkout with changes or without a commit; expected a clean one")
            answers[path] = provenance["device"], answer["measured"]
        return answers

    def outdated(self, path: Path) -> str:
        """Return why a committed answer no longer holds, in parentheses: what somebody has added to its file; "" if it holds."""
        why = read_json(path).get("outdated")
        return f" (outdated: {why})" if why else ""

    def sentences(self, root: Path) -> list[str]:
        """Return every committed answer as text, or that nothing was measured yet."""
        answers = self.published(root).items()
        return [f"{self.answer(measured)} (`{device}`){self.outdated(path)}" for path, (device, measured) in answers] or [NOTHING]


def command_line(doc: str | None) -> ArgumentParser:
    """Return the parser of a study's options, to which the study adds its own. The help is the docstring of its module."""
    return ArgumentParser(description=doc, formatter_class=RawDescriptionHelpFormatter)


def binaries(campaign: Path) -> dict[str, str]:
    """Return the SHA-256 of all binaries that a campaign timed, from the `resources.csv` of the datasets in its folder.

    The keys are architecture, kernel, element type and configuration: `sm_90 03_shared_tile.float32 BM=32 BN=32 BK=32`.
    """
    sha256: dict[str, str] = {}
    for path in sorted(campaign.glob("*/resources.csv")):
        with path.open(newline="") as file:
            sha256 |= {
                f"{row['arch']} {row['kernel']}.{row['element_type']} {row['configuration']}": row["sha256"]
                for row in csv.DictReader(file)
                if row["sha256"]  # configurations that were not compiled have none
            }
    return sha256


def percent(ratio: float) -> str:
    """Return the deviation of a ratio from 1, such as `+2.3 %`."""
    return f"{100 * (ratio - 1):+.1f} %"


def furthest(ratios: Iterable[float]) -> float:
    """Return the ratio that is furthest from 1."""
    return max(ratios, key=lambda ratio: abs(ratio - 1))
