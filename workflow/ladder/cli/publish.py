"""Publish datasets: raw samples, the figures that a page shows, and checksums of these and of the
tables, all of which the rule `redraw` makes again on any machine.

Tables are not committed: they would be many times as large as the samples. Each DEVICE/CAMPAIGN has
one `SHA256SUMS` for all its runs, figures and tables. It has the format of the command `sha256sum`,
whose `--check` reads it too. Paths are relative to its folder; those of drawn files lead to
`results/redrawn/`.
"""

import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ladder.analysis.dataset import Dataset
from ladder.compiling.provenance import LOCK, differs_from_lock
from ladder.core.errors import InputError, few
from ladder.core.files import write_whole
from ladder.core.places import HOME
from ladder.figures import draw as figures
from ladder.figures import selection
from ladder.model.kernel_file import discover
from ladder.storage import published_index
from ladder.storage.dataset_layout import (
    CONFIRMED,
    COUNTERS,
    DRAWN_FROM,
    REDRAWN,
    TABLES,
    confirmations,
    contents,
    read_environment,
)
from ladder.storage.published_index import INDEX, featured

SUMS = "SHA256SUMS"
NEEDED = ("environment.json", "resources.csv")
"""The files that a dataset keeps besides its samples."""
PICTURE = re.compile(r"!\[[^]]*\]\(([^)\s]+)\)")
NAMED = 5
"""The most files that a message names of a kind."""
AGAIN = "Where it is committed, restore it: git checkout. Else publish the dataset again"


def _by_name(folder: Path, paths: Iterable[Path], prefix: str = "") -> dict[str, Path]:
    """Return files by their paths in a folder, behind a prefix."""
    return {prefix + path.relative_to(folder).as_posix(): path for path in paths if path.is_file()}


def drawn_files(folder: Path, prefix: str = "") -> dict[str, Path]:
    """Return the tables and figures in a folder, by their paths in it, behind a prefix."""
    paths = [*folder.glob("*"), *folder.glob("figures/*")]
    return _by_name(folder, [path for path in paths if path.suffix in (".csv", ".svg")], prefix)


def _prefix(folder: Path) -> str:
    """Return the prefix of the paths of drawn files, for a device and campaign."""
    return f"../../../{REDRAWN}/{folder.parent.name}/{folder.name}/"


def write_sums(folder: Path, drawn: Path) -> None:
    """Write the checksums of all runs of a device and campaign and of the files in `drawn`."""
    files = drawn_files(drawn, _prefix(folder)) | _by_name(folder, folder.rglob("*"))
    files.pop(SUMS, None)
    lines = [f"{contents([files[name]])}  {name}\n" for name in sorted(files)]
    write_whole(folder / SUMS, "".join(lines).encode())


def read_sums(folder: Path) -> dict[str, str]:
    """Return the checksums in a folder by path. Raises `InputError` if there are none, or if a line
    is not a checksum.
    """
    path = folder / SUMS
    if not path.exists():
        raise InputError(
            f"{path}: missing; expected the checksums that `ladder publish` writes. {AGAIN}"
        )
    sums = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        parts = re.fullmatch(r"([0-9a-f]{64})  (\S.*)", line)
        if not parts:
            raise InputError(
                f"{path}: line {number}: got {line[:80]!r}; expected a checksum, two blanks and a "
                f"path. {AGAIN}"
            )
        sums[parts[2]] = parts[1]
    return sums


def _differ(
    expected: Mapping[str, str], present: Mapping[str, Path], required: Iterable[str]
) -> str:
    """Return what differs: the first names of each group, and how many more. `required` are the
    paths that must be in `expected`.
    """
    groups = {
        "missing": [name for name in expected if name not in present],
        f"differ from {SUMS}": [
            name
            for name, sha256 in expected.items()
            if name in present and contents([present[name]]) != sha256
        ],
        f"not in {SUMS}": [name for name in required if name not in expected],
    }
    return "; ".join(
        f"{what}: {few(sorted(names), NAMED)}" for what, names in groups.items() if names
    )


