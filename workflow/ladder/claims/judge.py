"""Compare data with the claims: one entry per item of a claim, with its state and numbers.

Published data determine the exact numbers of each claim: `results/published/claims.json`, which
`python -m book` writes. Other data are compared with this file.
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from ladder.analysis.repeatability import Limit, limits
from ladder.claims.definitions import NOTHING, Claim, Key, read
from ladder.claims.evidence import Data, Finding, find, lacking, of_samples, over_machines
from ladder.core.expressions import evaluate
from ladder.core.files import read_json, write_whole
from ladder.core.stats import CONFIDENCE, half_of_difference
from ladder.core.verdicts import AGAIN, BUSY
from ladder.model.baselines import is_baseline
from ladder.pipeline.published import Published
from ladder.storage.dataset_layout import JUDGED, PUBLISHED, read_environment
from ladder.storage.published_index import runs

REPRODUCED, FAILED, UNSURE, ELSEWHERE = (
    "reproduced",
    "not reproduced",
    "not distinguishable",
    "not applicable here",
)
"""The states of an item. If the data lack the item, the state is `NOTHING`; if a busy machine keeps
it open, `AGAIN`.
"""
CLAIMED = "claimed"
"""The state of an item in the published data that fix what is claimed of it: others are judged by
them.
"""

MEAN = "mean over machines"
"""The name of the data that fix a claim to be near something."""
Entry = Mapping[str, Any]
"""The result of comparing data with a claim or an item of it: a row of `claims.json`."""


def judge(
    claim: Claim, finding: Finding, published: Finding | None, limit: Limit | None, count: int
) -> str:
    """Return the state of an item of a claim with `count` items.

    It is `REPRODUCED` if `holds` is true at 95 %. It is `FAILED` if `fails`, or else the negation
    of `holds`, is true with wider intervals and limits, so that at most one case in twenty wrongly
    fails any of the `count` items (Bonferroni's inequality). Otherwise it is `UNSURE`.
    """

    def true(expression: str, confidence: float) -> bool:
        apart = limit.at(confidence) if limit else 0.0
        names = {**finding.names, "value": finding.value, "low": finding.low, "high": finding.high}
        spread = max(finding.half(confidence), apart)
        if finding.low > 0 and spread:
            names |= {
                "low": finding.value * math.exp(-spread),
                "high": finding.value * math.exp(spread),
            }
        if published:
            near = max(half_of_difference(finding.spread, published.spread, confidence), apart)
            names |= {
                "published": published.value,
                "near_low": published.value * math.exp(-near),
                "near_high": published.value * math.exp(near),
            }
        return bool(evaluate(expression, names))

    if true(claim.holds, CONFIDENCE):
        return REPRODUCED
    if claim.near and limit is None:  # another run may have any value
        return UNSURE
    wide = 1 - (1 - CONFIDENCE) / count
    return (
        FAILED
        if (true(claim.fails, wide) if claim.fails else not true(claim.holds, wide))
        else UNSURE
    )


def stands(claim: Claim, state: str, marks: Collection[str], usual: Collection[str]) -> bool:
    """Return whether the state of an item stands, although its rows have these marks; `usual` are
    those of the published rows.

    What a mark could have caused does not stand:

    - `unsteady`: any state. No ratio there is a result.
    - `disturbed`: any state except a sign that is seen all the same. Other processes widen the
      interval, and wide intervals are near to
      anything.
    - `throttled`: that a number of a device model is not reproduced, unless published rows were
      throttled as well. A sign is claimed at any
      clock, and some devices are throttled whatever else runs.

    A claim about how many rows there are can only be refuted by them, so their marks leave open
    only that.
    """
    if claim.whole:
        return state != FAILED or not set(marks) & set(BUSY)
    if "unsteady" in marks:
        return False
    if "disturbed" in marks:
        return state == REPRODUCED and not claim.near
    return state != FAILED or not claim.near or "throttled" not in marks or "throttled" in usual


def say(claim: Claim, finding: Finding | None) -> str:
    """Return the claim's sentence with the measured numbers; `{value%}` is in percent.

    Without a finding, the parentheses are left out, and any other number is "…".
    """
    if finding is None:
        return re.sub(r"\{\w+%?\}", "…", re.sub(r" \([^()]*\{[^()]*\)", "", claim.says))
    names = {"value": finding.value, "low": finding.low, "high": finding.high}

    def number(match: re.Match[str]) -> str:
        value = names[match[1]]
        text = f"{100 * value if match[2] else value:.4g}"
        return f"{text} %" if match[2] else text

    text = re.sub(r"\{(value|low|high)(%?)\}", number, claim.says)
    return f"{text.rstrip('.')}: {finding.about}." if finding.about else text


def _entry(
    claim: Claim,
    dataset: str | None,
    state: str,
    finding: Finding | None = None,
    origin: Entry | None = None,
) -> dict[str, Any]:
    """Return the entry for an item of a claim. `origin` is the entry of the published data that the
    item is compared with.
    """

    def rounded(value: float | None) -> float | None:
        return None if value is None else float(f"{value:.6g}")

    whose = (
        []
        if finding is None or claim.whole or claim.single
        else [part for part in finding.key if part not in claim.rows.values()]
    )
    return {
        "id": origin["id"] if origin else ":".join([claim.id, *whose]),
        "says": origin["says"] if origin else say(claim, finding),
        "where": origin["where"] if origin else claim.place,
        "state": state,
        "value": rounded(finding.value if finding else None),
        "low": rounded(finding.low if finding else None),
        "high": rounded(finding.high if finding else None),
        "processes": finding.processes if finding else None,
        "machines": finding.machines if finding else None,
        "published": origin["value"] if origin else None,
        "limit": None,
        "dataset": dataset,
        "key": list(finding.key) if finding else origin["key"] if origin else [],
    } | ({"marks": list(finding.marks)} if finding and finding.marks else {})


def _entries(
    claim: Claim,
    data: Data,
    origins: Mapping[Key, Entry],
    environments: Mapping[str, Mapping[str, Any]],
    root: Path,
    near: int,
) -> list[dict[str, Any]]:
    """Return the entries of a claim for data, compared with entries of published data.

    `environments` are those of the published datasets, by name. `near` is the number of items of
    all claims to be near to something; they may all deviate together if one machine is unlike the
    others.
    """
    if not claim.applies(data.environment):
        known = next(iter(origins.values()), None) if claim.single else None
        return [_entry(claim, data.name, ELSEWHERE) | ({"says": known["says"]} if known else {})]
    findings = {finding.key: finding for finding in find(claim, data)}
    if not origins and not claim.relative:
        judged = [(judge(claim, it, None, None, len(findings)), it) for it in findings.values()]
        judged = [
            (state if stands(claim, state, it.marks, ()) else AGAIN, it) for state, it in judged
        ]
        return [
            _entry(claim, data.name, state, it) | _refuting(state, it) for state, it in judged
        ] or [_entry(claim, data.name, NOTHING)]
    known = {
        name: limits(root / PUBLISHED, data.environment, environments[name])
        for name in {origin["dataset"] for origin in origins.values() if not claim.near}
    }
    entries = []
    for key, origin in origins.items():
        if key not in findings:
            entries.append(
                _entry(claim, data.name, NOTHING, origin=origin)
                | {"lacks": lacking(claim, data, key)}
            )
            continue
        numbers = {name: origin[name] for name in ("value", "low", "high", "processes", "machines")}
        published = Finding(key, "", names={}, **numbers)
        limit = (
            published.prediction
            if claim.near
            else known[origin["dataset"]].get(findings[key].limit_of)
        )
        state = judge(claim, findings[key], published, limit, near if claim.near else len(origins))
        state = (
            state if stands(claim, state, findings[key].marks, origin.get("marks", ())) else AGAIN
        )
        factor = None if limit is None else float(f"{math.exp(limit.half):.6g}")
        entry = _entry(claim, data.name, state, findings[key], origin) | {"limit": factor}
        entries.append(entry | _refuting(state, findings[key]))
    return entries or [_entry(claim, data.name, NOTHING)]


def _refuting(state: str, finding: Finding) -> dict[str, Any]:
    """Return the rows that refute a claim about how many there are, as a part of its entry."""
    return {"rows": list(finding.rows)} if state == FAILED and finding.rows else {}


def published_data(root: Path) -> list[Data]:
    """Return the published datasets, the earliest first."""
    datasets = [of_samples(folder, name) for name, folder in runs(root / PUBLISHED).items()]
    return sorted(datasets, key=lambda data: str(data.environment["time"]))


Findings = Mapping[Key, Sequence[tuple[Data, Finding]]]
"""What the published data have for each item of a claim, the earliest first."""


def of_published(root: Path, everything: Sequence[Data] = ()) -> list[dict[str, Any]]:
    """Return the entries of all claims for the published data, what is claimed of an item before
    the data that are judged by it.

    `everything` is what `published_data` returns, if the caller has read that.

    A claim with `when` is about the items for which `when` is true in the earliest dataset that has
    the item. Later datasets are judged by it, whatever they have. A claim to be near something is
    about the mean over machines; a dataset is judged by the mean over all other machines: what
    fails so is `known`, no failure of anybody else's data. In any other claim every dataset is
    judged. Rows of a busy machine claim nothing, and are not judged.
    """
    everything, claims = everything or published_data(root), read(root)
    environments = {data.name: data.environment for data in everything}
    findings: dict[str, dict[Key, list[tuple[Data, Finding]]]] = {}
    origins: dict[str, dict[Key, Entry]] = {}
    for claim in claims:
        things = findings.setdefault(claim.id, {})
        for data in (data for data in everything if claim.applies(data.environment)):
            for finding in find(claim, data):
                if not set(finding.marks) & set(BUSY):
                    things.setdefault(finding.key, []).append((data, finding))
        origins[claim.id] = _origins(claim, things)
    entries, near = [], _near(claims, origins)
    for claim in claims:
        fixed = claim.near or claim.when
        of_claim = [dict(origin) for origin in origins[claim.id].values() if fixed]
        for data in everything:
            known = _known_to(claim, data, origins[claim.id], findings[claim.id])
            judged = _entries(claim, data, known, environments, root, near) if known else []
            of_claim += [
                entry | {"known": True} if fixed and entry["state"] == FAILED else entry
                for entry in judged
            ]
        entries += [entry for entry in of_claim if entry["value"] is not None] or [
            _entry(claim, None, NOTHING)
        ]
    return entries


def _origins(claim: Claim, findings: Findings) -> dict[Key, Entry]:
    """Return what is claimed of each item, as entries."""
    own = {data.name: data for several in findings.values() for data, _ in several}
    origins: dict[Key, Entry] = {}
    for key, several in findings.items():
        data, first = several[0]
        if claim.near:
            data, first = replace(data, name=MEAN), over_machines(several)
        if _is_claimed(claim, first):
            origins[key] = _entry(claim, data.name, CLAIMED, first) | {
                "where": _where(claim, list(own.values()))
            }
    return origins


def _known_to(
    claim: Claim, data: Data, origins: Mapping[Key, Entry], findings: Findings
) -> dict[Key, Entry]:
    """Return what published data are judged by: of the items that they have, what was known without
    them.
    """
    known: dict[Key, Entry] = {}
    for key, origin in origins.items():
        names = [own.name for own, _ in findings[key]]
        if data.name not in names:
            continue
        if claim.near:
            others = [
                (own, finding) for own, finding in findings[key] if own.machine != data.machine
            ]
            if others:
                known[key] = _entry(claim, MEAN, CLAIMED, over_machines(others), origin)
        elif not claim.when or data.name != names[0]:
            known[key] = origin
    return known


def _is_claimed(claim: Claim, first: Finding) -> bool:
    """Return whether a claim is about an item, by the first of all findings."""
    names = {
        **first.names,
        "value": first.value,
        "low": first.low,
        "high": first.high,
        "published": first.value,
    }
    return not claim.when or bool(evaluate(claim.when, names))


def _where(claim: Claim, own: Sequence[Data]) -> str:
    """Return where a claim holds, and the device models on which it was measured if they differ
    from that.
    """
    models = ", ".join(sorted({str(data.environment["device"]) for data in own}))
    return claim.place if claim.place == models else f"{claim.place}; measured on {models}"


def _near(claims: Sequence[Claim], origins: Mapping[str, Mapping[Key, Entry]]) -> int:
    """Return the number of items that are claimed to be near what was published."""
    return sum(len(origins.get(claim.id, {})) for claim in claims if claim.near)


def claimed(entries: Iterable[Entry]) -> list[Entry]:
    """Return the first entry of each claimed item: of the data that fix what is claimed.

    Its state is `FAILED` if later published data refute it, but for a mean over machines, which has
    them in it.
    """
    first: dict[str, Entry] = {}
    for entry in entries:
        known = first.setdefault(entry["id"], entry)
        if entry["state"] == FAILED and not known["machines"]:
            first[entry["id"]] = {**known, "state": FAILED}
    return list(first.values())


def write_published(root: Path, entries: Iterable[Entry]) -> None:
    """Write `results/published/claims.json`: the claimed items, without the other datasets' values
    for them.
    """
    write(claimed(entries), root / PUBLISHED / JUDGED)


def read_published(root: Path) -> list[dict[str, Any]]:
    """Return the entries of `results/published/claims.json`, one per claimed item; empty before the
    first dataset is published.
    """
    path = root / PUBLISHED / JUDGED
    entries: list[dict[str, Any]] = read_json(path) if path.exists() else []
    return entries


def held_against(root: Path, everything: Sequence[Data]) -> list[dict[str, Any]]:
    """Return the entries of all claims and items for datasets.

    Nothing is compared with an item that published data refute.
    """
    entries = []
    origins: dict[str, dict[Key, Entry]] = {}
    for entry in read_published(root):
        if entry["value"] is not None and entry["state"] != FAILED:
            origins.setdefault(entry["id"].split(":")[0], {}).setdefault(tuple(entry["key"]), entry)
    names = {entry["dataset"] for known in origins.values() for entry in known.values()}
    environments: dict[str, Mapping[str, Any]] = {}
    for name, folder in runs(root / PUBLISHED).items():
        environments |= (
            {name: read_environment(folder / "environment.json")} if name in names else {}
        )
    claims, ids = read(root), Published(root / PUBLISHED, {}).ids()
    near = _near(claims, origins)
    for claim, data in product(claims, [_of_kernels(data, ids) for data in everything]):
        if claim.table in data.tables:
            entries += _entries(claim, data, origins.get(claim.id, {}), environments, root, near)
    return entries


def _of_kernels(data: Data, ids: Sequence[str]) -> Data:
    """Return data with the rows of baselines and of these kernels only: claims are not about
    anybody's own kernels.

    Data stay as they are if none of the kernels is of their device kind.
    """
    names = {id.split("/")[1] for id in ids if id.startswith(f"{data.environment.get('kind')}/")}
    tables = dict(data.tables)
    for table, column in product(tables if names else (), ("kernel", "other")):
        if column in tables[table]:
            known = tables[table][column].map(lambda name: name in names or is_baseline(str(name)))
            tables[table] = tables[table][known.astype(bool)]
    return replace(data, tables=tables)


def write(entries: Sequence[Entry], path: Path) -> None:
    """Write entries as a list of mappings. The page and the table are made from it."""
    lines = ",\n ".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    write_whole(path, f"[{lines}]\n".encode())
