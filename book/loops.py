"""Show what the main loop of each rung spends its instructions on."""

from ladder.core.files import read_json
from ladder.storage.dataset_layout import PUBLISHED

from book.data import Story

COUNTS = PUBLISHED / "main-loops.json"
"""Counts by kernel and configuration, which `python -m book.count_loops` makes."""


def mix(story: Story, kernel: str, problem: str) -> dict[str, int]:
    """Return the committed counts for the kernel's best configuration on a problem; empty if there
    are none.
    """
    row, path = story.best(kernel, problem), story.root / COUNTS
    if row is None or not path.exists():
        return {}
    counts: dict[str, int] = read_json(path)["loops"].get(f"{kernel} {row['configuration']}", {})
    return counts


def share(counts: dict[str, int]) -> str:
    """Return the percentage of multiply-adds among the instructions of a loop."""
    return f"{100 * counts['FFMA'] / sum(counts.values()):.0f} %"


def main_line(story: Story) -> list[str]:
    """Return the longest line of float32 rungs on a GPU of which each builds on the one before."""
    lines = []
    for last in story.ladder("cuda"):
        line, name = [], story.builds_on(last)
        while name and name not in line:
            line.append(name)
            name = story.builds_on(name)
        lines.append([*reversed(line), last])
    return max(lines, key=len, default=[])


def of_main_line(story: Story) -> dict[str, dict[str, int]]:
    """Return the counts of every rung of the main line at the ladder's problem, for the figure, by
    its label and number. Raises `Unmeasured` without a dataset of a GPU.
    """
    problem = story.view("cuda").headline
    rows = {name: mix(story, name, problem) for name in main_line(story)}
    return {
        f"{story.kernels[name].label or name}  {name[:2]}": counts
        for name, counts in rows.items()
        if counts
    }
