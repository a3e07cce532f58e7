"""Report the states of claims as counts, as text for a terminal, and as a page."""

import html
from collections import Counter
from collections.abc import Mapping, Sequence

from ladder.claims.judge import DISPUTED, ELSEWHERE, FAILED, REPRODUCED, UNSURE, Entry
from ladder.claims.study import NOTHING

STATES = (FAILED, REPRODUCED, UNSURE, DISPUTED, NOTHING, ELSEWHERE)
"""The states of claims, the gravest first."""


def counts(entries: Sequence[Entry]) -> dict[str, Counter[str]]:
    """Return the number of items in each state, by the claim's id."""
    by_claim: dict[str, Counter[str]] = {}
    for entry in entries:
        by_claim.setdefault(entry["id"].split(":")[0], Counter())[entry["state"]] += 1
    return by_claim


def states_text(counted: Mapping[str, int]) -> str:
    """Return the states of a claim as text, the gravest first: `reproduced`, or `2 not reproduced, 30 reproduced`."""
    states = [state for state in STATES if counted.get(state)]
    return states[0] if sum(counted.values()) == 1 else ", ".join(f"{counted[state]} {state}" for state in states)


def is_own(entry: Entry) -> bool:
    """Return whether an entry comes from a campaign's dataset, `results/campaign/device`, and not from published data."""
    return str(entry["dataset"]).startswith("results/")


def summary(entries: Sequence[Entry]) -> str:
    """Return how many entries are in each state, as text."""
    return states_text(Counter(entry["state"] for entry in entries))


def text(entries: Sequence[Entry]) -> str:
    """Return text for a terminal: a line per published dataset, a line per claim for the user's datasets, and every entry not reproduced."""
    lines = []
    for dataset in dict.fromkeys(entry["dataset"] for entry in sorted(entries, key=is_own)):
        of_it = [entry for entry in entries if entry["dataset"] == dataset]
        lines.append(f"{dataset or 'not published yet'}: {summary(of_it)}")
        lines += [f"  {id}: {states_text(counted)}" for id, counted in counts(of_it).items() if is_own(of_it[0])]
        lines += [f"  NOT REPRODUCED {failure(entry)}" for entry in of_it if entry["state"] == FAILED]
    return "\n".join(lines)


def failure(entry: Entry) -> str:
    """Return an entry as text: its name, sentence and numbers."""
    limit = f", runs differ by x{entry['limit']:.4g} at most" if entry["limit"] else ""
    published = f"; published {entry['published']:.4g}" if entry["published"] is not None else ""
    text = f"{entry['id']} ({entry['says']} Where: {entry['where']})"
    return f"{text}: {entry['value']:.4g} ({entry['low']:.4g} to {entry['high']:.4g}){published}{limit}"


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Reproduced?</title>
<style>body{{font:16px/1.4 sans-serif;margin:1em}}table{{border-collapse:collapse}}
td,th{{border:1px solid #bbb;padding:.2em .5em;text-align:left}}
div{{overflow-x:auto}}td.number{{text-align:right}}tr.failed td{{font-weight:bold;background:#fdd}}tr.missing td{{color:#666}}</style>
<h1>Reproduced?</h1>
<h2>Here: {own}</h2>
{own_table}
<details><summary>The published data themselves, and studies: {others}</summary>
{others_table}
</details></html>
"""
TABLE = """<div><table>
<thead><tr><th>claim<th>where<th>state<th>here<th>95 % interval<th>published<th>runs differ at most by<th>data</tr></thead>
<tbody>
{rows}
</tbody></table></div>"""


def page(entries: Sequence[Entry]) -> str:
    """Return the entries as a self-contained HTML page: first the user's datasets, then, folded, the published data."""
    own, others = ([entry for entry in entries if is_own(entry) is here] for here in (True, False))
    return PAGE.format(
        own=html.escape(summary(own) or "nothing measured"), own_table=_table(own), others=html.escape(summary(others)),
        others_table=_table(others),
    )  # fmt: skip


def _table(entries: Sequence[Entry]) -> str:
    """Return a table with a row per entry, the gravest first."""

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.4g}"

    rows = []
    for entry in sorted(entries, key=lambda entry: STATES.index(entry["state"])):
        interval = (
            "" if entry["low"] is None or entry["low"] == entry["high"] else f"{number(entry['low'])} to {number(entry['high'])}"
        )
        numbers = [
            number(entry["value"]),
            interval,
            number(entry["published"]),
            f"×{entry['limit']:.4g}" if entry["limit"] else "",
        ]
        words = [html.escape(str(entry[name] or "")) for name in ("says", "where", "state")]
        kind = "failed" if entry["state"] == FAILED else "missing" if entry["state"] in (NOTHING, ELSEWHERE) else "told"
        cells = [
            *(f"<td>{word}" for word in words),
            *(f'<td class="number">{it}' for it in numbers),
            f"<td>{html.escape(entry['dataset'] or '')}",
        ]
        rows.append(f'<tr class="{kind}">{"".join(cells)}</tr>')
    return TABLE.format(rows="\n".join(rows))
