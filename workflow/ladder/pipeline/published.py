"""Return what the rules read and make for the published datasets, in `results/redrawn/`."""

import csv
import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ladder.core.files import digest
from ladder.core.types import ELEMENT_TYPES
from ladder.model.campaign import WIDTH
from ladder.model.kernel import Kernel
from ladder.storage.dataset_layout import CLAIMS, JUDGED, REDRAWN, TABLES
from ladder.storage.published_index import HEADLINE, featured, together


def _sha256(paths: Iterable[Path]) -> str:
    """Return the checksum of the contents of files."""
    state = hashlib.sha256()
    for path in paths:
        state.update(path.read_bytes())
    return state.hexdigest()


@dataclass(frozen=True)
class Published:
    """All published datasets. A device here is DEVICE/CAMPAIGN, whose featured run is drawn."""

    folder: Path
    """The folder of the committed datasets."""
    kernels: Mapping[str, Kernel]
    """All kernels of the project, by id."""

    @cached_property
    def featured(self) -> dict[str, Path]:
        """The folder of the featured run of each device and campaign."""
        return featured(self.folder)

    def ids(self, element_types: Collection[str] = tuple(ELEMENT_TYPES)) -> list[str]:
        """Return the ids of the kernels that the featured runs measured in one of these element
        types.
        """
        return sorted({id for device in self.featured for id in self._ids(device, element_types)})

    def _ids(self, device: str, element_types: Collection[str] = tuple(ELEMENT_TYPES)) -> list[str]:
        """Return the ids of a dataset's kernels. Every dataset has the compiler's reports; some
        have no samples of a sweep.
        """
        kind = "cpu" if device.startswith("cpu-") else "cuda"
        # where it is missing, the check of the data says so
        resources = self.featured[device] / "resources.csv"
        rows = csv.DictReader(resources.read_text().splitlines()) if resources.exists() else ()
        names = {row["kernel"] for row in rows if row.get("element_type") in element_types}
        return [f"{kind}/{name}" for name in sorted(names)]

    def redrawn(self) -> list[str]:
        """Return the checks that every featured dataset draws the published figures, and the page
        that shows them all.
        """
        compared = [f"results/{REDRAWN}/compared.checked"] if together(self.folder) else []
        page = [f"results/{REDRAWN}/index.html"] if self.featured else []
        return (
            [path for device in self.featured for path in self._redrawn(device)] + compared + page
        )

    def headline(self) -> list[str]:
        """Return the check and the tables of the dataset that the README is about."""
        return self._redrawn(HEADLINE) if HEADLINE in self.featured else []

    def _redrawn(self, device: str) -> list[str]:
        return [
            f"results/{REDRAWN}/{device}/{name}"
            for name in ("drawn.checked", "figures", *(f"{it}.csv" for it in TABLES))
        ]

    def committed(self, device: str) -> list[Path]:
        """Return the files of all runs."""
        return sorted(path for path in (self.folder / device).rglob("*") if path.is_file())

    def contents(self, device: str) -> str:
        """Return a digest of the files of all runs and of the kernels. A checkout does not keep
        file times.
        """
        kernels = [self.kernels[id].digest for id in self._ids(device) if id in self.kernels]
        return digest([kernels, _sha256(self.committed(device))])

    def indexed(self) -> list[str]:
        """Return the datasets that the page shows, the headline first."""
        return list(self.featured)

    def claims(self) -> list[Path]:
        """Return the judged claims of all published datasets."""
        return list(self.folder.glob(JUDGED))

    def compared_devices(self, kind: str) -> list[str]:
        """Return the datasets of a device kind that one figure compares."""
        return together(self.folder).get(kind, [])

    def compared(self) -> list[str]:
        """Return the figures that compare datasets."""
        return [f"results/{REDRAWN}/compared-{kind}.svg" for kind in together(self.folder)]

    def claimed(self) -> list[Path]:
        """Return the claims, the published entries about them, and the limits between runs."""
        return [
            self.folder.parents[1] / CLAIMS,
            *sorted([*self.folder.glob(JUDGED), *self.folder.glob("repeat-*.csv")]),
        ]

    def data(self) -> list[Path]:
        """Return the files of all datasets and of the answers to studies, without figures and
        judged claims.
        """
        files = (
            path
            for suffix in ("parquet", "json", "csv")
            for path in self.folder.rglob(f"*.{suffix}")
        )
        return sorted(path for path in files if path.name != JUDGED)

    def all_contents(self) -> str:
        """Return a digest of the files of `data` and their names. A checkout does not keep file
        times.
        """
        data = self.data()
        return digest([[path.relative_to(self.folder).as_posix() for path in data], _sha256(data)])

    def drawing(self) -> dict[str, Any]:
        """Return the width of figures in inches, and their formats besides SVG: the same
        everywhere.
        """
        return {"width": WIDTH, "formats": []}

    def environment(self, device: str) -> Path:
        """Return the path of the description of the device, its software and the project's
        state.
        """
        return self.featured[device] / "environment.json"
