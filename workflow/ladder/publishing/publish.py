"""Published datasets: raw samples, and the checksums of the tables and figures that the rule `published` draws from them anywhere.

What is drawn is not committed but for the pictures that a page shows: it would be many times as large as the samples, and be added to the
history whenever a figure changes. `SHA256SUMS` is in the form of the command `sha256sum`, whose `--check` reads it too; paths are relative
to its folder, those of what is drawn lead to `results/redrawn/`.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from ladder.analysis.dataset import TABLES, Dataset
from ladder.core.errors import InputError
from ladder.core.files import ROOT, write_whole
from ladder.figures import draw as figures
from ladder.model.kernel import Kernel
from ladder.model.kernel_file import discover
from ladder.storage import csv_files
from ladder.storage.dataset_layout import CONFIRMED, DRAWN_FROM, REDRAWN, read_environment, together

SUMS = "SHA256SUMS"
DATA = ("environment.json", "resources.csv", "counters.csv", f"{CONFIRMED}.parquet")
"""What is copied from a dataset, where it is there, besides its samples."""
PICTURE = re.compile(r"!\[[^]]*\]\(([^)\s]+)\)")
AGAIN = "Where it is committed, restore it: git checkout. Else publish the dataset again"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def drawn_files(folder: Path) -> dict[str, Path]:
    """The tables and figures in a folder that was drawn into, by their paths in it."""
    found = [path for path in (*folder.glob("*"), *folder.glob("figures/*")) if path.suffix in (".csv", ".svg")]
    return {path.relative_to(folder).as_posix(): path for path in found}


def _prefix(folder: Path) -> str:
    """Before the path of what is drawn from a dataset in a folder, or from all those in it."""
    return f"../../{REDRAWN}/{folder.name}/" if (folder / "environment.json").exists() else f"../{REDRAWN}/"


def write_sums(folder: Path, drawn: Path) -> None:
    """Write the checksums of a dataset's files and of what `drawn` holds; of a folder of datasets those of the latter alone."""
    data = folder.rglob("*") if (folder / "environment.json").exists() else []
    files = {path.relative_to(folder).as_posix(): path for path in data if path.is_file() and path.name != SUMS}
    files |= {_prefix(folder) + name: path for name, path in drawn_files(drawn).items()}
    write_whole(folder / SUMS, "".join(f"{_sha256(files[name])}  {name}\n" for name in sorted(files)).encode())


def read_sums(folder: Path) -> dict[str, str]:
    """The checksums in a folder by their paths. Raises `InputError` where there are none, or a line that is no checksum."""
    path = folder / SUMS
    if not path.exists():
        raise InputError(f"{path}: missing; expected the checksums that `ladder publish` writes. {AGAIN}")
    found = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        parts = re.fullmatch(r"([0-9a-f]{64})  (\S.*)", line)
        if not parts:
            raise InputError(f"{path}: line {number}: got {line[:80]!r}; expected a checksum, two blanks and a path. {AGAIN}")
        found[parts[2]] = parts[1]
    return found


def _differ(expected: Mapping[str, str], found: Mapping[str, Path], required: Iterable[str]) -> list[str]:
    """What is not as expected, in words. `required` are paths that must be expected where they are."""
    missing = [f"{name} is missing" for name in expected if name not in found]
    other = [f"{name} is another" for name, sha256 in expected.items() if name in found and _sha256(found[name]) != sha256]
    return sorted(missing + other + [f"{name} is not in {SUMS}" for name in required if name not in expected])


def check_data(folder: Path) -> None:
    """Raise `InputError` that names every committed file of a dataset that is not what its checksum says: before anything is drawn."""
    expected = {name: sha256 for name, sha256 in read_sums(folder).items() if not name.startswith("../")}
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    required = [name for name in found if name in DATA or name.endswith(".parquet")]
    if wrong := _differ(expected, found, required):
        raise InputError(f"{folder}: {', '.join(wrong)}; expected the files that {SUMS} lists. {AGAIN}")


def check_drawn(folder: Path, drawn: Path) -> None:
    """Raise `InputError` that names every table and figure in `drawn` whose checksum is not that of the dataset, or datasets, in `folder`."""
    prefix, found = _prefix(folder), drawn_files(drawn)
    expected = {name.removeprefix(prefix): it for name, it in read_sums(folder).items() if name.startswith(prefix)}
    if wrong := _differ(expected, found, found):
        raise InputError(
            f"{drawn}: {', '.join(wrong)}; expected what {folder / SUMS} says was drawn when it was published. If the code that draws "
            "has changed and is right, `ladder publish` writes the checksums anew; if it has not, the packages are not those of the lock"
        )


def _tabulate(folder: Path, kernels: Iterable[Kernel], into: Path) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """Write the tables of the dataset in a folder into another; returns those that figures are drawn from, and the environment."""
    dataset = Dataset.open(folder, kernels)
    into.mkdir(parents=True, exist_ok=True)
    dataset.write({name: into / f"{name}.csv" for name in TABLES})
    return {name: csv_files.read_csv(into / f"{name}.csv") for name in DRAWN_FROM}, dict(dataset.environment)


