"""What data say to the claims: an entry a thing that a claim is about, with its state and numbers.

What is published decides what exactly each claim says, number by number: `results/published/claims.json`, which `ladder story` writes.
Other data are held against that file.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from ladder.analysis.repeatability import Limit, limits
from ladder.claims.definitions import Claim, Key, read
from ladder.claims.evidence import Data, Finding, find, of_samples, of_studies
from ladder.claims.study import NOTHING
from ladder.core.expressions import evaluate, names_in
from ladder.core.files import read_json, write_whole
from ladder.core.stats import CONFIDENCE
from ladder.storage.dataset_layout import JUDGED, PUBLISHED, read_environment
from ladder.storage.published_index import runs

REPRODUCED, FAILED, UNSURE, ELSEWHERE = "reproduced", "not reproduced", "not distinguishable", "not applicable here"
"""What data say to a claim; where they lack what it is about, it is `NOTHING`."""
DISPUTED = "not in all published data"
"""What the first of the published data would claim and others of them do not: it is told, and nothing is held against it."""

Entry = Mapping[str, Any]
"""What some data say to a claim, or to one of the things that it is about: a row of `claims.json`."""


def judge(claim: Claim, finding: Finding, published: Finding | None, limit: Limit | None, count: int) -> str:
    """What a value says to a claim of which there are `count`: all are to be judged wrongly in one case of twenty at most.

    It is reproduced where `holds` is true at 95 %, and not reproduced where `fails`, or else the contrary of `holds`, is true with
    intervals and limits that much wider (Bonferroni's inequality). Between is what cannot be told.
    """

    def true(expression: str, confidence: float) -> bool:
        apart = limit.at(confidence) if limit else 0.0
        names = {**finding.names, "value": finding.value, "low": finding.low, "high": finding.high}
        spread = max(finding.half(confidence), apart)
        if finding.low > 0 and spread:
            names |= {"low": finding.value * math.exp(-spread), "high": finding.value * math.exp(spread)}
        if limit is not None:
            names["limit"] = math.exp(apart)
        if published:
            near = _apart(finding.half(confidence), published.half(confidence), apart)
            names |= {
                "published": published.value,
                "near_low": published.value * math.exp(-near),
                "near_high": published.value * math.exp(near),
            }
        return bool(evaluate(expression, names))

    asked = names_in(claim.holds)
    if "limit" in asked and limit is None:
        return UNSURE
    if true(claim.holds, CONFIDENCE):
        return REPRODUCED
    if claim.near and limit is None:  # another run may be anywhere
        return UNSURE
    wide = 1 - (1 - CONFIDENCE) / count
    return FAILED if (true(claim.fails, wide) if claim.fails else not true(claim.holds, wide)) else UNSURE


def _apart(value: float, other: float, limit: float) -> float:
    """How far logarithms of two results may differ, by half of the interval of each, and by the limit of two runs."""
    return max(math.hypot(value, other), limit)


def say(claim: Claim, finding: Finding | None, limit: Limit | None = None) -> str:
    """The claim's sentence with the numbers that were found, of which `{value%}` is in per cent.

    `{near_low}` and `{near_high}` are where another machine may lie, with intervals as wide as that of what was found.
    """
    names = {} if finding is None else {"value": finding.value, "low": finding.low, "high": finding.high}
    if finding and limit:
        near = _apart(finding.half(CONFIDENCE), finding.half(CONFIDENCE), limit.half)
        names |= {"near_low": finding.value * math.exp(-near), "near_high": finding.value * math.exp(near)}

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            return "…"
        value = names[match[1]]
        text = f"{100 * value if match[2] else value:.4g}"
        return f"{text} %" if match[2] else text

    text = re.sub(r"\{(value|low|high|near_low|near_high)(%?)\}", number, claim.says)
    return f"{text.rstrip('.')}: {finding.about}." if finding and finding.about else text


def _entry(
    claim: Claim,
    dataset: str | None,
    state: str,
    finding: Finding | None = None,
    origin: Entry | None = None,
    limit: Limit | None = None,
) -> dict[str, Any]:
    """What is written of one thing that a claim is about; `origin` is that of the published data it is held against.

    `limit` is how far runs on two machines differ.
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
        "says": origin["says"] if origin else say(claim, finding, limit),
        "where": origin["where"] if origin else claim.place,
        "state": state,
        "value": rounded(finding.value if finding else None),
        "low": rounded(finding.low if finding else None),
        "high": rounded(finding.high if finding else None),
        "processes": finding.processes if finding else None,
        "published": origin["value"] if origin else None,
        "limit": None,
        "dataset": dataset,
        "key": list(finding.key) if finding else origin["key"] if origin else [],
    }


def _judged(
    claim: Claim,
    data: Data,
    origins: Mapping[Key, Entry],
    environments: Mapping[str, Mapping[str, Any]],
    root: Path,
    near: int,
) -> list[dict[str, Any]]:
    """What data say of a claim, held against entries of published data, whose environments are given by the dataset's name.

    Of claims to be near to something there are `near` in all; they may all be off together, where one machine is unlike the others.
    """
    if not claim.applies(data.environment):
        return [_entry(claim, data.name, ELSEWHERE)]
    findings = {finding.key: finding for finding in find(claim, data)}
    if not origins and not claim.relative:
        return [_entry(claim, data.name, judge(claim, it, None, None, len(findings)), it) for it in findings.values()] or [
            _entry(claim, data.name, NOTHING)
        ]
    known = {
        name: limits(root / PUBLISHED, data.environment, environments[name])
        for name in {origin["dataset"] for origin in origins.values()}
    }
    entries = []
    for key, origin in origins.items():
        if key not in findings:
            entries.append(_entry(claim, data.name, NOTHING, origin=origin))
            continue
        limit = known[origin["dataset"]].get(findings[key].limit_of)
        published = Finding(key, "", origin["value"], origin["low"], origin["high"], origin["processes"], {})
        state = judge(claim, findings[key], published, limit, near if claim.near else len(origins))
        factor = None if limit is None else float(f"{math.exp(limit.half):.6g}")
        entries.append(_entry(claim, data.name, state, findings[key], origin) | {"limit": factor})
    return entries or [_entry(claim, data.name, NOTHING)]