def check_data(folder: Path) -> None:
    """Raise `InputError` that names the committed files of a device and campaign that do not match
    their checksums.
    """
    sums = read_sums(folder)
    expected = {name: sha256 for name, sha256 in sums.items() if not name.startswith("../")}
    present = _by_name(folder, folder.rglob("*"))
    required = [
        name
        for name, path in present.items()
        if path.name in (*NEEDED, COUNTERS) or path.suffix == ".parquet"
    ]
    if wrong := _differ(expected, present, required):
        raise InputError(f"{folder}: {wrong}. {AGAIN}")


def check_drawn(folder: Path, drawn: Path) -> None:
    """Raise `InputError` that names the tables and figures in `drawn` that do not match the
    checksums in `folder`, and why.
    """
    prefix, present = _prefix(folder), drawn_files(drawn)
    expected = {
        name.removeprefix(prefix): sha256
        for name, sha256 in read_sums(folder).items()
        if name.startswith(prefix)
    }
    if wrong := _differ(expected, present, present):
        packages = ", ".join(f"{name} {versions}" for name, versions in differs_from_lock().items())
        why = (
            f"Your packages differ from the lock: {packages}. Run `make setup`"
            if packages
            else "Your packages are those of the lock. If you changed code that draws, or a "
            "kernel's header, run `ladder publish`"
        )
        raise InputError(f"{drawn}: {wrong}. {why}")


def draw(folder: Path, drawn: Path, names: Collection[str]) -> None:
    """Write the tables of the dataset in a folder, and its figures of these names, into another."""
    dataset = Dataset.open(folder, discover(HOME).values())
    (drawn / "figures").mkdir(parents=True, exist_ok=True)
    dataset.write({name: drawn / f"{name}.csv" for name in TABLES})
    if names:
        tables = selection.read({name: drawn / f"{name}.csv" for name in DRAWN_FROM})
        figures.draw_all(tables, dataset.environment, drawn / "figures", names=names)


def pictures(root: Path) -> set[Path]:
    """Return the pictures below `results/published` that the pages of a checkout show."""
    links = {
        (page.parent / link).resolve()
        for pattern in ("*.md", "docs/**/*.md", "config/*.md")
        for page in root.glob(pattern)
        for link in PICTURE.findall(page.read_text())
    }
    published = (root / "results" / "published").resolve()
    return {link for link in links if published in link.parents}


def refresh(published: Path, name: str) -> None:
    """Draw the featured run of DEVICE/CAMPAIGN, keep the pictures that the pages of the checkout
    show, and write the checksums.

    Raises `InputError` if a page shows a picture that is not drawn from this run.
    """
    target = published.resolve() / name
    shutil.rmtree(target / "figures", ignore_errors=True)
    with TemporaryDirectory() as scratch:
        shown = {path for path in pictures(target.parents[3]) if target in path.parents}
        draw(featured(published)[name], Path(scratch), {path.stem for path in shown})
        for picture in sorted(shown):
            made = Path(scratch) / picture.relative_to(target)
            if not made.exists():
                raise InputError(
                    f"{picture}: shown by a page, but nothing of that name is drawn from {target}; "
                    "expected a figure of it"
                )
            picture.parent.mkdir(exist_ok=True)
            shutil.copy(made, picture)
        write_sums(target, Path(scratch))


def _other_packages(environment: Mapping[str, Any]) -> str:
    """Return the packages of a dataset that are not those of the lock, with both versions; empty if
    none is known.
    """
    python = environment.get("python", {"packages": {}})
    differs = python.get("differs_from_lock")
    if differs is None:
        differs = differs_from_lock(python["packages"])
    return ", ".join(f"{name} {versions}" for name, versions in differs.items())


