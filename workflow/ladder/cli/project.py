"""A project, the folder of somebody's own kernels: begin one, and run a campaign there."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ladder.cli import new_kernel
from ladder.core import places
from ladder.model import campaign_file

TEMPLATE = Path(__file__).with_name("init")
"""The files of a new project, besides its kernel."""


def init(folder: Path) -> list[Path]:
    """Write a project: a kernel, a campaign, and what Git, a CI and programs need. Return the new
    files; those that are there stay.
    """
    files = {path.relative_to(TEMPLATE): path for path in TEMPLATE.rglob("*") if path.is_file()}
    agents = places.HOME / "AGENTS.md"
    if agents.exists():
        files[Path(agents.name)] = agents
    written = []
    if not places.has_kernels(folder):
        (folder / "kernels" / "cpu").mkdir(parents=True)
        written.append(new_kernel.write(".c", "mine", folder))
    for name, path in sorted(files.items()):
        if not (folder / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            written.append(Path(shutil.copyfile(path, folder / name)))
    return written


def run(campaign: str, options: Sequence[str]) -> None:
    """Become Snakemake, on all cores, with the workflow of home and a campaign: a file, from here
    or from the project, or a name as for `campaign_file.find`.

    It runs in the project's folder. Raises `InputError` for an unknown campaign.
    """
    files = [Path(campaign).absolute(), places.find(campaign)]
    file = next(filter(Path.is_file, files), None) or campaign_file.find(campaign)
    os.chdir(places.project())
    os.environ.setdefault("PYTHONUTF8", "1")  # what the workflow reads and writes is UTF-8
    snakefile = places.HOME / "workflow" / "Snakefile"
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(snakefile), "--cores", "all"]
    os.execv(command[0], [*command, "--configfile", str(file), *options])
