"""The figure of `ladder compare`."""

from collections.abc import Sequence
from pathlib import Path

from ladder.analysis.compare import Comparison, title
from ladder.storage.dataset_layout import DRAWN_FROM


def draw(comparisons: Sequence[Comparison], stem: Path) -> None:
    """Draw each comparison as SVG and PNG. The file names of several comparisons end in the names
    of their datasets.
    """
    # it imports Matplotlib: only needed if something is drawn
    from ladder.figures.draw import draw_changes

    for comparison in comparisons:
        own = (
            stem
            if len(comparisons) == 1
            else stem.with_name(f"{stem.name}-{comparison.a.folder.name}")
        )
        tables = comparison.a.tables(DRAWN_FROM)
        draw_changes(
            comparison.rows,
            tables,
            comparison.a.environment,
            title(comparison.b),
            own,
            formats=["png"],
        )