def publish(
    source: Path, published: Path, why: str, repeat: bool = False, not_from_lock: bool = False
) -> Path:
    """Publish the dataset in `source`, a folder results/CAMPAIGN/DEVICE, note in the index why, and
    return its new folder.

    It becomes the featured run of its device and campaign, and the run featured before becomes a
    repeat. With `repeat` it becomes a repeat itself. A repeat loses the samples of its sweep and
    its counters. A dataset with other packages than the lock's is published only with
    `not_from_lock`, and the index names those packages.

    Raises `InputError` for an invalid reason or campaign, a folder without a dataset, a published
    dataset, a simulated GPU, a checkout that had changes or no commit (a published figure names the
    commit that made it), and a repeat without a featured run to repeat.
    """
    needed = (*NEEDED, f"{CONFIRMED}.parquet") if repeat else NEEDED
    samples, confirmed = sorted(source.glob("samples/*.parquet")), confirmations(source)
    there = all((source / name).exists() for name in NEEDED)
    if not samples or not there or (repeat and not confirmed):
        raise InputError(
            f"{source}: no {', '.join(needed)} and samples/*.parquet in it; expected a folder such "
            "as results/default/nvidia-h200"
        )
    if not why:
        raise InputError(
            f"WHY: missing; expected a sentence for {published / INDEX} that says why {source} is "
            "kept"
        )
    if published.resolve() in source.resolve().parents:
        raise InputError(
            f"{source}: is published already; expected another folder. Without one, `ladder "
            "publish` draws all again"
        )
    environment = read_environment(source / "environment.json")
    if environment["fingerprint"].get("simulated"):
        raise InputError(f"{source}: measured on a simulated GPU; expected a real device")
    sessions = Dataset.open(source).sessions
    for session in [{"job": "environment.json", **environment["project"]}, *sessions]:
        if not session["commit"] or session["dirty"]:
            raise InputError(
                f"{source}: {session['job']} was made from a checkout with changes or without a "
                "commit; expected a clean one"
            )
    packages = _other_packages(environment)
    if packages and not not_from_lock:
        raise InputError(
            f"{source}: measured with {packages}; expected the packages of {LOCK}. Run `make "
            "setup` and measure again, or pass "
            f"--not-from-lock: then {INDEX} and the pages name them"
        )
    index = published_index.read(published)
    name = f"{environment['device']}/{source.resolve().parent.name}"
    run = published_index.run_name(environment)
    entry = index.setdefault(name, {"featured": run, "runs": {}})
    earlier = entry["featured"]
    if repeat and earlier == run:
        raise InputError(
            f"--repeat: got {name}/{run}; expected a featured run of {name} that it repeats"
        )
    entry["runs"][run] = why
    if packages:
        entry.setdefault("not_from_lock", {})[run] = packages
    if not repeat and earlier != run:
        entry["featured"] = run
        _keep_as_repeat(published / name / earlier, entry)
    published_index.write(published, index)
    target = published / name / run
    shutil.rmtree(target, ignore_errors=True)
    data = [*(source / name for name in NEEDED), *confirmed]
    for path in [*data, *([] if repeat else [source / COUNTERS, *samples])]:
        if path.exists():
            copied = target / path.relative_to(source)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copied)
    refresh(published, name)
    return target


def _keep_as_repeat(folder: Path, entry: dict[str, Any]) -> None:
    """Remove from a dataset that was featured what a repeat does not need; remove all of it if it
    has no confirmation.
    """
    # one that was published without its sweep has no samples
    shutil.rmtree(folder / "samples", ignore_errors=True)
    (folder / COUNTERS).unlink(missing_ok=True)
    if not confirmations(folder):
        shutil.rmtree(folder)
        del entry["runs"][folder.name]
        entry.get("not_from_lock", {}).pop(folder.name, None)


def redraw(published: Path) -> Iterator[Path]:
    """Draw all featured datasets and write all checksums again. Yield the folder of each device and
    campaign.
    """
    for name in featured(published):
        check_data(published / name)
        refresh(published, name)
        yield published / name
