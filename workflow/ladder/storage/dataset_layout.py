"""The files of a dataset: their names, and reading `environment.json`."""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from ladder.core.errors import InputError
from ladder.core.files import MEND

ENVIRONMENT = ("device", "kind", "name", "fingerprint", "project", "attributes", "peaks")
"""The keys that every `environment.json` has."""
CONFIRMED = "confirmed"
"""The name of the confirmation's job and of its file, which lies beside the folder of the sweep's
samples. Of a long confirmation each part has one: `confirmed.1of3`.
"""
COUNTERS = "counters.csv"
"""The file of hardware counters, which only a dataset has that was asked for them."""
TABLES = ("summary", "best", "pairs", "rounds", "references", "costs", "resources", "models")
"""The tables of a dataset. Each is a property of `Dataset` and a CSV file in its folder."""
DRAWN_FROM = ("summary", "best", "pairs", "models", "rounds", "references")
"""The tables of a dataset that its figures are drawn from."""

READINGS = ("sm_clock_mhz", "memory_clock_mhz", "temperature_c", "energy_j", "power_w")
"""Columns with a device's readings of itself during the rounds: the median over the measurement."""

PUBLISHED = Path("results") / "published"

CLAIMS = Path("config") / "claims.yaml"
"""The project's claims about its measurements."""
CLAIMED_OF = ("best", "pairs", "summary")
"""The tables of a dataset that claims are about."""
JUDGED = "claims.json"
"""The file with the data's verdicts on the claims."""
REDRAWN = "redrawn"
"""The dataset that is made from the published samples."""


def read_environment(path: Path | str, needed: Sequence[str] = ENVIRONMENT) -> dict[str, Any]:
    """Return the data in an `environment.json`. Raises `InputError` if it cannot be read or lacks a
    key of `needed`.
    """
    try:
        facts = json.loads(Path(path).read_text())
        missing = [key for key in needed if key not in facts]
    except (OSError, ValueError, TypeError, RecursionError) as error:
        facts, missing = {}, [f"readable JSON: {error}"]
    if missing or not isinstance(facts, dict):
        raise InputError(
            f"{path}: has no {', '.join(missing)}; expected what describes a device. {MEND}"
        )
    return facts


def files(folder: Path) -> list[Path]:
    """Return the files with samples in a dataset's folder: those of the sweep, then those of the
    confirmation if there are any.
    """
    return [*sorted((folder / "samples").glob("*.parquet")), *confirmations(folder)]


def confirmations(folder: Path) -> list[Path]:
    """Return the files of a dataset's confirmation: one, or one for each of its parts."""
    return sorted(filter(is_confirmation, folder.glob("*.parquet")))


def drop_others(folder: Path, kept: Iterable[Path]) -> None:
    """Remove files with samples that a dataset no longer has, because its jobs were divided in
    another way. The journals keep what they have.
    """
    for path in {*files(folder)} - {*kept}:
        path.unlink()


def is_confirmation(path: Path) -> bool:
    """Return whether a file with samples is one of the confirmation."""
    return path.name.partition(".")[0] == CONFIRMED


def missing_parts(paths: Collection[Path]) -> list[Path]:
    """Return the files of the parts that others of the same job tell of: `confirmed.2of3` of
    `confirmed.1of3`.
    """
    needed = set()
    for path in paths:
        if part := re.fullmatch(r"(.+)\.\d+of(\d+)", path.stem):
            numbers = range(1, int(part[2]) + 1)
            needed |= {path.with_name(f"{part[1]}.{n}of{part[2]}.parquet") for n in numbers}
    return sorted(needed.difference(paths))


def contents(paths: Iterable[Path | str]) -> str:
    """Return a digest of the contents of files. A checkout does not keep file times."""
    state = hashlib.sha256()
    for path in paths:
        state.update(Path(path).read_bytes())
    return state.hexdigest()
