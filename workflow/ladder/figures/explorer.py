"""Build the explorer: a page with the origin and an overview of each dataset, and files beside it
with the rows of its charts and tables.

The page needs no network: it loads a file when a reader asks for its rows, as a script, which works
without a server, too. `explorer.html` beside this module draws charts and has the look.
"""

import html
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ladder.core.errors import InputError
from ladder.core.files import MEND
from ladder.core.stats import geometric_mean
from ladder.core.types import rate_unit
from ladder.core.verdicts import plus_minus
from ladder.model.baselines import is_baseline

FOLDER = "index_files"
"""The folder beside the page with its data."""
ROWS, KERNELS = 2000, 40
"""The rows of a file, with those of one problem more at most, and the most kernels of an overview
for each element type and state.
"""
TEMPLATE = Path(__file__).with_suffix(".html")
PERCENT = "% of baseline"
COLUMNS = {
    "kernel": "kernel",
    "ratio": PERCENT,
    "ratio_low": f"{PERCENT} low",
    "ratio_high": f"{PERCENT} high",
    "problem": "problem",
    "element_type": "type",
    "state": "state",
    "tflops": "rate",
    "tflops_low": "rate low",
    "tflops_high": "rate high",
    "median_us": "µs",
    "low_us": "µs low",
    "high_us": "µs high",
    "energy_j": "J",
    "energy_low_j": "J low",
    "energy_high_j": "J high",
    "configuration": "configuration",
    "marks": "flags",
    "tied_with": "as fast as",
    "samples": "samples",
    "processes": "processes",
    "interval": "intervals",
    "status": "status",
    "reason": "reason",
}
"""The columns of `best.csv` that the page has, and their headings, in which the unit stands for
`rate`.
"""
MEANS = ["mean %", "lowest %", "highest %"]
GROUP = ["type", "state"]
"""Kernels are ranked among those of the same type, with what it is rounded to, and state."""
ORDER = "reproduced", "claimed", "not distinguishable", "not reproduced"
"""The states of claims that come first, in order."""
CLAIM = {
    "value": "measured",
    "low": "measured low",
    "high": "measured high",
    "says": "claim",
    "state": "result",
    "published": "published",
    "limit": "limit",
    "dataset": "dataset",
    "where": "holds on",
}
"""The keys of a judged claim that the page has, and their headings."""


