"""Make the tables of the pages from published data."""

import statistics
from collections import Counter
from collections.abc import Callable

import pandas as pd
from ladder.analysis.kernel_model import SECTOR_BYTES
from ladder.claims.definitions import NOTHING
from ladder.core.expressions import evaluate
from ladder.core.stats import geometric_mean
from ladder.core.types import ELEMENT_TYPES, OF_CUDA
from ladder.core.verdicts import SAME, UNCONFIRMED
from ladder.figures.data import BASELINE_NAME, lettered
from ladder.model.baselines import is_baseline
from ladder.model.kernel import COMPILERS

from book import loops
from book.data import Story, Unmeasured
from book.evidence import answers, claimed, details, tried
from book.half import half
from book.markdown import (
    blocks_text,
    gain_text,
    interval_notes,
    interval_text,
    kernel_text,
    lacks,
    markdown_table,
    names_of,
    number,
    parameters_of,
    percent,
    problem_text,
    rate_text,
    whence,
)
from book.past import ACCURATE, elsewhere, fastest_on, past
from book.runs import alone, datasets, limits, machines

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


def _at(story: Story, kind: str, table: str) -> str:
    """Return a table at the ladder's problem, below a line that names the problem."""
    return f"At {story.view(kind).where()}:\n\n{table}"


def best(story: Story, kind: str) -> str:
    """Return the whole ladder at the problem of its figure."""
    data, rows, means = story.view(kind), [], []
    problem = data.headline
    for kernel in dict.fromkeys([*story.ladder(kind), *data.baselines]):
        row = data.best_rows.get((kernel, problem))
        if row is None:
            rows.append([kernel_text(kernel), NOTHING])
            continue
        base = None if is_baseline(kernel) else story.builds_on(kernel)
        gained = f"{gain_text(story.gain(kernel, problem))} ({base[:2]})" if base else "–"
        means.append(story.over_machines(row, data))
        rows.append(
            [
                kernel_text(kernel),
                number(float(row["median_us"])),
                rate_text(data, row),
                gained,
                percent(means[-1]["ratio"]),
                interval_text(means[-1]),
                "–" if data.easier(row) else percent(row["peak_fraction"]),
                f"`{row['configuration']}`",
            ]
        )
    interval, processes = interval_notes(data, means)
    columns = [
        "rung",
        "time, µs",
        data.unit,
        "over rung",
        f"of {data.nice(data.reference)}",
        interval,
        "of the peak",
        "best configuration",
    ]
    return _at(story, kind, markdown_table(columns, rows, (0, -1), processes))