def _published_data(root: Path) -> list[Data]:
    """The published datasets, that which the text is about first, and the answers to studies."""
    return [*(of_samples(folder, name) for name, folder in runs(root / PUBLISHED).items()), *of_studies(root, PUBLISHED)]


def of_published(root: Path) -> list[dict[str, Any]]:
    """What the published data say to every claim, and to everything that it is about.

    What a claim says is what the first of the datasets says that have it: the others are held against it as anybody's are. Of things that
    `when` is asked of it is about those of which it is true in all datasets; where it is true in the first only, they are `DISPUTED`.
    """
    everything, claims = _published_data(root), read(root)
    environments = {data.name: data.environment for data in everything}
    own: dict[str, list[Data]] = {}
    origins: dict[str, dict[Key, Entry]] = {}
    disputed: dict[str, list[dict[str, Any]]] = {}
    for claim in claims:
        findings = [(data, find(claim, data)) for data in everything if claim.applies(data.environment)]
        own[claim.id] = [data for data, several in findings if several]
        origins[claim.id], disputed[claim.id] = {}, []
        things: dict[Key, dict[str, Finding]] = {}
        for data, several in findings:
            for finding in several:
                things.setdefault(finding.key, {})[data.name] = finding
        for key, by_name in things.items():
            name, first = next(iter(by_name.items()))
            another = {**environments[name], "attributes": {}}  # a machine of the model, and not the same
            limit = limits(root / PUBLISHED, another, another).get(first.limit_of) if claim.near else None
            origin = _entry(claim, name, "", first, limit=limit) | {"where": _where(claim, own[claim.id])}
            has_it = [_is_claimed(claim, finding, first) for finding in by_name.values()]
            if all(has_it):
                origins[claim.id][key] = origin
            elif has_it[0]:
                disputed[claim.id] += [_entry(claim, name, DISPUTED, finding, origin) for name, finding in by_name.items()]
    entries, near = [], _near(claims, origins)
    for claim in claims:
        known = origins[claim.id]
        judged = [entry for data in own[claim.id] if known for entry in _judged(claim, data, known, environments, root, near)]
        judged = [*(entry for entry in judged if entry["value"] is not None), *disputed[claim.id]]
        entries += judged or [_entry(claim, None, NOTHING)]
    return entries


def _is_claimed(claim: Claim, finding: Finding, first: Finding) -> bool:
    """Whether a claim is about a thing, by what a dataset says of it, and the first of all."""
    names = {**finding.names, "value": finding.value, "low": finding.low, "high": finding.high, "published": first.value}
    return not claim.when or bool(evaluate(claim.when, names))


def _where(claim: Claim, own: Sequence[Data]) -> str:
    """Where a claim holds, and, where that is more than one model of device, on which it was measured."""
    models = ", ".join(sorted({str(data.environment["device"]) for data in own}))
    return claim.place if claim.place == models else f"{claim.place}; measured on {models}"


def _near(claims: Sequence[Claim], origins: Mapping[str, Mapping[Key, Entry]]) -> int:
    """How many things are claimed to be near to what was published."""
    return sum(len(origins.get(claim.id, {})) for claim in claims if claim.near)


def claimed(entries: Iterable[Entry]) -> list[Entry]:
    """The first entry of each thing that is claimed: that of the dataset that says what is claimed of it."""
    first: dict[str, Entry] = {}
    for entry in entries:
        first.setdefault(entry["id"], entry)
    return list(first.values())


def write_published(root: Path) -> None:
    """Write `results/published/claims.json`: what is claimed, without what other datasets say of the same things."""
    write(claimed(of_published(root)), root / PUBLISHED / JUDGED)


def read_published(root: Path) -> list[dict[str, Any]]:
    """The entries of `results/published/claims.json`, one for each thing that is claimed. There are none before the first dataset."""
    path = root / PUBLISHED / JUDGED
    entries: list[dict[str, Any]] = read_json(path) if path.exists() else []
    return entries


def held_against(root: Path, everything: Sequence[Data]) -> list[dict[str, Any]]:
    """What datasets, or answers to studies, say to every claim and everything that it is about."""
    entries = []
    origins: dict[str, dict[Key, Entry]] = {}
    for entry in read_published(root):
        if entry["value"] is not None and entry["state"] != DISPUTED:
            origins.setdefault(entry["id"].split(":")[0], {}).setdefault(tuple(entry["key"]), entry)
    names = {entry["dataset"] for known in origins.values() for entry in known.values()}
    environments = {data.name: data.environment for data in of_studies(root, PUBLISHED)}
    for name, folder in runs(root / PUBLISHED).items():
        environments |= {name: read_environment(folder / "environment.json")} if name in names else {}
    claims = read(root)
    near = _near(claims, origins)
    for claim, data in product(claims, everything):
        if claim.study in data.measured if claim.study else claim.table in data.tables:
            entries += _judged(claim, data, origins.get(claim.id, {}), environments, root, near)
    return entries


def write(entries: Sequence[Entry], path: Path) -> None:
    """Write entries: a list of mappings, of which page and table are made."""
    lines = ",\n ".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    write_whole(path, f"[{lines}]\n".encode())
