"""The best measured rung, beside which `ladder try` times a kernel."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ladder.compiling.compile import capability
from ladder.core.files import ROOT
from ladder.core.stats import paired_ratio
from ladder.devices.detect import DetectedDevice
from ladder.model.kernel import Kernel
from ladder.model.kernel_file import parse
from ladder.model.problem import VARIED, Problem
from ladder.storage import published_index, samples
from ladder.storage.dataset_layout import read_environment

SIZE = {"cuda": 4096, "cpu": 256}
"""The size of the square that a kernel is tried on by default."""


def best_rung(
    device: DetectedDevice,
    tried: Path,
    problem: Problem,
    given: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> tuple[Path, str] | None:
    """Return the kernel file and configuration of the fastest rung, relative to the reference, on a
    problem.

    The device's own results and those published for it come first. Published results of other
    devices of its kind add the configurations and problems that these lack. If no result has the
    problem, the largest square up to `SIZE` in the results stands for it. Returns None if no result
    has a rung whose file still exists and that is compiled for the device. Of a parameter such as
    THREADS that is `given` values, the rung has one of these, if it has the parameter.
    """
    results = ROOT / "results"
    published = [
        (group.split("/")[0], folder / "samples")
        for group, folder in published_index.featured(results / "published").items()
        if group.startswith("cpu-") == (device.kind == "cpu")
    ]
    own = _rows(
        [
            *sorted(results.glob(f"*/{device.slug}/samples")),
            *(folder for slug, folder in published if slug == device.slug),
        ]
    )
    measured = set(map(_what, own))
    others = _rows([folder for slug, folder in published if slug != device.slug])
    rows = [
        row
        for row in _timed([*own, *(row for row in others if _what(row) not in measured)], problem)
        if row["kernel"] != tried.stem
        and not row["precision"]
        and _agrees(row["configuration"], given)
    ]
    squares = [r["m"] for r in rows if r["m"] == r["n"] == r["k"] <= SIZE[device.kind]]
    for size in (problem.m, problem.n, problem.k), (max(squares, default=0),) * 3:
        at = [r for r in rows if (r["m"], r["n"], r["k"]) == size]
        for row in sorted(at, key=_speedup, reverse=True):
            path = tried.parent / f"{row['kernel']}{tried.suffix}"
            if path.exists() and _is_for(parse(path), device):
                return path, str(row["configuration"])
    return None


def fastest_result(
    kernel: Kernel, arch: str, element_type: str, configuration: str, slug: str
) -> dict[str, Any] | None:
    """Return where a kernel was measured on devices of an architecture: its fastest configuration,
    or only that with a label.

    The problem is the largest square up to `SIZE` in the first dataset that has the kernel: of own
    results, then of the featured published ones, those of the device `slug` before others. Returns
    None if none has.
    """
    results, usual = ROOT / "results", Problem(1, 1, 1, element_type=element_type)
    folders = [path.parent for path in sorted(results.glob("*/*/environment.json"))]
    published = published_index.featured(results / "published")
    folders += [
        published[group]
        for group in sorted(published, key=lambda group: group.split("/")[0] != slug)
    ]
    for folder in folders:
        environment = read_environment(folder / "environment.json")
        if environment["kind"] != "cuda" or float(
            environment["attributes"]["compute_capability"]
        ) != capability(arch):
            continue
        rows = [
            row
            for row in _timed(_rows([folder / "samples"]), usual)
            if row["kernel"] == kernel.name and configuration in ("", row["configuration"])
            if row["m"] == row["n"] == row["k"] <= SIZE["cuda"]
        ]
        if rows:
            size = max(row["m"] for row in rows)
            row = max((row for row in rows if row["m"] == size), key=_speedup)
            return {
                "dataset": folder.relative_to(ROOT).as_posix(),
                "gpu": environment["name"],
                "problem": f"M = N = K = {size}",
                "sha256": row["binary_sha256"],
                **{name: row[name] for name in ("configuration", "status", "time")},
            }
    return None


def _rows(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the samples in folders of them.

    They are read one by one, not as a `Dataset`: that imports pandas, which takes longer than all
    else of a try, and refuses a campaign that is under way.
    """
    return [
        row
        for folder in folders
        for path in sorted(folder.glob("*.parquet"))
        for row in samples.read(path)[0]
    ]


def _timed(rows: Sequence[dict[str, Any]], problem: Problem) -> list[dict[str, Any]]:
    """Return the rows with warm samples of a correct candidate on problems that differ from this
    one in their sizes only.
    """
    return [
        row
        for row in rows
        if row["status"] == "correct" and row["samples_us"] and row["state"] == "warm"
        if all(row[name] == getattr(problem, name) for name in ("element_type", *VARIED))
    ]


def _speedup(row: Mapping[str, Any]) -> float:
    """Return the speedup over the reference, by which the sweep, the confirmation and all tables
    order too: the median of paired ratios.
    """
    return paired_ratio(row["reference_us"], row["samples_us"])[0]


def _agrees(label: str, given: Mapping[str, Sequence[str]]) -> bool:
    """Return whether the parameters of a configuration have given values, where it has parameters
    of those names.
    """
    own = dict(pair.split("=") for pair in label.split() if "=" in pair)
    return all(own.get(name, values[0]) in values for name, values in given.items())


def _what(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the kernel, configuration and problem of a row."""
    return tuple(
        row[name] for name in ("kernel", "configuration", "element_type", "m", "n", "k", *VARIED)
    )


def _is_for(kernel: Kernel, device: DetectedDevice) -> bool:
    """Return whether a kernel is compiled for a device: another device's best may need features
    that this one lacks.
    """
    if device.kind == "cpu":
        return True
    mine = capability(device.arch)
    return (
        mine == capability(kernel.architecture)
        if kernel.architecture
        else mine >= kernel.compute_capability
    )
