"""Run a campaign by Snakemake, in the folder of the project."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ladder.core import places
from ladder.model import campaign_file


def run(campaign: str, options: Sequence[str]) -> None:
    """Become Snakemake, on all cores, with the workflow of home and a campaign: a file, from here
    or from the project, or a name as for `campaign_file.find`.

    It runs in the project's folder. Raises `InputError` for an unknown campaign or file.
    """
    files = [Path(campaign).absolute(), places.find(campaign)]
    file = next(filter(Path.is_file, files), None)
    file = file or campaign_file.find(campaign, f"{campaign}: no such file; ")
    os.chdir(places.project())
    if not os.access(os.environ.get("HOME", "/"), os.W_OK):  # Snakemake needs a cache to start
        os.environ.setdefault("XDG_CACHE_HOME", str(Path.cwd() / ".snakemake"))
    snakefile = places.HOME / "workflow" / "Snakefile"
    command = [sys.executable, "-m", "snakemake", "--configfile", str(file)]
    os.execv(command[0], [*command, "--snakefile", str(snakefile), "--cores", "all", *options])
