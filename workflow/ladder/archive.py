"""One zip to put into a repository of data: code, data, tables, figures, checksums, and what all of it is, as an RO-Crate.

Unpacked it is a checkout, with what was drawn from the published data, and `ro-crate-metadata.json` (RO-Crate 1.3,
https://w3id.org/ro/crate/1.3).
"""

import hashlib
import io
import json
import mimetypes
import subprocess
import zipfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ladder.jobs import write_whole
from ladder.publish import SUMS, check_data, check_drawn, drawn_files
from ladder.targets import REDRAWN, together
from ladder.units import InputError

METADATA = "ro-crate-metadata.json"
CODEMETA = "codemeta.json"
CODE_LICENCE, DATA_LICENCE = "https://spdx.org/licenses/MIT", "https://spdx.org/licenses/CC-BY-4.0"
LICENCES = {CODE_LICENCE: "MIT License", DATA_LICENCE: "Creative Commons Attribution 4.0 International"}
"""Of the code, and of what is measured and drawn."""
ARROW = "application/vnd.apache.parquet"
TYPES = mimetypes.MimeTypes(filenames=())
"""Python's own, not the machine's, which may take a CUDA file for a video conference."""


def _git(root: Path, *arguments: str) -> str:
    try:
        return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise InputError(f"{root}: git {arguments[0]}: {error}; expected a checkout, whose commit the archive names") from None


def collect(root: Path) -> dict[str, Path]:
    """What goes into the archive, by its place there: the files of the commit, and what was drawn from the published data.

    Raises `InputError` where the checkout has changes, or what is drawn is not there or not what the checksums say.
    """
    if changes := _git(root, "status", "--porcelain"):
        raise InputError(
            f"{root}: {changes.splitlines()[0].strip()}: not committed; expected a clean checkout, whose commit says it all"
        )
    published, into = root / "results" / "published", root / "results" / REDRAWN
    for folder in sorted(path.parent for path in published.glob("*/environment.json")):
        if not (into / folder.name).exists():
            raise InputError(f"{into / folder.name}: missing; expected what `.venv/bin/snakemake --cores 1 published` draws")
        check_data(folder)
        check_drawn(folder, into / folder.name)
    if together(published):
        check_drawn(published, into)
    names = {name: root / name for name in _git(root, "ls-files", "-z").split("\0") if name}
    folders = [into, *sorted(path.parent for path in into.glob("*/best.csv"))]
    made = [path for folder in folders for path in drawn_files(folder).values()] + list(into.glob("index.html"))
    return dict(sorted((names | {path.relative_to(root).as_posix(): path for path in made}).items()))


def _file(name: str, data: bytes) -> dict[str, Any]:
    kind = ARROW if name.endswith(".parquet") else TYPES.guess_type(name)[0] or "text/plain"
    found = {"@id": name, "@type": "File", "name": name, "contentSize": str(len(data)), "encodingFormat": kind}
    return found | {"sha256": hashlib.sha256(data).hexdigest()}


def crate(files: Mapping[str, bytes], codemeta: Mapping[str, Any], commit: str, date: str) -> dict[str, Any]:
    """The crate's metadata: files by their places, what they belong to, licences, and the workflow with its commit of a day, ISO 8601."""

    def dataset(place: str, name: str, text: str, parts: Iterable[str]) -> dict[str, Any]:
        ids = [{"@id": part} for part in parts]
        return {
            "@id": place,
            "@type": "Dataset",
            "name": name,
            "description": text,
            "license": {"@id": DATA_LICENCE},
            "hasPart": ids,
        }

    entities, inside = {name: _file(name, data) for name, data in files.items()}, {}
    for name, data in files.items():
        place, _, last = name.rpartition("/")
        if last == "environment.json":
            facts = json.loads(data)
            mine = [other for other in files if other.startswith((f"{place}/", f"results/{REDRAWN}/{place.rpartition('/')[2]}/"))]
            text = f"Samples measured on {facts['name']}, {facts['time']}, commit {facts['project']['commit']}, and what is drawn from them"
            inside[f"{place}/"] = dataset(f"{place}/", place.removeprefix("results/published/"), text, mine)
    workflow = "workflow/Snakefile"
    entities[workflow] |= {
        "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
        "name": codemeta["name"],
        "programmingLanguage": {"@id": "#snakemake"},
        "license": {"@id": CODE_LICENCE},
        "version": commit,
    }
    parts = [{"@id": name} for name in (*entities, *inside)]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": codemeta["name"],
        "description": codemeta["description"],
        "version": codemeta["version"],
        "identifier": commit,
        "datePublished": date,
        "license": {"@id": CODE_LICENCE},
        "author": {"@id": "#authors"},
        "keywords": codemeta["keywords"],
        "mainEntity": {"@id": workflow},
        "hasPart": parts,
    }
    about = {
        "@id": METADATA,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.3"},
    }
    others = [
        {"@id": "#authors", "@type": "Organization", "name": codemeta["author"][0]["name"]},
        {
            "@id": "#snakemake",
            "@type": "ComputerLanguage",
            "name": "Snakemake",
            "version": version("snakemake"),
            "identifier": {"@id": "https://snakemake.github.io"},
            "url": {"@id": "https://snakemake.github.io"},
        },
        *({"@id": it, "@type": "CreativeWork", "name": name, "description": name} for it, name in LICENCES.items()),
    ]
    return {
        "@context": "https://w3id.org/ro/crate/1.3/context",
        "@graph": [about, root, *inside.values(), *entities.values(), *others],
    }


def write(root: Path, target: Path) -> Path:
    """Write the archive of a checkout to a zip; the same commit with the same drawings makes the same bytes. Raises what `collect` does."""
    files = {name: path.read_bytes() for name, path in collect(root).items()}
    commit, seconds = _git(root, "log", "-1", "--format=%H %ct").split()
    time = datetime.fromtimestamp(int(seconds), UTC)
    files["REVISION"] = f"{commit}\n".encode()
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    files[SUMS] = sums.encode()
    metadata = crate(files, json.loads(files[CODEMETA]), commit, time.date().isoformat())
    files[METADATA] = (json.dumps(metadata, indent=1, ensure_ascii=False) + "\n").encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as into:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, time.timetuple()[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            path = root / name
            entry.external_attr = (0o100755 if path.exists() and path.stat().st_mode & 0o100 else 0o100644) << 16
            into.writestr(entry, data)
    write_whole(target, made.getvalue())
    return target
