"""Report the states of claims as counts, as text for a terminal, and as a page."""

import html
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ladder.claims.definitions import NOTHING
from ladder.claims.judge import CLAIMED, ELSEWHERE, FAILED, REPRODUCED, UNSURE, Entry
from ladder.core import verdicts
from ladder.core.verdicts import AGAIN

STATES = (FAILED, AGAIN, REPRODUCED, UNSURE, CLAIMED, NOTHING, ELSEWHERE)
"""The states of claims, the gravest first."""
NAMED = 5
"""The most rows that are named where a claim is refuted."""


def counts(entries: Sequence[Entry]) -> dict[str, Counter[str]]:
    """Return the number of items in each state, by the claim's id."""
    by_claim: dict[str, Counter[str]] = {}
    for entry in entries:
        by_claim.setdefault(entry["id"].split(":")[0], Counter())[entry["state"]] += 1
    return by_claim


def states_text(counted: Mapping[str, int]) -> str:
    """Return the states of a claim as text, the gravest first: `reproduced`, or `2 not reproduced,
    30 reproduced`.
    """
    states = [state for state in STATES if counted.get(state)]
    return (
        states[0]
        if sum(counted.values()) == 1
        else ", ".join(f"{counted[state]} {state}" for state in states)
    )


def is_own(entry: Entry) -> bool:
    """Return whether an entry comes from a campaign's dataset, `results/campaign/device`, and not
    from published data.
    """
    return str(entry["dataset"]).startswith("results/")


def summary(entries: Sequence[Entry]) -> str:
    """Return how many entries are in each state, as text."""
    return states_text(Counter(entry["state"] for entry in entries))


def text(entries: Sequence[Entry]) -> str:
    """Return text for a terminal: a line per claim for the user's datasets, the published data in a
    line, and last the verdict.
    """
    own, others = ([entry for entry in entries if is_own(entry) is here] for here in (True, False))
    lines = []
    for dataset in dict.fromkeys(entry["dataset"] for entry in own):
        of_it = [entry for entry in own if entry["dataset"] == dataset]
        lines.append(f"{dataset}:")
        lines += [
            f"  {id}: {states_text(counted)}{_lacking(of_it, id)}"
            for id, counted in counts(of_it).items()
        ]
    if others:
        lines.append(f"The published data, judged again: {summary(others)}.")
    lines += [verdict(own), *(f"Not reproduced: {failure(entry)}" for entry in failed(entries))]
    for dataset in dict.fromkeys(entry["dataset"] for entry in left_open(own)):
        of_it = left_open(entry for entry in own if entry["dataset"] == dataset)
        marks = ", ".join(dict.fromkeys(mark for entry in of_it for mark in entry["marks"]))
        lines.append(
            f"Measure again: {len(of_it)} item(s) rest on rows marked {marks}, which could have "
            f"caused any result. Remove {dataset}, and "
            "run again while nothing else runs"
        )
    return "\n".join(lines)


def failed(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that were not reproduced, without the published data's own, which
    docs/claims.md counts.
    """
    return [entry for entry in entries if entry["state"] == FAILED and not entry.get("known")]


def left_open(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries that a busy machine keeps open."""
    return [entry for entry in entries if entry["state"] == AGAIN]


def verdict(own: Sequence[Entry]) -> str:
    """Return a line with the number of the user's entries in each state."""
    if not own:
        return "Claims: nothing was measured here that they are about"
    counted = Counter(entry["state"] for entry in own)
    always = [f"{counted.pop(state, 0)} {state}" for state in (REPRODUCED, FAILED)]
    return (
        "Claims: "
        f"{', '.join([*always, *(f'{counted[state]} {state}' for state in STATES if counted[state])])}"
    )


def _lacking(entries: Sequence[Entry], id: str) -> str:
    """Return what a dataset lacks for the items of a claim that were not measured, in parentheses;
    "" if that is unknown.
    """
    lacks: dict[str, list[str]] = {}
    for entry in entries:
        for name, value in (
            entry.get("lacks", {}).items() if entry["id"].split(":")[0] == id else ()
        ):
            lacks.setdefault(name, []).append(value)
    parts = [f"no {name} {', '.join(dict.fromkeys(values))}" for name, values in lacks.items()]
    return f" (this campaign has {'; '.join(parts)})" if parts else ""


def failure(entry: Entry) -> str:
    """Return an entry as sentences: the claim, the numbers, and the rows that refute it."""
    apart = entry["low"] != entry["high"]
    interval = (
        f" (95 % interval {verdicts.interval('.4g', entry['value'], entry['low'], entry['high'])})"
        if apart
        else ""
    )
    limit = f", runs differ by at most ×{entry['limit']:.4g}" if entry["limit"] else ""
    published = f", published {entry['published']:.4g}" if entry["published"] is not None else ""
    rows = entry.get("rows", [])
    more = [f"  and {len(rows) - NAMED} more"] if len(rows) > NAMED else []
    text = (
        f"{entry['says']} Here {entry['value']:.4g}{interval}{published}{limit}. {entry['id']}, "
        f"{entry['dataset']}"
    )
    return "\n".join([text, *(f"  {row}" for row in rows[:NAMED]), *more])


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Reproduced?</title>
<style>body{{font:16px/1.4 sans-serif;margin:1em}}table{{border-collapse:collapse}}
td,th{{border:1px solid #bbb;padding:.2em .5em;text-align:left}}
div{{overflow-x:auto}}td.number{{text-align:right}}tr.failed td{{font-weight:bold;background:#fdd}}tr.missing td{{color:#666}}</style>
<h1>Reproduced?</h1>
<h2>Here: {own}</h2>
{own_table}
<details><summary>The published data themselves: {others}</summary>
{others_table}
</details></html>
"""
TABLE = """<div><table>
<thead><tr><th>claim<th>where<th>state<th>here<th>95 % interval<th>published<th>runs differ at most by<th>data</tr></thead>
<tbody>
{rows}
</tbody></table></div>"""


def page(entries: Sequence[Entry]) -> str:
    """Return the entries as a self-contained HTML page: first the user's datasets, then, folded,
    the published data.
    """
    own, others = ([entry for entry in entries if is_own(entry) is here] for here in (True, False))
    return PAGE.format(
        own=html.escape(summary(own) or "nothing measured"),
        own_table=_table(own),
        others=html.escape(summary(others)),
        others_table=_table(others),
    )


def _table(entries: Sequence[Entry]) -> str:
    """Return a table with a row per entry, the gravest first."""

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.4g}"

    rows = []
    for entry in sorted(entries, key=lambda entry: STATES.index(entry["state"])):
        ends = [entry[name] for name in ("value", "low", "high")]
        interval = (
            ""
            if entry["low"] is None or entry["low"] == entry["high"]
            else verdicts.interval(".4g", *ends)
        )
        numbers = [
            number(entry["value"]),
            interval,
            number(entry["published"]),
            f"×{entry['limit']:.4g}" if entry["limit"] else "",
        ]
        words = [html.escape(str(entry[name] or "")) for name in ("says", "where", "state")]
        kind = (
            "failed"
            if entry["state"] == FAILED
            else "missing"
            if entry["state"] in (NOTHING, ELSEWHERE)
            else "told"
        )
        cells = [
            *(f"<td>{word}" for word in words),
            *(f'<td class="number">{it}' for it in numbers),
            f"<td>{html.escape(entry['dataset'] or '')}",
        ]
        rows.append(f'<tr class="{kind}">{"".join(cells)}</tr>')
    return TABLE.format(rows="\n".join(rows))
