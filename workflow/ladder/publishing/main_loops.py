"""Show what the main loop of each rung spends its instructions on."""

from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from ladder.core.files import ROOT, read_json
from ladder.figures.headline import IDEA
from ladder.figures.layout import save_drawing
from ladder.publishing.page_data import Story
from ladder.storage.dataset_layout import PUBLISHED

MAIN_LINE = ("01", "02", "03", "05", "06", "07", "09", "10", "12", "13", "15")
"""The numbers of the rungs that lead from three loops past cuBLAS."""
AT = {
    "36_half_cluster_k": "256x256x16384",
    "37_half_last_wave": "8192",
    "38_half_any_rows": "2049x2047x2051",
    "39_half_few_rows": "64x4096x4096",
    "41_half_shifted_rows": "2049x2047x2051",
    "42_half_one_wave": "512",
    "43_half_staggered_ends": "2048",
}
"""The problems for whose best configurations the loops are counted, if not 4096: those of a rung for other shapes."""
COUNTS = PUBLISHED / "main-loops.json"
"""Counts by kernel and configuration, which `studies/count_loops.py` makes."""
DRAWING = ROOT / "docs" / "img" / "slots.svg"
COLOURS = {"FFMA": "#009E73", "LDS": "#56B4E9", "LDG": "#E69F00", "other": "#CFCFCF"}
MEANINGS = ("FFMA: the work", "LDS: shared-memory loads", "LDG: global loads", "addresses, checks, barriers")


def mix(story: Story, kernel: str, problem: str) -> dict[str, int]:
    """Return the committed counts for the kernel's best configuration on a problem; empty if there are none."""
    row, path = story.best(kernel, problem), story.root / COUNTS
    if row is None or not path.exists():
        return {}
    counts: dict[str, int] = read_json(path)["loops"].get(f"{kernel} {row['configuration']}", {})
    return counts


def share(counts: dict[str, int]) -> str:
    """Return the percentage of multiply-adds among the instructions of a loop."""
    return f"{100 * counts['FFMA'] / sum(counts.values()):.0f} %"


def draw(story: Story) -> Figure:
    """Draw the mix of instructions of every rung of the main line at the ladder's problem: a bar a rung, in percent, with the counts."""
    problem = story.data["cuda"].headline if "cuda" in story.data else ""
    rows = {name: mix(story, name, problem) for name in story.ladder("cuda") if name[:2] in MAIN_LINE}
    rows = {name: counts for name, counts in rows.items() if counts}
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    axes = figure.subplots()
    for place, counts in enumerate(rows.values()):
        start = 0.0
        for (kind, count), meaning in zip(counts.items(), MEANINGS, strict=True):
            width = 100 * count / sum(counts.values())
            axes.barh(place, width, left=start, color=COLOURS[kind], height=0.74, label=meaning if place == 0 else None)
            if width > 3.5:
                axes.text(start + width / 2, place, str(count), ha="center", va="center", fontsize=9)
            start += width
    labels = [f"{IDEA[name[:2]]}  {name[:2]}" for name in rows]
    axes.set(yticks=range(len(rows)), yticklabels=labels, xlim=(0, 100))
    axes.set_xlabel("% of the instructions in the main loop (sm_90; the numbers are counts)")
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(ncol=4, loc="outside upper center", frameon=False, fontsize=10)
    return figure


def write(story: Story, path: Path = DRAWING) -> Path:
    """Write the figure of main loops as SVG."""
    return save_drawing(partial(draw, story), path)
