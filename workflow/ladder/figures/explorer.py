"""Build the explorer: a page with the origin and an overview of each dataset, and files beside it
with the rows of its charts and tables.

The page needs no network: it loads a file when a reader asks for its rows, as a script, which works
without a server, too. `explorer.html` beside this module draws charts and has the look.
"""

import html
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ladder.core.errors import InputError
from ladder.core.files import MEND
from ladder.core.stats import geometric_mean
from ladder.core.types import rate_unit

FOLDER = "index_files"
"""The folder beside the page with its data."""
ROWS, KERNELS = 2000, 40
"""The rows of a file, with those of one problem more at most, and the most kernels of an overview
for each element type and state.
"""
TEMPLATE = Path(__file__).with_suffix(".html")
COLUMNS = {
    "kernel": "kernel",
    "problem": "problem",
    "element_type": "type",
    "state": "state",
    "tflops": "rate",
    "tflops_low": "rate low",
    "tflops_high": "rate high",
    "ratio": "ratio",
    "ratio_low": "ratio low",
    "ratio_high": "ratio high",
    "median_us": "µs",
    "low_us": "µs low",
    "high_us": "µs high",
    "energy_j": "J",
    "energy_low_j": "J low",
    "energy_high_j": "J high",
    "configuration": "configuration",
    "marks": "marks",
    "tied_with": "tied with",
    "samples": "samples",
    "processes": "processes",
    "interval": "intervals",
    "status": "status",
    "reason": "reason",
}
"""The columns of `best.csv` that the page has, and their headings."""
CLAIM = ["says", "state", "value", "low", "high", "published", "limit", "dataset", "where"]
"""The keys of a judged claim that the page has."""


def _as_json(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of a table that have a value, and its rows."""
    rows = rows.dropna(axis="columns", how="all")
    values = rows.to_json(orient="values", double_precision=15)
    return {"head": list(rows), "rows": json.loads(values)}


def _about(environment: Mapping[str, Any], reference: str) -> str:
    """Return what a dataset was measured on and with what, and the meaning of two columns."""
    attributes, project = environment["attributes"], environment["project"]
    limit, compiler = attributes.get("power_limit_w"), environment["fingerprint"].get("compiler")
    facts = [
        environment["name"],
        f"power limit {limit:.0f} W" if limit else "",
        f"driver {environment['fingerprint'].get('driver')}",
        attributes.get("library"),
        compiler,
        f"commit {str(project['commit'])[:12]}{' with changes' if project['dirty'] else ''}",
        f"measured {environment['time'][:10]}",
        f"rate in {rate_unit(environment['kind'])[0]}, ratio to {reference}",
    ]
    return " · ".join(str(fact) for fact in facts if fact)


def _overview(best: pd.DataFrame) -> pd.DataFrame:
    """Return the kernels with the highest mean ratios to the reference, over the problems of each."""
    keys = ["element_type", "state", "kernel"]
    ratios = best[best["ratio"] > 0].groupby(keys, sort=False)["ratio"]
    rows = ratios.agg(["count", geometric_mean, "min", "max"]).reset_index()
    rows.columns = [*(COLUMNS[key] for key in keys), "problems", "mean ratio", "lowest", "highest"]
    groups = rows.groupby(["type", "state"], sort=False)
    return pd.concat([group.nlargest(KERNELS, "mean ratio") for _, group in groups])


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
    rates = ["tflops", "tflops_low", "tflops_high"]
    scaled = dict(best[rates] / rate_unit(environment["kind"])[1])
    best = best.assign(problem=best["problem"].astype(str), **scaled)
    made, labels = {}, {}
    for index, (label, piece) in enumerate(_pieces(best)):
        key = f"{place}-{index}"
        rows = _as_json(piece.reindex(columns=list(COLUMNS)).rename(columns=COLUMNS))
        made[f"{FOLDER}/{key}.js"] = f'ladder("{key}", {json.dumps(rows)});\n'
        labels[key] = label
    about = _about(environment, str(best["reference"].iloc[0]))
    return {"title": name, "about": about, "pieces": labels, **_as_json(_overview(best))}, made


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
        states = Counter(claim["state"] for claim in claims)
        about = ", ".join(f"{count} {state}" for state, count in states.items())
        rows = _as_json(pd.DataFrame(claims).reindex(columns=CLAIM))
        sections.append({"title": "Claims", "about": f"{about}.", **rows})
    page = TEMPLATE.read_text().replace("{{title}}", html.escape(title))
    return {
        "index.html": page.replace("{{sections}}", json.dumps(sections).replace("<", r"\u003c"))
    } | made