def rung(story: Story, kernel: str, *problems: str) -> str:
    """Return the results of one rung on some problems, beside the rung that it builds on and the
    reference.

    `unseen` stands for those that nothing was tuned on where the rung, of 16 bits, is the fastest.
    """
    first, rows, means = story.dataset(kernel), [], []
    named: list[str] = []
    for name in problems:
        named += fastest_on(story, kernel)[0] if name == "unseen" else [name]
    for problem in dict.fromkeys(named):
        data = story.dataset(kernel, problem)
        row = data.best_rows.get((kernel, problem))
        if row is None:
            rows.append([problem_text(problem), NOTHING])
            continue
        means.append(story.over_machines(row, data))
        rows.append(
            [
                problem_text(problem),
                rate_text(data, row),
                gain_text(story.gain(kernel, problem)),
                f"{percent(means[-1]['ratio'])} ({interval_text(means[-1])})",
                blocks_text(story.kernels[kernel], row, data),
                f"`{row['configuration']}`",
            ]
        )
    interval, notes = interval_notes(first, means)
    if first.element_type != "float32":
        notes.append(f"{first.element_type} on one {first.environment['name']}")
    over = f"over rung {base[:2]}" if (base := story.builds_on(kernel)) else "gain"
    columns = [
        "M × N × K",
        first.unit,
        over,
        f"of {first.nice(first.reference)} ({interval})",
        "blocks",
        "best configuration",
    ]
    return markdown_table(columns, rows, (0, -1), notes)


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
    configurations on one GPU.
    """
    if story.counts is None:
        raise Unmeasured
    (gpu, counts), rows = story.counts, []
    for kernel in kernels:
        for row in counts[counts["kernel"] == kernel].to_dict("records"):
            conflicts = row["bank_conflicts"] / max(row["shared_wavefronts"], 1)
            rows.append(
                [
                    kernel_text(kernel),
                    f"{row['issue_percent']:.0f} %",
                    f"{row['warps_percent']:.0f} %",
                    f"{row['l2_read_sectors'] * SECTOR_BYTES * 1e-9:.3g} GB",
                    f"{100 * conflicts:.0f} %",
                    row["stalls"],
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
    problem = problem_text(str(int(counts["m"].iloc[0])))
    note = f"Nsight Compute, one launch at {problem} on one {gpu}"
    return markdown_table(columns, rows, (0, -1), [note])


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


def methods(story: Story, kind: str) -> str:
    """Return method, global reads, time and what it lacks, for every rung: the table of the source
    "General Matrix Multiplication".
    """
    rows, data = [], story.view(kind)
    for name in story.ladder(kind):
        kernel, row = story.kernels[name], story.best(name, data.headline)
        each, time = "–", NOTHING
        if row is not None:
            time = lettered(number(float(row["median_us"])), row)
            each = number(
                evaluate(kernel.global_reads, names_of(kernel, row, data))
                / (row["m"] * row["n"] * row["k"])
            )
        rows.append(
            [kernel.title, f"`{kernel.global_reads.replace(' ', '')}`", each, time, lacks(kernel)]
        )
    columns = ["method", "global reads", "reads / MNK", "time, µs", "what it lacks"]
    return _at(story, kind, markdown_table(columns, rows, words=(0, 1, -1)))


def gains(story: Story, kind: str) -> str:
    """Return the gains of every rung over the one that it builds on, on the problems that all have;
    unconfirmed ones get no verdict.
    """
    data, rows = story.view(kind), []
    common = data.common()
    for kernel in filter(story.builds_on, story.ladder(kind)):
        gained = [row for problem in common if (row := story.gain(kernel, problem)) is not None]
        if not gained:
            rows.append([kernel_text(kernel), NOTHING])
            continue
        verdicts = Counter(row["verdict"] for row in gained)
        counts = [f"{verdicts[how]} of {len(gained)}" for how in ("faster", SAME, "slower")]
        by_ratio = sorted(gained, key=lambda row: row["ratio"])
        ends = [
            f"{lettered(gain_text(row), row)} ({problem_text(row['problem'])})"
            for row in (by_ratio[0], by_ratio[-1])
        ]
        mean = number(geometric_mean([row["ratio"] for row in gained]), "×")
        if UNCONFIRMED in verdicts:
            counts = ["–"] * 3
        rows.append([kernel_text(kernel), mean, *counts, *ends])
    columns = [
        "rung",
        "gain, geometric mean",
        "faster on",
        f"{SAME} on",
        "slower on",
        "least",
        "most",
    ]
    table = markdown_table(columns, rows, notes=alone(story.root, data))
    return (
        f"Over the {len(common)} problems that every rung has, "
        f"{', '.join(map(problem_text, common))}:\n\n{table}"
        if common
        else table
    )


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


def errors(story: Story, name: str, kernel: str) -> str:
    """Return the errors of a rung in a published campaign beside the reference's, by distribution,
    at the K where they are worst.

    The table also shows at which K the rung is slowest and fastest. The text below counts for how
    many problems and configurations the errors are as small as the reference's.
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
        ends = [at.loc[at["ratio"].idxmin()].to_dict(), at.loc[at["ratio"].idxmax()].to_dict()]
        rows.append(
            [
                f"`{distribution}`",
                *cells,
                *(lettered(f"{number(row['ratio'], '×')} at {row['k']}", row) for row in ends),
            ]
        )
    columns = [
        "distribution",
        "Frobenius norm",
        "SGEMM's",
        "worst element",
        "SGEMM's",
        "speed beside SGEMM, least, at K",
        "most, at K",
    ]
    count = every["configuration"].nunique()
    sizes = dict.fromkeys(f"{m} × {n}" for m, n in zip(both["m"], both["n"], strict=True))
    table = markdown_table(columns, rows, notes=interval_notes(data)[1])
    return (
        f"{whence(data)}, M × N = {', '.join(sizes)}, of the configuration that is the fastest on "
        f"each problem, in units of 2^-24, at that K from {both['k'].min()} to {both['k'].max()} "
        f"where it is the worst beside SGEMM's.\n\n{table}\n\nAt most ×{ACCURATE} of SGEMM's, or "
        f"{NEGLIGIBLE:g}, are {_within(both)}; of all {count} configurations {_within(every)}."
    )


