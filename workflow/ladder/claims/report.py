"""Report the states of claims as text for a terminal and as a page."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment

from ladder.claims.definitions import NOTHING
from ladder.claims.judge import CLAIMED, ELSEWHERE, FAILED, REPRODUCED, UNSURE, Entry, claim_of
from ladder.core import verdicts
from ladder.core.files import read_json, write_whole
from ladder.core.verdicts import AGAIN
from ladder.storage.dataset_layout import contents, files

STATES = (FAILED, AGAIN, REPRODUCED, UNSURE, CLAIMED, NOTHING, ELSEWHERE)
"""The states of claims, the gravest first."""
KINDS = {FAILED: "failed", NOTHING: "missing", ELSEWHERE: "missing"}
"""How the rows of states look on the page."""
NAMED = 5
"""The most rows that are named where a claim is refuted."""


def grouped(entries: Iterable[Entry], name: Callable[[Entry], str]) -> dict[str, list[Entry]]:
    """Return the entries by name."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(name(entry), []).append(entry)
    return groups


def whose(entry: Entry) -> str:
    """Return the dataset of a campaign, `results/campaign/device`; "" for published data."""
    dataset = str(entry["dataset"])
    return dataset if dataset.startswith("results/") else ""


def states(entries: Sequence[Entry], always: Sequence[str] = ()) -> str:
    """Return the states of entries as text, those `always` named first, then the gravest:
    `reproduced`, or `2 not reproduced, 30 reproduced`.
    """
    counted = Counter(entry["state"] for entry in entries)
    if len(entries) == 1 and not always:
        return str(entries[0]["state"])
    more = [state for state in STATES if counted[state] and state not in always]
    return ", ".join(f"{counted[state]} {state}" for state in [*always, *more])


def text(entries: Sequence[Entry]) -> str:
    """Return text for a terminal: a line per claim for the user's datasets, the published data in a
    line, and last the verdict.
    """
    datasets = grouped(entries, whose)
    others = datasets.pop("", [])
    own = [entry for dataset in datasets.values() for entry in dataset]
    lines, again = [], []
    for dataset, of_dataset in datasets.items():
        lines.append(f"{dataset}:")
        for id, of_claim in grouped(of_dataset, claim_of).items():
            lacks = dict.fromkeys(lack for entry in of_claim for lack in entry.get("lacks", ()))
            note = f" (this campaign has no {', '.join(lacks)})" if lacks else ""
            if blind := [entry["seen_from"] for entry in of_claim if entry["state"] == UNSURE]:
                note += f" (differences below {100 * (max(blind) - 1):.2g} % cannot be seen here)"
            lines.append(f"  {id}: {states(of_claim)}{note}")
        if (attempt := of_dataset[0].get("attempt", 1)) > 1:
            lines.append(f"  attempt {attempt}: results/attempts.json has what each gave")
        if still_open := left_open(of_dataset):
            marks = dict.fromkeys(mark for entry in still_open for mark in entry["marks"])
            again.append(
                f"Measure again: {len(still_open)} item(s) rest on rows marked {', '.join(marks)}, "
                f"which could have caused any result. Remove {dataset}, and run again while "
                "nothing else runs"
            )
    if others:
        lines.append(f"The published data, judged again: {states(others)}.")
    nothing = "nothing was measured here that they are about"
    lines.append(f"Claims: {states(own, (REPRODUCED, FAILED)) if own else nothing}")
    lines += [f"Not reproduced: {failure(entry)}" for entry in failed(entries)]
    return "\n".join([*lines, *again])


def count_attempts(entries: Sequence[dict[str, Any]], path: Path) -> list[dict[str, Any]]:
    """Return entries, those of a user's dataset with their `attempt`: how many measurements of it
    were judged so far, this one included. The file at `path` has what each of them gave.
    """
    judged: dict[str, dict[str, str]] = read_json(path) if path.exists() else {}
    number = {}
    for dataset, of_dataset in grouped(entries, whose).items():
        if dataset:
            attempts = judged.setdefault(dataset, {})
            attempts.setdefault(contents(files(Path(dataset))), states(of_dataset))
            number[dataset] = len(attempts)
    if judged:
        write_whole(path, (json.dumps(judged, indent=1) + "\n").encode())
    return [
        entry | ({"attempt": number[whose(entry)]} if whose(entry) else {}) for entry in entries
    ]


def failed(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that were not reproduced, without the published data's own, which
    docs/claims.md counts.
    """
    return [entry for entry in entries if entry["state"] == FAILED and not entry.get("known")]


def left_open(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries that a busy machine keeps open."""
    return [entry for entry in entries if entry["state"] == AGAIN]


def value(entry: Entry) -> str:
    """Return the value of an entry with half the width of its interval; "" if it has none."""
    numbers = [entry[name] for name in ("value", "low", "high")]
    return "" if numbers[0] is None else verdicts.plus_minus(*numbers)


def failure(entry: Entry) -> str:
    """Return an entry as sentences: the claim, the numbers, and the rows that refute it."""
    words = f"{entry['says']} Here {value(entry)}"
    if entry["published"] is not None:
        words += f", published {entry['published']:.4g}"
    if entry["limit"]:
        words += f", runs differ by at most ×{entry['limit']:.4g}"
    rows = [f"  {row}" for row in entry.get("rows", ())]
    if len(rows) > NAMED:
        rows[NAMED:] = [f"  and {len(rows) - NAMED} more"]
    return "\n".join([f"{words}. {entry['id']}, {entry['dataset']}", *rows])


def page(entries: Sequence[Entry]) -> str:
    """Return the entries as a self-contained HTML page, the gravest first: the user's datasets,
    then, folded, the published data.
    """
    gravest = sorted(entries, key=lambda entry: STATES.index(entry["state"]))
    own = list(filter(whose, gravest))
    others = [entry for entry in gravest if not whose(entry)]
    template = Path(__file__).with_suffix(".html").read_text()
    names = {"states": states, "value": value, "kinds": KINDS, "own": own, "others": others}
    return Environment(autoescape=True).from_string(template).render(names)
