"""Write what every rung reached in the published campaigns, as one table that GitHub shows with a
search field.
"""

import pandas as pd

from book.data import Story
from book.pages import LADDER

TABLE = LADDER / "results.csv"
COLUMNS = [
    "device",
    "campaign",
    "element_type",
    "problem",
    "kernel",
    "tflops",
    "reference",
    "ratio",
    "ratio_low",
    "ratio_high",
    "marks",
    "configuration",
]
"""Of the table, as docs/data.md explains them. The ratio is over the reference."""
CAMPAIGNS = ("default", "beyond-cublas", "half", "half-unseen")
"""Those about the rungs. With all campaigns the file would be too large for GitHub to show as a
table: the limit is 512 KB.
"""


def table(story: Story) -> str:
    """Return the best configuration of every rung and baseline on every problem, `warm`."""
    parts = []
    for name in story.folders:
        device, campaign = name.split("/")
        if campaign in CAMPAIGNS:
            best = story.opened(name).best
            parts.append(best[best["state"] == "warm"].assign(device=device, campaign=campaign))
    rows = pd.concat(parts).reindex(columns=COLUMNS)
    return str(rows.to_csv(index=False, float_format="%.4g", lineterminator="\n"))