def draw(folder: Path, drawn: Path) -> None:
    """Draw tables and figures of the dataset in a folder into another."""
    read, environment = _tabulate(folder, discover(ROOT).values(), drawn)
    figures.draw_all(read, environment, drawn / "figures", os.cpu_count() or 1)
    if (folder / "counters.csv").exists():
        counts = csv_files.read_csv(folder / "counters.csv")
        figures.draw_counters(counts, read, environment, drawn / "counters")


def compare(published: Path) -> None:
    """Draw side by side what is published of each kind, and write the checksums, where a kind has several."""
    with TemporaryDirectory() as scratch:
        for kind, folders in together(published).items():
            made = {folder.name: _tabulate(folder, [], Path(scratch) / folder.name) for folder in folders}
            read, environments = ({name: pair[part] for name, pair in made.items()} for part in (0, 1))
            figures.draw_comparison(read, environments, Path(scratch) / f"compared-{kind}")
        if together(published):
            write_sums(published, Path(scratch))
        else:
            (published / SUMS).unlink(missing_ok=True)


def pictures(root: Path) -> set[Path]:
    """The pictures below `results/published` that the pages of a checkout show."""
    pages = [*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("config/*.md")]
    links = {(page.parent / link).resolve() for page in pages for link in PICTURE.findall(page.read_text())}
    return {link for link in links if (root / "results" / "published").resolve() in link.parents}


def refresh(target: Path) -> None:
    """Draw a published dataset, keep the pictures of it that the pages of its checkout show, and write its checksums.

    Raises `InputError` where a page shows a picture that is not drawn from it.
    """
    shutil.rmtree(target / "figures", ignore_errors=True)
    with TemporaryDirectory() as scratch:
        draw(target, Path(scratch))
        for picture in sorted(path for path in pictures(target.resolve().parents[2]) if target.resolve() in path.parents):
            made = Path(scratch) / picture.relative_to(target.resolve())
            if not made.exists():
                raise InputError(
                    f"{picture}: shown by a page, but nothing of that name is drawn from {target}; expected a figure of it"
                )
            picture.parent.mkdir(exist_ok=True)
            shutil.copy(made, picture)
        write_sums(target, Path(scratch))


def publish(source: Path, published: Path, name: str = "") -> Path:
    """Publish the dataset in `source` as `name`, by default its device's; returns its new folder.

    Copies the raw samples of sweep and confirmation, the environment and what the compiler and the counters said, and writes the
    checksums of what is drawn from them; other files of the folder stay. A name such as `nvidia-h200/again` makes it another run of a
    published dataset: it lies in that one's folder; the claims, the page to look around in and `ladder repeat` look at it, but no figure
    is drawn from it.

    Raises `InputError` for a name that is none, for a folder without a dataset, for the one it would be copied to, one measured on a
    simulated GPU, and one measured from a checkout that had changes or no commit: a published figure says which commit made it.
    """
    if not re.fullmatch("([a-z0-9-]+(/[a-z0-9-]+)?)?", name):
        raise InputError(f"NAME: got {name!r}; expected small letters, digits and '-', or two of such with a '/' between them")
    if "/" in name and not (published / name).parent.joinpath("environment.json").exists():
        raise InputError(f"NAME: got {name!r}; expected a published dataset before the '/', which this one is another run of")
    if not all((source / needed).exists() for needed in DATA[:2]) or not list((source / "samples").glob("*.parquet")):
        raise InputError(
            f"{source}: no environment.json, resources.csv and samples/*.parquet in it; expected a folder such as results/default/nvidia-h200"
        )
    environment = read_environment(source / "environment.json")
    target: Path = published / (name or environment["device"])
    if target.resolve() == source.resolve():
        raise InputError(
            f"{source}: is published already; expected another folder. Without one, `ladder publish` draws all again"
        )
    if environment["fingerprint"].get("simulated"):
        raise InputError(f"{source}: measured on a simulated GPU; expected a real device")
    sessions = Dataset.open(source).sessions
    for session in [{"job": "environment.json", **environment["project"]}, *sessions]:
        if not session["commit"] or session["dirty"]:
            raise InputError(
                f"{source}: {session['job']} was made from a checkout with changes or without a commit; expected a clean one"
            )
    shutil.rmtree(target / "samples", ignore_errors=True)
    (target / "samples").mkdir(parents=True)
    for needed in DATA:
        (target / needed).unlink(missing_ok=True)
        if (source / needed).exists():
            shutil.copy(source / needed, target)
    for path in (source / "samples").glob("*.parquet"):
        shutil.copy(path, target / "samples")
    refresh(target if "/" not in name else target.parent)
    compare(published)
    return target


def redraw(published: Path) -> Iterator[Path]:
    """Draw all published datasets again and write their checksums anew; yields the folder of each."""
    for path in sorted(published.glob("*/environment.json")):
        check_data(path.parent)
        refresh(path.parent)
        yield path.parent
    compare(published)
