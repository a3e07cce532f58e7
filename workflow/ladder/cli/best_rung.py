"""The best measured rung, beside which `ladder try` times a kernel."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ladder.compiling.compile import capability
from ladder.core import places
from ladder.core.stats import paired_ratio
from ladder.devices.detect import DetectedDevice
from ladder.measuring.trial import SIZE
from ladder.model.kernel import Kernel
from ladder.model.kernel_file import parse, path_of
from ladder.model.problem import VARIED, Problem
from ladder.storage import published_index
from ladder.storage.dataset_layout import PUBLISHED, read_environment
from ladder.storage.samples import is_ranked, is_refused, swept

Row = Mapping[str, Any]


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
    folders = sorted((places.project() / "results").glob(f"*/{device.slug}"))
    own, others = [row for folder in folders for row in swept(folder)], list[Row]()
    for group, folder in _published().items():
        if group.startswith(f"{device.slug}/"):
            own += swept(folder)
        elif group.startswith("cpu-") == (device.kind == "cpu"):
            others += swept(folder)
    measured = {_what(row) for row in own}
    # another file may have the name of the best rung
    is_measured = path_of(device.kind, tried.stem).resolve() == tried.resolve()
    own_name = tried.stem if is_measured else ""
    rows = [
        row
        for row in _timed([*own, *(row for row in others if _what(row) not in measured)], problem)
        if row["kernel"] != own_name
        and not row["precision"]
        and _agrees(row["configuration"], given)
    ]
    for size in (problem.m, problem.n, problem.k), _largest_square(rows, device.kind):
        for row in _fastest_first(rows, size):
            path = path_of(device.kind, row["kernel"])
            if path.exists() and _is_for(parse(path), device):
                return path, row["configuration"]
    return None


def fastest_result(
    kernel: Kernel, arch: str, element_type: str, configuration: str, slug: str, layout: str = "nn"
) -> dict[str, Any] | None:
    """Return where a kernel was measured on devices of an architecture, in an element type and a
    layout: its fastest configuration, or only that with a label.

    The problem is the largest square up to `SIZE` in the first dataset that has the kernel: of own
    results, then of the featured published ones, those of the device `slug` before others. Returns
    None if none has.
    """
    results = places.project() / "results"
    folders = [path.parent for path in sorted(results.glob("*/*/environment.json"))]
    published = _published()
    folders += [
        published[group]
        for group in sorted(published, key=lambda group: not group.startswith(f"{slug}/"))
    ]
    for folder in folders:
        environment = read_environment(folder / "environment.json")
        attributes = environment["attributes"]
        if environment["kind"] == "cpu" or (
            float(attributes["compute_capability"]) != capability(arch)
        ):
            continue
        rows = [
            row
            for row in _timed(swept(folder), Problem(1, 1, 1, element_type, layout=layout))
            if row["kernel"] == kernel.name and configuration in ("", row["configuration"])
        ]
        size = _largest_square(rows, "cuda")
        for row in _fastest_first(rows, size):
            return {
                "dataset": places.named(folder),
                "gpu": environment["name"],
                "problem": f"M = N = K = {size[0]}",
                "sha256": row["binary_sha256"],
                **{name: row[name] for name in ("configuration", "status", "time")},
            }
    return None


def _published() -> dict[str, Path]:
    """Return the featured datasets by DEVICE/CAMPAIGN."""
    return published_index.featured(places.HOME / PUBLISHED)


def _timed(rows: Iterable[Row], problem: Problem) -> list[Row]:
    """Return the rows that count, with warm samples on problems that differ from this one in their
    sizes only.
    """
    return [
        row
        for row in rows
        if row["state"] == "warm" and is_ranked(row)
        if all(row[name] == getattr(problem, name) for name in ("element_type", *VARIED))
    ]


def _size(row: Row) -> tuple[int, int, int]:
    return row["m"], row["n"], row["k"]


def _largest_square(rows: Iterable[Row], kind: str) -> tuple[int, int, int]:
    """Return the largest square up to `SIZE` in the rows."""
    sizes = [row["m"] for row in rows if row["m"] == row["n"] == row["k"] <= SIZE[kind]]
    return (max(sizes, default=0),) * 3


def _fastest_first(rows: Iterable[Row], size: tuple[int, int, int]) -> Iterator[Row]:
    """Yield the rows of a size by their speedup over the reference, as the sweep, the confirmation
    and all tables order too: by the median of paired ratios.
    """
    ordered = sorted(
        (row for row in rows if _size(row) == size),
        key=lambda row: -paired_ratio(row["reference_us"], row["samples_us"])[0],
    )
    return (row for row in ordered if not is_refused(row))


def _agrees(label: str, given: Mapping[str, Sequence[str]]) -> bool:
    """Return whether the parameters of a configuration have given values, where it has parameters
    of those names.
    """
    own = dict(pair.split("=") for pair in label.split() if "=" in pair)
    return all(own.get(name, values[0]) in values for name, values in given.items())


def _what(row: Row) -> tuple[Any, ...]:
    """Return the kernel, configuration and problem of a row."""
    names = ("kernel", "configuration", "element_type", *VARIED)
    return (*_size(row), *(row[name] for name in names))


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
