"""How well two datasets of the same GPU model agree: the share of measurements whose ratio to the baseline differs by at most 2 %.

    python tests/repeatability.py results/published/nvidia-h200 results/default/nvidia-h200

Ratios are compared, not times: what differs between two machines or days, such as the clock, cancels in them. A measurement is a kernel in
a configuration on a problem in a state, correct in both. What lost a race has fewer samples and is counted apart. Last comes by how much
choosing the best of a kernel's configurations flatters it: what the best of one dataset is in the other, where nothing was chosen.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "workflow"))

from ladder import tables  # noqa: E402

WITHIN = 0.02
KEYS = ["kernel", "configuration", "element_type", "m", "n", "k", "alpha", "beta", "padding", "distribution", "state"]


def summary(folder: Path) -> pd.DataFrame:
    """The correct measurements of a dataset."""
    environment = json.loads((folder / "environment.json").read_text())
    records, _ = tables.load(sorted((folder / "samples").glob("*.parquet")), environment)
    table = tables.summarise(records, environment["peaks"]["fp32_tflops"])
    return table[table["ratio"].notna()]


def compare(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """The measurements both datasets have, with the relative differences of their ratios and times, and whether one lost a race."""
    both = one.merge(other, on=KEYS, suffixes=("", "_other"))
    return both.assign(
        ratio_change=both["ratio_other"] / both["ratio"] - 1,
        time_change=both["median_us_other"] / both["median_us"] - 1,
        raced=(both["stop"] == "race") | (both["stop_other"] == "race"),
    )


def share(changes: pd.Series) -> str:
    """`97.1 % of 1200, nine in ten within 0.8 %`."""
    if changes.empty:
        return "none"
    return f"{np.mean(abs(changes) <= WITHIN):.1%} of {len(changes)}, nine in ten within {abs(changes).quantile(0.9):.1%}"


def chosen_again(both: pd.DataFrame) -> pd.DataFrame:
    """The best configuration of one dataset for every kernel, problem and state with several, as `ratio_change` finds it in the other.

    `behind` is how far it is there behind the best of that dataset.
    """
    groups = both.groupby([key for key in KEYS if key != "configuration"])
    several = both[groups["configuration"].transform("size") > 1]
    best = groups["ratio_other"].max().rename("best_other").reset_index()
    picked = several.loc[several.groupby(groups.keys)["ratio"].idxmax()].merge(best)
    return picked.assign(behind=1 - picked["ratio_other"] / picked["best_other"])


def main() -> None:
    """Print the shares, and the measurements that differ most."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs=2, type=Path, help="folders with environment.json and samples/")
    both = compare(*(summary(folder) for folder in parser.parse_args().datasets))
    finished = both[~both["raced"]]
    print(
        f"ratios within {WITHIN:.0%}: {share(finished['ratio_change'])}; lost a race: {share(both[both['raced']]['ratio_change'])}"
    )
    print(f"times within {WITHIN:.0%}: {share(finished['time_change'])}")
    for name in ("state", "kernel", "problem"):
        for value, group in finished.groupby(name, sort=False):
            print(f"  {name} {value:26} ratios: {share(group['ratio_change'])}")
    picked = chosen_again(both)
    print(
        f"best of several configurations, {len(picked)} times: in the other dataset {picked['ratio_change'].median():+.2%} in the median, "
        f"from {picked['ratio_change'].quantile(0.05):+.1%} to {picked['ratio_change'].quantile(0.95):+.1%} in nine of ten; the best there "
        f"too, or within 1 % of it: {np.mean(picked['behind'] <= 0.01):.0%}"
    )
    worst = finished.loc[abs(finished["ratio_change"]).sort_values(ascending=False).index[:8]]
    print("the most different:")
    print(
        worst[["kernel", "configuration", "problem", "state", "ratio", "ratio_other", "stop", "stop_other"]].to_string(
            index=False
        )
    )


if __name__ == "__main__":
    main()
