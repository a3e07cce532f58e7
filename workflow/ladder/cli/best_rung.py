"""The best measured rung, beside which `ladder try` times a kernel."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ladder.compiling.compile import capability
from ladder.core.files import ROOT
from ladder.core.stats import median_interval
from ladder.devices.detect import Device
from ladder.model.kernel import Kernel
from ladder.model.kernel_file import parse
from ladder.model.problem import VARIED, Problem
from ladder.storage import published_index, samples
from ladder.storage.dataset_layout import read_environment

SIZE = {"cuda": 4096, "cpu": 256}
"""The size of the square that a kernel is tried on by default."""


def best_rung(device: Device, tried: Path, problem: Problem) -> tuple[Path, str] | None:
    """Return the kernel file and configuration of the fastest rung, relative to the reference, on a problem.

    The device's own results and those published for it come first. Published results of other devices of its kind add the configurations and
    problems that these lack. If no result has the problem, the largest square up to `SIZE` in the results stands for it. Returns None if no
    result has a rung whose file still exists and that is compiled for the device.
    """
    results = ROOT / "results"
    published = [
        (group.split("/")[0], folder / "samples")
        for group, folder in published_index.featured(results / "published").items()
        if group.startswith("cpu-") == (device.kind == "cpu")
    ]
    own = _rows(
        [*sorted(results.glob(f"*/{device.slug}/samples")), *(folder for slug, folder in published if slug == device.slug)]
    )
    measured = set(map(_what, own))
    others = _rows([folder for slug, folder in published if slug != device.slug])
    rows = [*own, *(row for row in others if _what(row) not in measured)]
    rows = [r for r in rows if r["status"] == "correct" and r["samples_us"] and r["state"] == "warm" and not r["precision"]]
    rows = [r for r in rows if r["kernel"] != tried.stem]
    rows = [r for r in rows if all(r[name] == getattr(problem, name) for name in ("element_type", *VARIED))]
    squares = [r["m"] for r in rows if r["m"] == r["n"] == r["k"] <= SIZE[device.kind]]
    for size in (problem.m, problem.n, problem.k), (max(squares, default=0),) * 3:
        at = [r for r in rows if (r["m"], r["n"], r["k"]) == size]
        for row in sorted(at, key=lambda r: median_interval(r["samples_us"])[0] / median_interval(r["reference_us"])[0]):
            path = tried.parent / f"{row['kernel']}{tried.suffix}"
            if path.exists() and _is_for(parse(path), device):
                return path, str(row["configuration"])
    return None


def fastest_result(kernel: Kernel, arch: str, element_type: str, configuration: str) -> dict[str, Any] | None:
    """Return where a kernel was measured on devices of an architecture: its fastest configuration, or only that with a label.

    The problem is the largest square up to `SIZE` in the first dataset that has the kernel: of own results, then of the featured published
    ones. Returns None if none has.
    """
    results, usual = ROOT / "results", Problem(1, 1, 1)
    own = [path.parent for path in sorted(results.glob("*/*/environment.json"))]
    for folder in [*own, *published_index.featured(results / "published").values()]:
        environment = read_environment(folder / "environment.json")
        if environment["kind"] != "cuda" or float(environment["attributes"]["compute_capability"]) != capability(arch):
            continue
        rows = [r for r in _rows([folder / "samples"]) if (r["kernel"], r["element_type"]) == (kernel.name, element_type)]
        rows = [r for r in rows if r["status"] == "correct" and r["samples_us"] and r["state"] == "warm"]
        rows = [r for r in rows if r["m"] == r["n"] == r["k"] <= SIZE["cuda"] and configuration in ("", r["configuration"])]
        rows = [r for r in rows if all(r[name] == getattr(usual, name) for name in VARIED)]
        if rows:
            size = max(r["m"] for r in rows)
            at = [r for r in rows if r["m"] == size]
            row = min(at, key=lambda r: median_interval(r["samples_us"])[0] / median_interval(r["reference_us"])[0])
            return {
                "dataset": folder.relative_to(ROOT).as_posix(),
                "gpu": environment["name"],
                "problem": f"M = N = K = {size}",
                "sha256": row["binary_sha256"],
                **{name: row[name] for name in ("configuration", "status", "time")},
            }
    return None


def _rows(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the samples in folders of them."""
    return [row for folder in folders for path in sorted(folder.glob("*.parquet")) for row in samples.read(path)[0]]


def _what(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the kernel, configuration and problem of a row."""
    return tuple(row[name] for name in ("kernel", "configuration", "element_type", "m", "n", "k", *VARIED))


def _is_for(kernel: Kernel, device: Device) -> bool:
    """Return whether a kernel is compiled for a device: another device's best may need features that this one lacks."""
    if device.kind == "cpu":
        return True
    mine = capability(device.arch)
    return mine == capability(kernel.architecture) if kernel.architecture else mine >= kernel.compute_capability
