"""Show what the main loop of each rung spends its instructions on."""

from ladder.core.files import read_json
from ladder.figures.main_loops import MAIN_LINE
from ladder.storage.dataset_layout import PUBLISHED

from book.data import Story

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
"""Counts by kernel and configuration, which `python -m book.count_loops` makes."""


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


def main_line(story: Story) -> dict[str, dict[str, int]]:
    """Return the counts of every rung of the main line at the ladder's problem, for the figure."""
    problem = story.data["cuda"].headline if "cuda" in story.data else ""
    rows = {name: mix(story, name, problem) for name in story.ladder("cuda") if name[:2] in MAIN_LINE}
    return {name: counts for name, counts in rows.items() if counts}
