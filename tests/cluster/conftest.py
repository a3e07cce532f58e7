"""A Slurm for as long as the tests of this folder run."""

import os
import shutil
from collections.abc import Iterator

import pytest
from clusters import CONF, ETC, Slurm


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """The cluster."""
    absent = pytest.fail if os.environ.get("CI") else pytest.skip  # CI installs what they need
    if not all(map(shutil.which, ("slurmctld", "slurmd", "munged", "sbatch"))) or os.geteuid():
        absent("needs slurm-wlm and munge installed, and root to start them")
    # that of a run that was killed may be there
    path, ours = (ETC / "slurm.conf", CONF.read_text().partition("{folder}")[0])
    if path.exists() and not path.read_text().startswith(ours):
        absent(f"{path} is that of another cluster")
    cluster = Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
