"""Build the explorer: one page with the tables of datasets, the charts, declared in Vega-Altair,
and the scripts that draw them.

It needs no network and may make no request. Its look and its controls are in `explorer.html` beside
this module.
"""

import base64
import gzip
import html
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import altair as alt
import numpy as np
import pandas as pd
import vl_convert

from ladder.core.errors import InputError
from ladder.core.files import MEND
from ladder.core.types import rate_unit
from ladder.figures.data import BASELINE_NAME, CONTEXT, MARKS, REFERENCE
from ladder.model.baselines import BASELINES, is_baseline

TEMPLATE = Path(__file__).with_suffix(".html")
LIMIT_BYTES = 5_000_000
"""The most bytes of a page. A page that would be larger is made without the samples, and says
so.
"""
DIGITS = 5
"""Significant digits of displayed numbers."""
SHAPES = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
"""Vega's marker shapes, which distinguish kernels besides color."""
HUES = ("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#7a4a1e", "#56b4e9", "#882255")
"""The colors of rungs, in hues that color-blind readers can distinguish."""

BEST = [
    "kernel",
    "configuration",
    "element_type",
    "problem",
    "m",
    "n",
    "k",
    "state",
    "status",
    "reason",
    "tflops",
    "tflops_low",
    "tflops_high",
    "ratio",
    "ratio_low",
    "ratio_high",
    "median_us",
    "low_us",
    "high_us",
    "energy_j",
    "energy_low_j",
    "energy_high_j",
    "energy_processes",
    "samples",
    "processes",
    "interval",
    "marks",
    "configurations",
    "tied_with",
    "tensor_cores",
    "sm_clock_mhz",
]
"""The columns of `best.csv` that the page has."""
RESOURCES = ["registers", "spill_stores", "spill_loads", "occupancy", "occupancy_limit"]
"""What a configuration needs of the machine: columns of `resources.csv` and `models.csv`."""
SWEEP = [
    "kernel",
    "configuration",
    "element_type",
    "problem",
    "state",
    "status",
    "stop",
    "samples",
    "tflops",
]
"""The columns of `summary.csv` that the page has."""


Scale = Literal["linear", "log"]
Chart = alt.LayerChart | alt.FacetChart


def _short(value: Any) -> Any:
    """Return a value for JSON, with numbers rounded to `DIGITS`."""
    if isinstance(value, float | np.floating):
        if not math.isfinite(value):
            return None
        number = float(value)
        return (
            int(number)
            if number == int(number) and abs(number) < 1e9
            else float(f"{number:.{DIGITS}g}")
        )
    return value.item() if isinstance(value, np.generic) else value


def _columns(table: pd.DataFrame) -> dict[str, list[Any]]:
    """Return a table by columns. A column with few different texts becomes a list of texts and
    indices into it, which is smaller.
    """
    columns: dict[str, Any] = {}
    for name in table.columns:
        values = [None if pd.isna(value) else _short(value) for value in table[name].tolist()]
        texts = list(dict.fromkeys(values))
        if len(texts) < len(values) / 2 and any(isinstance(text, str) for text in texts):
            places = {text: place for place, text in enumerate(texts)}
            columns[name] = {"texts": texts, "places": [places[value] for value in values]}
        else:
            columns[name] = values
    return columns


