"""Make the tables of the pages from published data."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import fields

import pandas as pd
from ladder.analysis.kernel_model import SECTOR_BYTES
from ladder.claims.definitions import NOTHING
from ladder.core.stats import geometric_mean
from ladder.core.types import ELEMENT_TYPES
from ladder.figures.data import lettered
from ladder.figures.shapes import ACCURATE
from ladder.measuring.verdict import Bits

from book import loops
from book.data import Story, Unmeasured
from book.evidence import answers, claimed, gates, power_limit, tried
from book.half import unseen
from book.markdown import (
    interval_notes,
    kernel_text,
    markdown_table,
    number,
    parameters_of,
    problem_text,
    rate_text,
    whence,
)
from book.runs import correlations, limits

NEGLIGIBLE = 4.0
"""An error counts as no larger than the reference's up to `ACCURATE` times that, or up to this many
units of roundoff.
"""


def device(story: Story, kind: str) -> str:
    """Return a table of the measured device."""
    data = story.view(kind)
    e = data.environment
    attributes, project = e["attributes"], e["project"]
    facts = {
        "device": e["name"],
        "multiprocessors (SMs)": attributes.get("sm_count"),
        "cores": attributes.get("cores"),
        "compute capability": attributes.get("compute_capability"),
        f"measured {data.peak_name}": f"{number(data.peak)} {data.unit}",
        "measured copy bandwidth": f"{number(e['peaks']['copy_tb_s'])} TB/s"
        if e["peaks"].get("copy_tb_s")
        else None,
        "the vendor's library": attributes.get("library"),
        "date and commit": f"{e['time'][:10]}, `{(project['commit'] or 'unknown')[:10]}`",
    }
    return markdown_table(
        ["", ""],
        [[name, str(value)] for name, value in facts.items() if value is not None],
        words=(0, 1),
    )


def mix(story: Story, problem: str, *kernels: str) -> str:
    """Return how many instructions of each kind the main loops of rungs have, in their best
    configurations on a problem.
    """
    rows = []
    for kernel in kernels:
        counts = loops.mix(story, kernel, problem)
        cells = [*map(number, counts.values()), loops.share(counts)] if counts else [NOTHING]
        rows.append([kernel_text(kernel), *cells])
    columns = ["main loop of", "FFMA", "LDS", "LDG", "other", "share of FFMA"]
    return markdown_table(columns, rows)


def counters(story: Story, *kernels: str) -> str:
    """Return what Nsight Compute counted of rungs at the ladder's problem, in their best
    configurations on one GPU. docs/ladder/README.md explains the columns.
    """
    if story.counts is None:
        raise Unmeasured
    (_, counts), rows = story.counts, []
    for kernel in kernels:
        for row in counts[counts["kernel"] == kernel].to_dict("records"):
            conflicts = row["bank_conflicts"] / max(row["shared_wavefronts"], 1)
            stalls = re.sub(r"\d\S*e\+\d+", lambda large: f"{float(large[0]):.0f}", row["stalls"])
            rows.append(
                [
                    kernel_text(kernel),
                    f"{row['issue_percent']:.0f} %",
                    f"{row['warps_percent']:.0f} %",
                    f"{row['l2_read_sectors'] * SECTOR_BYTES * 1e-9:.3g} GB",
                    f"{100 * conflicts:.0f} %",
                    stalls,
                ]
            )
    columns = [
        "counted in",
        "issue slots used",
        "resident warps",
        "read from L2",
        "bank conflicts",
        "warps wait for",
    ]
    return markdown_table(columns, rows, (0, -1))


def compare(story: Story, kernel: str, parameter: str, problem: str) -> str:
    """Return the rates for every value of one parameter; the other parameters are fixed in each
    row.
    """
    data = story.dataset(kernel)
    chosen = data.summary[(data.summary["kernel"] == kernel) & (data.summary["problem"] == problem)]
    rates: dict[str, dict[int, str]] = {}
    for row in chosen[chosen["tflops"].notna()].to_dict("records"):
        others = parameters_of(row)
        value = others.pop(parameter, 0)
        label = " ".join(f"{name}={at}" for name, at in others.items())
        rates.setdefault(label, {})[value] = rate_text(data, row)
    values = sorted({value for row in rates.values() for value in row})
    rows = [
        [f"`{label}`", *(row.get(value, "–") for value in values)] for label, row in rates.items()
    ]
    head = f"{data.unit} at {problem_text(problem)}, of the sweep: one process, within-run"
    return markdown_table([head, *(f"{parameter}={value}" for value in values)], rows)


MEASURES = ["frobenius_error", "component_error"]


def _beside_reference(rows: pd.DataFrame, references: pd.DataFrame) -> pd.DataFrame:
    """Return rows with errors in units of roundoff, those of the reference (`_reference`), and the
    allowed ones (`_allowed`).
    """
    key = ["problem", *MEASURES]
    both = rows.dropna(subset=MEASURES).merge(
        references[key], on="problem", suffixes=("", "_reference")
    )
    for measure in MEASURES:
        both[[measure, f"{measure}_reference"]] /= ELEMENT_TYPES["float32"].unit_roundoff
        both[f"{measure}_allowed"] = (ACCURATE * both[f"{measure}_reference"]).clip(
            lower=NEGLIGIBLE
        )
    return both


def _within(rows: pd.DataFrame) -> str:
    """Return how many errors are within the allowed ones, and the distributions of the others."""
    beyond = Counter(
        name
        for measure in MEASURES
        for name in rows.loc[rows[measure] > rows[f"{measure}_allowed"], "distribution"]
    )
    total = len(MEASURES) * len(rows)
    others = ", ".join(f"{count} of `{name}`" for name, count in beyond.items())
    return f"{total - beyond.total()} of {total}" + (f" (the others: {others})" if others else "")


def errors(story: Story, name: str, kernel: str, *distributions: str) -> str:
    """Return the errors of a rung in a published campaign and the reference's, for some
    distributions, at the K where they are worst, and the largest speedup.

    The text below counts for how many problems and configurations the errors are as small as the
    reference's.
    """
    data = story.campaign(name)
    references = data.best[data.best["kernel"] == data.reference]
    both, every = (
        _beside_reference(rows[rows["kernel"] == kernel], references)
        for rows in (data.best, data.summary[data.summary["tflops"].notna()])
    )
    rows = []
    for distribution, at in both.groupby("distribution", sort=False):
        cells = []
        for measure in MEASURES:
            worst = at.loc[(at[measure] / at[f"{measure}_allowed"]).idxmax()]
            cells += [number(worst[measure]), number(worst[f"{measure}_reference"])]
        most = at.loc[at["ratio"].idxmax()].to_dict()
        speed = lettered(f"{number(most['ratio'], '×')} at {most['k']}", most)
        if distribution in distributions:
            rows.append([f"`{distribution}`", *cells, speed])
    columns = [
        "distribution",
        "Frobenius norm",
        "SGEMM's",
        "worst element",
        "SGEMM's",
        "largest speedup, at K",
    ]
    count = every["configuration"].nunique()
    sizes = dict.fromkeys(f"{m} × {n}" for m, n in zip(both["m"], both["n"], strict=True))
    table = markdown_table(columns, rows, notes=interval_notes(data))
    return (
        f"{whence(data)}, M × N = {', '.join(sizes)}, fastest configurations, in units of 2^-24, at "
        f"the K from {both['k'].min()} to {both['k'].max()} where the rung is worst compared with "
        f"SGEMM.\n\n{table}\n\nAt most {ACCURATE} times SGEMM's, or {NEGLIGIBLE:g}, are "
        f"{_within(both)}; of all {count} configurations {_within(every)}."
    )


def languages(story: Story, name: str, problem: str, *kernels: str) -> str:
    """Return the ratios to the reference of some kernels of a published campaign on a problem, by
    element type.
    """
    views = [story.campaign(name, element_type) for element_type in ("float32", "bfloat16")]
    rows = []
    for kernel in kernels:
        found = [view.best_rows.get((kernel, problem)) for view in views]
        cells = [lettered(f"{row['ratio']:.3f}", row) if row else "–" for row in found]
        rows.append([kernel_text(kernel), *cells])
    columns = [f"× cuBLAS at {problem_text(problem)}", "float32", "bfloat16"]
    table = markdown_table(columns, rows, notes=interval_notes(views[0]))
    return f"{whence(views[0])}:\n\n{table}"


def bits(story: Story, name: str, element_type: str) -> str:
    """Return on how many problems the results of each kernel and baseline of a published campaign
    are the same bits, by question, and how many times the time of the fastest it takes.
    """
    data = story.campaign(name, element_type)
    asked = data.best[data.best["bits"].notna()]
    slower = asked.groupby("problem")["tflops"].transform("max") / asked["tflops"]
    questions = [each.name.replace("_", " ") for each in fields(Bits) if each.name != "differences"]
    rows = []
    for kernel, own in asked.groupby("kernel", sort=False):
        same = own["bits"].str.extract("same: ([^;]*)", expand=False).fillna("").str.split(", ")
        counts = (sum(question in each for each in same) for question in questions)
        mean = number(geometric_mean(list(slower[own.index])), "×")
        rows.append([kernel_text(str(kernel)), *map(str, counts), mean])
    columns = ["GEMM", *questions, "time over the fastest"]
    notes = f"Same bits, on how many of {asked['problem'].nunique()} problems."
    return f"{whence(data)}. {notes}\n\n{markdown_table(columns, rows)}"


TABLES: dict[str, Callable[..., str]] = {
    function.__name__: function
    for function in (
        device,
        mix,
        counters,
        compare,
        languages,
        errors,
        limits,
        correlations,
        tried,
        power_limit,
        unseen,
        bits,
        gates,
        answers,
        claimed,
    )
}
