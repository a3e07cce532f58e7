"""Build the explorer: one page with a chart, a sortable table and the origin of each dataset.

It needs no network and may make no request. The charts are drawn from the tables, by the
Vega-Lite specification in `explorer.html` beside this module, which also has the look.
"""

import html
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import vl_convert

from ladder.core.errors import InputError
from ladder.core.files import MEND
from ladder.core.types import rate_unit

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


def _table(rows: pd.DataFrame) -> str:
    """Return rows as HTML, without the columns that have no value, and numbers with five digits."""
    with pd.option_context("display.max_colwidth", None):
        text = rows.dropna(axis="columns", how="all").to_html(
            index=False,
            border=0,
            na_rep="",
            float_format=lambda number: f"{number:.5g}" if abs(number) < 1e5 else f"{number:.0f}",
        )
    return re.sub(r">\n *<", "><", text)


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


def _section(title: str, about: str, table: str, kind: str) -> str:
    """Return a part of the page that can be folded."""
    return (
        f'<details class="{kind}"><summary>{html.escape(title)}</summary>'
        f'<p>{html.escape(about)}</p><div class="chart"></div>'
        f'<button class="copy">copy as text</button><div class="scroll">{table}</div></details>\n'
    )


def dataset(name: str, best: pd.DataFrame, environment: Mapping[str, Any]) -> str:
    """Return the part of the page about a dataset, from its table `best`."""
    _, tflops = rate_unit(environment["kind"])
    rows = best.reindex(columns=list(COLUMNS)).rename(columns=COLUMNS)
    rates = ["rate", "rate low", "rate high"]
    rows[rates] = rows[rates] / tflops
    about = _about(environment, str(best["reference"].iloc[0]))
    return _section(name, about, _table(rows), "dataset")


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
    datasets: Mapping[str, tuple[pd.DataFrame, Mapping[str, Any]]],
    claims: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the page of datasets, GPUs first. Each is given by its name, its table `best` and its
    environment.
    """
    gpus_first = sorted(datasets.items(), key=lambda item: item[1][1]["kind"] != "cuda")
    sections = [dataset(name, *given) for name, given in gpus_first]
    if claims:
        states = Counter(claim["state"] for claim in claims)
        about = ", ".join(f"{count} {state}" for state, count in states.items())
        rows = pd.DataFrame(claims).reindex(columns=CLAIM)
        sections.append(_section("Claims", f"{about}.", _table(rows), "claims"))
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return (
        TEMPLATE.read_text()
        .replace("{{title}}", html.escape(title))
        .replace("{{sections}}", "".join(sections))
        .replace("{{vega}}", script.replace("</script", "<\\/script"))
    )
