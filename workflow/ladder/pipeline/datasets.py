"""The datasets that one page shows: those of a campaign, or the published ones redrawn."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ladder.storage.dataset_layout import JUDGED, REDRAWN
from ladder.storage.published_index import kind_of


@dataclass(frozen=True)
class Datasets:
    """Datasets with the same files, whether measured here or published."""

    folder: str
    """The folder of all: `results/CAMPAIGN`, or `results/redrawn`."""
    kinds: Mapping[str, str]
    """The device kind of each, by its folder in there: DEVICE or, if published, DEVICE/CAMPAIGN."""
    claims: Sequence[Path | str]
    """The judged claims about them."""
    formats: Sequence[str] = ()
    """The formats of figures besides SVG."""

    def files(self, *names: str, kind: str = "") -> list[str]:
        """Return the files with these names of all datasets, or of those of a device kind."""
        return [
            f"{self.folder}/{dataset}/{name}"
            for dataset, of_kind in self.kinds.items()
            if kind in ("", of_kind)
            for name in names
        ]

    def comparisons(self) -> list[str]:
        """Return a figure for every kind of which there are several datasets."""
        counts = Counter(self.kinds.values())
        return [f"{self.folder}/compared-{kind}.svg" for kind in counts if counts[kind] > 1]

    def page(self) -> list[str]:
        """Return the page of all datasets, if there are any."""
        return [f"{self.folder}/index.html"] if self.kinds else []


def published(folder: Path, groups: Iterable[str]) -> Datasets:
    """Return the `featured` run of each published device and campaign, as it is redrawn."""
    kinds = {group: kind_of(group) for group in groups}
    return Datasets(f"results/{REDRAWN}", kinds, list(folder.glob(JUDGED)))


def judged_by(folder: Path) -> list[Path]:
    """Return the published files that claims are judged by: all datasets and the answers to
    studies, without figures and judged claims.
    """
    files = (path for suffix in ("parquet", "json", "csv") for path in folder.rglob(f"*.{suffix}"))
    return sorted(path for path in files if path.name != JUDGED)
