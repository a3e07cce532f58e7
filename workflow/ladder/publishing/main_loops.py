"""Show what the main loop of each rung spends its instructions on."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from ladder.core.files import ROOT, read_json
from ladder.figures.layout import save
from ladder.publishing.page_data import Story
from ladder.storage.dataset_layout import PUBLISHED

MAIN_LINE = {
    "01": "one thread per element",
    "02": "coalesced loads",
    "03": "shared-memory tiles",
    "05": "register tiles",
    "06": "float4 loads",
    "07": "double buffering",
    "09": "fragment prefetch",
    "10": "warp tiles",
    "12": "cp.async pipeline",
    "13": "register-bank order",
    "15": "Stream-K last wave",
}
"""The rungs that lead from three loops past cuBLAS, by number, with the idea in a few words."""
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
    labels = [f"{MAIN_LINE[name[:2]]}  {name[:2]}" for name in rows]
    axes.set(yticks=range(len(rows)), yticklabels=labels, xlim=(0, 100))
    axes.set_xlabel("% of the instructions in the main loop (sm_90; the numbers are counts)")
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(ncol=4, loc="outside upper center", frameon=False, fontsize=10)
    return figure


def write(story: Story, path: Path = DRAWING) -> Path:
    """Write the figure of main loops as SVG."""
    with mpl.rc_context():
        mpl.rcdefaults()  # whatever figures were drawn before
        mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "ladder", "font.family": "DejaVu Sans", "font.size": 11})
        save(draw(story), path.with_suffix(""))
    return path