def _as_json(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of a table that have a value, and its rows."""
    rows = rows.dropna(axis="columns", how="all")
    values = rows.to_json(orient="values", double_precision=15)
    return {"head": list(rows), "rows": json.loads(values)}


def _about(environment: Mapping[str, Any], reference: str) -> str:
    """Return what a dataset was measured on and with what, and its baseline."""
    attributes, project = environment["attributes"], environment["project"]
    limit, versions = attributes.get("power_limit_w"), environment["fingerprint"]
    compiler = versions.get("compiler")
    build = re.search(r"cuda_(\d+\.\d+)", str(compiler))
    facts = [
        environment["name"],
        f"power limit {limit:.0f} W" if limit else "",
        f"driver {versions['driver']}" if "driver" in versions else "",
        attributes.get("library"),
        f"CUDA {build[1]}" if build else compiler,
        f"commit {str(project['commit'])[:12]}{' with changes' if project['dirty'] else ''}",
        f"measured {environment['time'][:10]}",
        f"baseline {reference}",
    ]
    return " · ".join(str(fact) for fact in facts if fact)


def _overview(best: pd.DataFrame) -> pd.DataFrame:
    """Return the kernels with the highest mean ratios to the reference, over the problems of each."""
    best = _types(best).rename(columns=COLUMNS)
    ratios = best[best[PERCENT] > 0].groupby(["kernel", *GROUP], sort=False)[PERCENT]
    rows = ratios.agg([geometric_mean, "min", "max"]) * 100
    rows.columns = MEANS
    groups = rows.assign(problems=ratios.count()).reset_index().groupby(GROUP, sort=False)
    kept = [group.nlargest(KERNELS, MEANS[0]) for _, group in groups]
    return pd.concat(kept)[["kernel", *MEANS, *GROUP, "problems"]]


def _types(best: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose element types name what operands are rounded to: `float32 as tf32`."""
    rounded = [f" as {name}" if isinstance(name, str) else "" for name in best["precision"]]
    return best.assign(element_type=best["element_type"] + rounded)


def _finding(best: pd.DataFrame) -> str:
    """Return how fast the kernels of the first element type and state are, in a sentence."""
    first = best[["element_type", "state"]].iloc[0]
    rows = best[(best[["element_type", "state"]] == first).all(axis=1) & (best["ratio"] > 0)]
    rows = rows[~rows["kernel"].map(is_baseline) & rows["precision"].isna()]
    if rows.empty:
        return "No kernel has a rate."
    ahead = rows.loc[rows["ratio_low"] > 1, "problem"].nunique()
    top = rows.sort_values("ratio").iloc[-1]
    highest = plus_minus(top["ratio"], top["ratio_low"], top["ratio_high"], True)
    return (
        f"{', '.join(first)}: kernels are distinguishably faster than "
        f"{best['reference'].iloc[0]} on {ahead} of {rows['problem'].nunique()} problems. The "
        f"highest: {top['kernel']}, {highest} at {top['problem']}."
    )


def _pieces(best: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Return the rows of each file by problems, squares first, with a label."""
    work = best["m"].astype(float) * best["n"] * best["k"]
    other = ~best["problem"].str.isdigit()
    rows = best.assign(work=work, other=other).sort_values(["other", "work"], kind="stable")
    for element_type, typed in rows.groupby("element_type", sort=False):
        place = pd.Series(range(len(typed)), typed.index)
        first = place.groupby(typed["problem"]).transform("min")
        for _, piece in typed.groupby(first // ROWS):
            problems = list(dict.fromkeys(piece["problem"]))
            yield f"{element_type}: {' to '.join(problems[:: max(len(problems) - 1, 1)])}", piece


def _dataset(
    place: int, name: str, best: pd.DataFrame, environment: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the part of the page about a dataset, from its table `best`, and its files by name."""
    unit, size = rate_unit(environment["kind"])
    names = {key: name.replace("rate", unit) for key, name in COLUMNS.items()}
    best = best.astype({"problem": str})
    reference, finding, overview = str(best["reference"].iloc[0]), _finding(best), _overview(best)
    for column, factor in {"tflops": 1 / size, "ratio": 100}.items():
        best = best.assign(**dict(best.filter(regex=f"^{column}(_low|_high)?$") * factor))
    made, labels = {}, {}
    for index, (label, piece) in enumerate(_pieces(best)):
        key = f"{place}-{index}"
        rows = _as_json(_types(piece).reindex(columns=list(names)).rename(columns=names))
        made[f"{FOLDER}/{key}.js"] = f'ladder("{key}", {json.dumps(rows)});\n'
        labels[key] = label
    section = {"title": name, "finding": finding, "about": _about(environment, reference)}
    return section | {"reference": reference, "pieces": labels, **_as_json(overview)}, made


def read_claims(path: Path) -> list[dict[str, Any]]:
    """Return the judged claims of a file. Raises `InputError` if it is not a list of them."""
    try:
        claims = json.loads(path.read_text())
        if not (
            isinstance(claims, list)
            and all({"id", "says", "state"} <= set(claim) for claim in claims)
        ):
            raise ValueError("no list of mappings with id, says and state")
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: {error}; expected judged claims. {MEND}") from None
    return claims


def files(
    title: str,
    datasets: Mapping[str, tuple[pd.DataFrame, Mapping[str, Any]]],
    claims: Sequence[Mapping[str, Any]] = (),
) -> dict[str, str]:
    """Return the page of datasets, GPUs first, and the files with their rows, by name. Each dataset
    is given by its name, its table `best` and its environment.
    """
    gpus_first = sorted(datasets.items(), key=lambda item: item[1][1]["kind"] != "cuda")
    sections, made = [], dict[str, str]()
    for place, (name, given) in enumerate(gpus_first):
        section, data = _dataset(place, name, *given)
        sections.append(section)
        made |= data
    if claims:
        # what was reproduced comes first, and a claim before one of many parts
        ordered = sorted(
            claims,
            key=lambda claim: ((*ORDER, claim["state"]).index(claim["state"]), ":" in claim["id"]),
        )
        states = Counter(claim["state"] for claim in ordered)
        finding = ", ".join(f"{count} {state}" for state, count in states.items())
        rows = _as_json(pd.DataFrame(ordered).reindex(columns=list(CLAIM)).rename(columns=CLAIM))
        sections.append({"title": "Claims", "finding": f"{finding}.", "about": "", **rows})
    page = TEMPLATE.read_text().replace("{{title}}", html.escape(title))
    return {
        "index.html": page.replace("{{sections}}", json.dumps(sections).replace("<", r"\u003c"))
    } | made