def compilers(story: Story, name: str) -> str:
    """Return the rates and compile times of NVRTC beside nvcc, for every rung of a published
    campaign.
    """
    data = story.campaign(name)
    from ladder.figures.compilers import compared

    both, rows = compared(data), []
    resources = pd.read_csv(story.folders[name] / "resources.csv")
    for kernel in data.kernels:
        mine = both[both["kernel"] == kernel].sort_values("percent").to_dict("records")
        ends = (
            [lettered(f"{row['percent']:+.1f} %", row) for row in (mine[0], mine[-1])]
            if mine
            else ["–", "–"]
        )
        median = f"{statistics.median(row['percent'] for row in mine):+.1f} %" if mine else "–"
        seconds = resources[resources["kernel"] == kernel].groupby("compiler")["seconds"].mean()
        rows.append(
            [
                kernel_text(kernel),
                median,
                *ends,
                *(f"{number(float(seconds[compiler]))} s" for compiler in COMPILERS),
            ]
        )
    columns = [
        "rung",
        f"{COMPILERS[1]} is faster by, median",
        "least",
        "most",
        *(f"{compiler}, a configuration" for compiler in COMPILERS),
    ]
    return (
        f"{whence(data)}, of the sweep: one process, within-run:\n\n{markdown_table(columns, rows)}"
    )


def rates(story: Story, kind: str) -> str:
    """Return the rates of every rung and baseline on every problem."""
    data = story.view(kind)
    kernels = list(dict.fromkeys([*story.ladder(kind), *data.baselines]))
    short = [
        BASELINE_NAME[name].split(" (")[0] if is_baseline(name) else name.split("_")[0]
        for name in kernels
    ]
    rows = []
    for problem in dict.fromkeys(data.best["problem"]):
        bests = [data.best_rows.get((kernel, problem)) for kernel in kernels]
        rows.append(
            [problem_text(problem), *(rate_text(data, row) if row else "–" for row in bests)]
        )
    return markdown_table([data.unit, *short], rows)


def languages(story: Story, name: str) -> str:
    """Return the throughput of every kernel of a published campaign on every problem, as ratios to
    the reference, by element type.
    """
    parts = []
    for element_type in ("float32", *reversed(OF_CUDA)):
        data = story.campaign(name, element_type)
        if data.best.empty:
            continue
        rows = []
        for kernel in dict.fromkeys(data.summary["kernel"]):
            bests = [data.best_rows.get((kernel, problem)) for problem in data.order]
            cells = [lettered(f"×{row['ratio']:.3f}", row) if row else "–" for row in bests]
            if kernel != data.reference and any(bests):
                rows.append([kernel_text(kernel), *cells])
        columns = ["kernel", *map(problem_text, data.order)]
        table = markdown_table(columns, rows, notes=interval_notes(data)[1])
        parts.append(f"**{element_type}**, over {data.nice(data.reference)}:\n\n{table}")
    return "\n\n".join([f"{whence(story.campaign(name))}.", *parts])


TABLES: dict[str, Callable[..., str]] = {
    function.__name__: function
    for function in (
        device,
        best,
        rung,
        mix,
        counters,
        compare,
        methods,
        gains,
        past,
        elsewhere,
        half,
        languages,
        errors,
        compilers,
        limits,
        machines,
        datasets,
        rates,
        tried,
        answers,
        details,
        claimed,
    )
}