def _with_resources(tables: Mapping[str, pd.DataFrame], rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of a table with the columns of `RESOURCES`, empty if unknown."""
    key = ["kernel", "configuration", "element_type"]
    compiled = (
        tables["resources"]
        .reindex(columns=[*key, "registers", "spill_stores", "spill_loads"])
        .drop_duplicates(key)
    )
    models = tables["models"].astype({"problem": str})[
        [*key, "problem", "occupancy", "occupancy_limit"]
    ]
    joined = rows.astype({"problem": str}).merge(compiled, on=key, how="left")
    return joined.merge(models.drop_duplicates([*key, "problem"]), on=[*key, "problem"], how="left")


def _about(environment: Mapping[str, Any]) -> dict[str, str]:
    """Return what a dataset was measured on, and with what, as text."""
    attributes, fingerprint = environment["attributes"], environment["fingerprint"]
    limit, commit = attributes.get("power_limit_w"), environment["project"]["commit"]
    facts = {
        "device": environment["name"],
        "driver": fingerprint.get("driver"),
        "library": attributes.get("library"),
        "compiler": fingerprint.get("compiler"),
        "power limit": f"{limit:.0f} W" if limit else None,
        "commit": f"{commit[:12]}{' with changes' if environment['project']['dirty'] else ''}"
        if commit
        else None,
        "measured": environment["time"][:10],
    }
    return {name: str(value) for name, value in facts.items() if value}


def dataset(
    name: str,
    tables: Mapping[str, pd.DataFrame],
    environment: Mapping[str, Any],
    samples: bool = True,
) -> dict[str, Any]:
    """Return what the page has of a dataset, from its tables `INDEXED`. Rates are in TFLOP/s, times
    in microseconds, energies in joules.
    """
    best = _with_resources(tables, tables["best"].reindex(columns=BEST))
    sweep = _with_resources(tables, tables["summary"].reindex(columns=SWEEP))
    rounds = tables["rounds"].astype({"problem": str}) if samples else tables["rounds"].head(0)
    unit, size = rate_unit(environment["kind"])
    series = [
        {
            **dict(zip(("kernel", "element_type", "problem", "state"), key, strict=True)),
            "process": rows["process"].tolist(),
            "time_us": [_short(value) for value in rows["time_us"].tolist()],
        }
        for key, rows in rounds.groupby(["kernel", "element_type", "problem", "state"], sort=False)
    ]
    return {
        "name": name,
        "kind": environment["kind"],
        "about": _about(environment),
        "unit": unit,
        "size": size,
        "peak": _short(environment["peaks"]["fp32_tflops"]),
        "reference": BASELINE_NAME.get(
            reference := str(tables["summary"]["reference"].iloc[0]), reference
        ),
        "best": _columns(best),
        "sweep": _columns(sweep[sweep["state"] == sweep["state"].iloc[0]]),
        "samples": series,
    }


def looks(
    tables: Sequence[Mapping[str, pd.DataFrame]], environments: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the look of kernels and baselines by name, rungs first.

    It has a color, a marker, whether it is a rung, and whether its line is dashed, because it is
    there for context only. Eight rungs in a row have different colors, and no two kernels have both
    in common. Each kind of device has its own ladder.
    """
    styles: dict[str, dict[str, Any]] = {}
    for kind in dict.fromkeys(environment["kind"] for environment in environments):
        of_kind = [
            table["best"]
            for table, environment in zip(tables, environments, strict=True)
            if environment["kind"] == kind
        ]
        rows = pd.concat(
            [best[["kernel", "precision"]].astype(object) for best in of_kind]
        ).drop_duplicates("kernel")
        easier = {
            str(row["kernel"]) for row in rows.to_dict("records") if pd.notna(row["precision"])
        }
        names = sorted(
            map(str, rows["kernel"]), key=lambda name: (is_baseline(name), name in easier, name)
        )
        rungs = [name for name in names if not is_baseline(name) and name not in easier]
        for place, name in enumerate(name for name in names if name not in styles):
            is_reference = name == BASELINES[kind][0]
            nice = BASELINE_NAME.get(name, name.replace("_", " "))
            styles[name] = {
                "nice": nice,
                "colour": HUES[rungs.index(name) % len(HUES)]
                if name in rungs
                else REFERENCE
                if is_reference
                else CONTEXT,
                "shape": SHAPES[(place + place // len(HUES)) % len(SHAPES)],
                "dashed": name not in rungs and not is_reference,
                "rung": name in rungs,
            }
    return styles


def _parameter(name: str, value: Any) -> Any:
    """Return a parameter that the page sets before it draws."""
    return alt.param(name=name, value=value)


LABELS: dict[Scale, str] = {
    "linear": "format(datum.value, ',.4~r')",
    "log": "indexof([1, 2, 5], round(datum.value / pow(10, floor(log(datum.value) / LN10 + "
    "1e-9)))) < 0 ? '' : format(datum.value, ',.4~r')",
}
"""The scales of charts against size, and their labels as Vega expressions."""


def against_size(scale: Scale, squares: bool) -> Chart:
    """Return a chart of `value` of `rows` against size, with its interval from `low` to `high`.

    Squares whose rows are aligned have a line per kernel, all others have dots.
    A row has a `colour`, a `shape`, a `tooltip` and a `label` for screen readers. `lines` are
    levels to compare with.
    """
    chosen = "datum.kernel === chosen_kernel && datum.problem === chosen_problem"
    over = alt.selection_point(name="over", on="pointerover", clear="pointerout", fields=["kernel"])
    rows = alt.Chart(alt.NamedData("rows"))
    if squares:
        axis = alt.Axis(values=alt.ExprRef("sizes"), labelOverlap=True, format="d")
        rows = rows.encode(
            x=alt.X(
                "m:Q",
                title="M = N = K",
                scale=alt.Scale(type="log", base=2, nice=False, padding=12),
                axis=axis,
            )
        )
    else:
        rows = rows.encode(
            x=alt.X("problem:N", title="M × N × K", sort=None, axis=alt.Axis(labelAngle=-40)),
            xOffset=alt.XOffset("kernel:N", sort=None),
        )
    bounds = alt.Scale(type=scale, domain=[alt.ExprRef("y_low"), alt.ExprRef("y_high")], nice=False)
    numbers = alt.Axis(labelExpr=LABELS[scale], labelOverlap=True, tickCount=6)
    y = alt.Y("value:Q", title=None, scale=bounds, axis=numbers)
    colour = alt.Color("colour:N", scale=None)
    rows = rows.encode(
        y=y, color=colour, opacity=alt.condition(over, alt.value(1), alt.value(0.25))
    )
    levels = alt.Chart(alt.NamedData("lines")).encode(y=alt.Y("value:Q", title=None, scale=bounds))
    layers = [
        levels.mark_rule(color="#b22222", strokeDash=[2, 3]),
        levels.mark_text(align="left", baseline="bottom", dx=4, color="#b22222").encode(
            text="label:N", x=alt.value(0)
        ),
        rows.mark_rule(strokeWidth=3, opacity=0.5, clip=True, aria=False).encode(
            y=alt.Y("low:Q", title=None, scale=bounds), y2="high:Q"
        ),
    ]
    if squares:
        dash = alt.condition("datum.dashed", alt.value([5, 4]), alt.value([1, 0]))
        # else a line would seem to fall from one size to the next
        aligned = rows.transform_filter("datum.aligned")
        layers.append(
            aligned.mark_line(strokeWidth=1.5, clip=True, aria=False).encode(
                strokeDash=dash, detail="kernel:N"
            )
        )
    ring = rows.transform_filter(chosen).mark_point(
        filled=False, size=260, strokeWidth=2, clip=True, aria=False
    )
    layers += [
        rows.mark_point(
            filled=True, size=70, strokeWidth=1, cursor="pointer", stroke="white", clip=True
        )
        .encode(
            shape=alt.Shape("shape:N", scale=None),
            tooltip=alt.TooltipValue(alt.ExprRef("datum.tooltip")),
            description="label:N",
        )
        .add_params(over),
        ring.encode(color=alt.value("#000000"), opacity=alt.value(1)),
    ]
    given = {"y_low": 1, "y_high": 2, "sizes": [1], "chosen_kernel": "", "chosen_problem": ""}
    return (
        alt.layer(*layers)
        .add_params(*(_parameter(*it) for it in given.items()))
        .properties(width="container", height=360)
    )


def landscape() -> Chart:
    """Return a chart of the sweep of a kernel: `cells` with configurations (`setting`) down and
    problems across.

    The color is the share of the problem's best.
    """
    cells = alt.Chart(alt.NamedData("cells")).encode(
        x=alt.X("problem:N", sort=None, title="problem", axis=alt.Axis(labelAngle=-40)),
        y=alt.Y("setting:N", sort=None, title=None, axis=alt.Axis(labelLimit=170)),
    )
    share = alt.Color(
        "share:Q",
        scale=alt.Scale(scheme="cividis", domain=[50, 100], clamp=True),
        legend=alt.Legend(title="% of the best", orient="top"),
    )
    fill = alt.condition("isValid(datum.share)", share, alt.value("#e6e6e6"))
    tooltip = alt.TooltipValue(alt.ExprRef("datum.tooltip"))
    letter = alt.condition("datum.share > 80", alt.value("#000000"), alt.value("#ffffff"))
    return alt.layer(
        cells.mark_rect(stroke="white", cursor="pointer").encode(
            color=fill, tooltip=tooltip, description="label:N"
        ),
        cells.transform_filter("datum.sign")
        .mark_text(fontSize=11, aria=False)
        .encode(text="sign:N", color=letter, tooltip=tooltip),
        cells.transform_filter("datum.best").mark_rect(
            filled=False, stroke="#d55e00", strokeWidth=2, aria=False
        ),
    ).properties(width="container", height=alt.Step(18))


def distribution() -> Chart:
    """Return a chart of the `samples` of a value: a dot each, a row per process; the tick is the
    median of the process.
    """
    samples = alt.Chart(alt.NamedData("samples")).encode(
        x=alt.X("time_us:Q", title="µs", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5)),
        y=alt.Y("process:N", title=None),
    )
    tooltip = [
        alt.Tooltip("process:N"),
        alt.Tooltip("round:Q"),
        alt.Tooltip("time_us:Q", title="µs", format=".5~g"),
    ]
    return alt.layer(
        samples.mark_circle(size=40, opacity=0.45, color="#31688e").encode(
            tooltip=tooltip, description="label:N"
        ),
        samples.mark_tick(color="#d55e00", thickness=3, size=22, aria=False).encode(
            x=alt.X("median(time_us):Q", title="µs")
        ),
    ).properties(width="container", height=alt.Step(30))


def charts() -> dict[str, Any]:
    """Return the specifications of all charts by name, without data."""
    views = {
        f"{shape}-{scale}": against_size(scale, shape == "squares")
        for scale in LABELS
        for shape in ("squares", "others")
    }
    every = views | {"landscape": landscape(), "distribution": distribution()}
    return {
        name: chart.configure(font="system-ui, sans-serif")
        .configure_axis(labelFontSize=12, titleFontSize=12)
        .configure_view(stroke=None)
        .to_dict()
        for name, chart in every.items()
    }


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


def page(
    title: str,
    datasets: Mapping[str, tuple[Mapping[str, pd.DataFrame], Mapping[str, Any]]],
    claims: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the page of datasets, GPUs first. Each is given by its name, its tables (`INDEXED`)
    and its environment.
    """
    datasets = dict(sorted(datasets.items(), key=lambda item: item[1][1]["kind"] != "cuda"))
    tables, environments = ([pair[part] for pair in datasets.values()] for part in (0, 1))
    given = {
        "looks": looks(tables, environments),
        "marks": {mark: words for mark, (_, _, words) in MARKS.items()},
        "charts": charts(),
        "claims": list(claims),
    }
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace(
        "</script", "<\\/script"
    )
    for samples in (True, False):
        shown = [dataset(name, *pair, samples) for name, pair in datasets.items()]
        text = json.dumps(
            given | {"datasets": shown, "sampled": samples}, separators=(",", ":"), allow_nan=False
        )
        packed = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
        filled = (
            TEMPLATE.read_text()
            .replace("{{title}}", html.escape(title))
            .replace("{{data}}", packed)
            .replace("{{vega}}", script)
        )
        if len(filled.encode()) < LIMIT_BYTES:
            break
    return filled
