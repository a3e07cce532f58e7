"""Word the short answers to the studies, at most 12 words with one number each, by topic in the order of docs/evidence.md.

A function has the name of its study and takes what that measured on one device. `answers` has the functions for the long answers.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ladder.analysis.tables import LARGEST_SQUARE
from ladder.claims.study import furthest

Measured = Mapping[str, Any]
Short = Callable[[Measured], str]


def _apart(ratios: Any) -> str:
    """Return the largest deviation of ratios from 1, without its sign."""
    return f"{100 * abs(furthest(ratios) - 1):.1f} %"


def checks(measured: Measured) -> str:
    """Return whether all tests passed and the sanitizer found nothing."""
    outcomes, failed = list(measured["tests"].values()), sum(it == "failed" for it in measured["tests"].values())
    errors = sum(counts["errors"] for counts in measured["sanitizer"].values())
    if failed or errors:
        return f"No: {failed + errors} failed tests or sanitizer errors"
    return f"Yes: {outcomes.count('passed')} tests passed, and compute-sanitizer found no error"


def adversary(measured: Measured) -> str:
    """Return the largest share of the bound, or how many inputs exceed it."""
    spoiled = measured["spoiled"]
    return (
        f"Yes: {spoiled} exceed the bound"
        if spoiled
        else f"None found: the worst reaches {100 * measured['worst']['share']:.0f} % of the bound"
    )


def random_problems(measured: Measured) -> str:
    """Return how many launches were incorrect."""
    launches = sum(measured["launches"].values())
    return f"Yes: {measured['incorrect']} launches are" if measured["incorrect"] else f"No: none of {launches:,} launches is"


def faults(measured: Measured) -> str:
    """Return how many kinds of fault harmed nothing else."""
    others = sum(not row["as_told"] for row in measured["faults"])
    return (
        f"Yes: {others} kinds of fault do" if others else f"No: each of {len(measured['faults'])} kinds of fault stays in its row"
    )


def fuzz(measured: Measured) -> str:
    """Return the number of inputs, none of which did harm: the study fails otherwise."""
    count = sum(sum(measured[what].values()) for what in ("expressions", "headers", "campaigns"))
    return f"No: all of {count:,} random inputs were answered or refused"


def kill(measured: Measured) -> str:
    """Return how many measurements were lost."""
    lost = measured["measurements_lost"]
    return f"Yes: {lost} measurements were lost" if lost else f"No: {measured['kills']} kills lost no measurement"


def agreement(measured: Measured) -> str:
    """Return the largest difference to another harness in the same kind of launches."""
    ratios = (row["ours"][mode] / row["theirs"][mode] for row in measured["rows"] for mode in ("warm", "cold"))
    return f"Within {_apart(ratios)}, warm and cold"


def repeat(measured: Measured) -> str:
    """Return the share of differences between runs on one device that their intervals cover."""
    counted = measured["same_machine"]
    if not counted["pairs"]:
        return "Unknown: no device was measured twice"
    return (
        f"{counted['covered']:.1%} of differences on one device lie within their interval, from {counted['pairs']} pairs of runs"
    )


def elsewhere(measured: Measured) -> str:
    """Return how many of the items that apply were reproduced, refuted and not measured."""
    states = measured["states"]
    reproduced, failed, unmeasured = (states.get(name, 0) for name in ("reproduced", "not reproduced", "not measured yet"))
    answer = "No" if failed else "In part" if unmeasured else "Yes"
    items = sum(states.values()) - states.get("not applicable here", 0)
    return f"{answer}: {reproduced} of {items} items reproduced, {failed} refuted, {unmeasured} not measured"


def two_percent(measured: Measured) -> str:
    """Return the share of slowed kernels that are found."""
    return f"{measured['found']:.1%} of {measured['slowed']} are called slower"


def slowed(measured: Measured) -> str:
    """Return whether a claim fails for a slowed kernel, and only for that."""
    only_slowed = measured["slowed"]["not reproduced"] and not measured["as_it_is"]["not reproduced"]
    return f"{'Yes' if only_slowed else 'No'}, if {measured['percent']} % slower"


def false_positives(measured: Measured) -> str:
    """Return the share of false positives."""
    return f"{measured['called']:.1%} of comparisons of the same code are called different"


def disturbance(measured: Measured) -> str:
    """Return the largest move of a median."""
    return f"By at most {_apart(row['busy_to_quiet'] for row in measured['rows'])}"


def neighbours(measured: Measured) -> str:
    """Return the largest move of a median."""
    return f"By at most {_apart(row['beside'] for row in measured['rows'])}"


def placement(measured: Measured) -> str:
    """Return the share of problems on which the rungs are ahead with aligned operands."""
    ratios = [row["aligned"]["ratio"] for row in measured["rows"]]
    return f"No: with alignment, rungs are ahead on {100 * sum(ratio >= 1 for ratio in ratios) / len(ratios):.0f} % of problems"


def benchmark(measured: Measured) -> str:
    """Return the time of the default campaign."""
    return f"{measured['campaign_s']:.0f} s with one core of the host"


def several_gpus(measured: Measured) -> str:
    """Return the speedup."""
    several, single = measured["runs"]
    return f"{single['wall_s'] / several['wall_s']:.1f} times as fast with several"


def saves(measured: Measured) -> str:
    """Return the time from a save to the answer."""
    return f"{measured['watch_s']:.1f} s after a save, with `--watch`"


def kernel_tuner_compare(measured: Measured) -> str:
    """Return the least and the largest speedup."""
    ratios = [run["faster"] for run in measured["runs"]]
    return f"{min(ratios):.1f} to {max(ratios):.1f} times as fast, by the number of cores"


def kernel_tuner_times(measured: Measured) -> str:
    """Return the largest effect of a single difference."""
    effects = {f"{factor} {level}": ratio[0] for factor, levels in measured["effects"].items() for level, ratio in levels.items()}
    worst = max(effects, key=lambda level: abs(effects[level] - 1))
    return f"Mostly by `{worst}`: by itself {100 * (effects[worst] - 1):+.1f} %"


def registers(measured: Measured) -> str:
    """Return the largest error of the model."""
    return f"Register banks and loads; our model errs by at most {_apart(row['model'] / row['measured'] for row in measured['patterns'])}"


def tried(measured: Measured) -> str:
    """Return the share of changes that are slower."""
    rows = measured["changes"]
    slower = sum(row["high"] < 1 for row in rows) / len(rows)
    return f"{'Mostly not' if slower > 0.5 else 'Often'}: {100 * slower:.0f} % are slower"


def tensor(measured: Measured) -> str:
    """Return the speedup over SGEMM at 4096, or at the only size: sustained, and in a single launch."""
    row = next((row for row in measured["rows"] if row["size"] == LARGEST_SQUARE), measured["rows"][0])
    held, single = (row[how]["sgemm_us"] / row[how]["rung_us"] for how in ("held", "together"))
    return f"×{held:.2f} over SGEMM sustained, ×{single:.2f} in a single launch, at {row['size']}"


def fastest_product(row: Measured) -> tuple[str, Measured]:
    """Return the tile, and what was held, of the fastest single product."""
    products: Mapping[str, Measured] = row["products"]
    return min(products.items(), key=lambda item: float(item[1]["us"]))


def least_time(row: Measured) -> float:
    """Return the microseconds of three single products and the split."""
    return 3 * float(fastest_product(row)[1]["us"]) + float(row["held"]["split"]["us"])


def power_limit(measured: Measured) -> str:
    """Return how long three single products and the split take beside rung 21, at the first size."""
    row = measured["rows"][0]
    return f"Power: three plain products and the split take {100 * least_time(row) / row['held']['whole']['us']:.0f} % as long"


def thin(measured: Measured) -> str:
    """Return how long preparing B takes beside BLAS."""
    blas, rung = (line["fixed_us"] for line in measured["lines"])
    return f"It prepares B in {100 * rung / blas:.0f} % of the time"


TOPICS: dict[str, tuple[Short, ...]] = {
    "Correctness and robustness": (checks, random_problems, adversary, faults, fuzz, kill),
    "Timing": (agreement, repeat, elsewhere, false_positives, two_percent, slowed, disturbance, neighbours, placement),
    "Speed of the pipeline": (benchmark, several_gpus, saves, kernel_tuner_compare),
    "Explanations": (kernel_tuner_times, registers, tried, tensor, power_limit, thin),
}
"""The topics of the evidence, with the studies of each."""
