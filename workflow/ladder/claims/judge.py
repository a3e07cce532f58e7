"""Compare data with the claims: one entry per item of a claim, with its state and numbers.

Published data determine the exact numbers of each claim: `results/published/claims.json`, which
`python -m book` writes. Other data are compared with this file.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from ladder.analysis.finalists import AS_WARM
from ladder.analysis.repeatability import Limit, LimitKey, limits
from ladder.claims.definitions import COUNT, NEAR, NOTHING, Claim, Key, read
from ladder.claims.evidence import Data, Finding, Row, find, lacking, of_samples, over_machines
from ladder.core import verdicts
from ladder.core.files import read_json, write_whole
from ladder.core.stats import CONFIDENCE, half_of_difference
from ladder.core.verdicts import AGAIN, BUSY
from ladder.model.baselines import is_baseline
from ladder.storage.dataset_layout import JUDGED, PUBLISHED, read_environment
from ladder.storage.published_index import featured, kernel_ids, runs

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
NUMBERS = ("value", "low", "high", "processes", "machines")
"""The numbers of a finding that an entry has."""
EXACT = (0.0, 0)
"""The spread of a value that is compared with 1."""
Entry = Mapping[str, Any]
"""The result of comparing data with a claim or an item of it: a row of `claims.json`."""
Limits = Callable[[str], Mapping[LimitKey, Limit]]
"""Returns the limits between data and a published dataset, by its name."""
Origins = Mapping[Key, Entry]
"""What is claimed of each item of a claim: the entries that published data are compared with."""


def judge(
    claim: Claim, finding: Finding, published: Finding | None, limit: Limit | None, count: int
) -> str:
    """Return the state of an item of a claim with `count` items.

    A sign is `REPRODUCED` if the value is beyond 1 on the published side by more than its interval
    and the limit, and `FAILED` if it is so on the other side. A value is near the published one if
    the two differ by no more than `reach`, and if its own interval is no wider than the limit or
    than the published interval: a wide interval is near anything. Intervals and limits are at 95 %.
    To be `FAILED` they are wider, so that at most one case in twenty wrongly fails any of the
    `count` items (Bonferroni's inequality). Counted rows may be the claimed share of all, and two
    standard deviations more, for chance.
    """
    if claim.test == COUNT:
        expected = claim.share * finding.of
        few = len(finding.rows) <= expected + 2 * math.sqrt(expected)
        return REPRODUCED if few else FAILED

    least, wide = (
        reach(claim, finding, published, limit, confidence)
        for confidence in (CONFIDENCE, 1 - (1 - CONFIDENCE) / count)
    )
    distance = math.log(finding.value)
    if claim.test == NEAR and published:
        distance = abs(distance - math.log(published.value))
        if distance <= least:
            known = max(limit.half if limit else 0.0, published.spread[0])
            return REPRODUCED if finding.spread[0] <= known else UNSURE
        # without a limit, another run may have any value
        return FAILED if limit and distance > wide else UNSURE
    if published and published.value < 1:
        distance = -distance
    if distance > least:
        return REPRODUCED
    return FAILED if distance < -wide else UNSURE


def reach(
    claim: Claim,
    finding: Finding,
    published: Finding | None,
    limit: Limit | None,
    confidence: float = CONFIDENCE,
) -> float:
    """Return the largest difference of logarithms that says nothing: half the width of the interval
    of the difference to what is claimed, or the limit if that is more.
    """
    other = published.spread if published and claim.test == NEAR else EXACT
    own = half_of_difference(finding.spread, other, confidence)
    return max(own, limit.at(confidence) if limit else 0)


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
    if claim.test == COUNT:
        return state != FAILED or not set(marks) & set(BUSY)
    if "unsteady" in marks:
        return False
    if "disturbed" in marks:
        return state == REPRODUCED and claim.test != NEAR
    return state != FAILED or claim.test != NEAR or "throttled" not in marks or "throttled" in usual


def say(claim: Claim, finding: Finding | None) -> str:
    """Return the claim's sentence with the measured numbers, and the item: `{value}`, `{value±}`
    with half the width of the interval, both with `%` at the end in percent, and `{machines}`.

    Without a finding, the parentheses are left out, and any other number is "…".
    """
    if finding is None:
        return re.sub(r"\{\w+±?%?\}", "…", re.sub(r" \([^()]*\{[^()]*\)", "", claim.says))

    def number(match: re.Match[str]) -> str:
        ends = (finding.low, finding.high) if match[1] else (finding.value, finding.value)
        return verdicts.plus_minus(finding.value, *ends, percent=bool(match[2]))

    text = re.sub(r"\{value(±?)(%?)\}", number, claim.says)
    text = text.replace("{machines}", str(finding.machines))
    own = claim.own(finding.key)
    kernels = " over ".join(own[name] for name in ("kernel", "other") if name in own)
    place = ", ".join(own[name] for name in ("problem", "state") if name in own)
    about = f"{kernels} at {place}" if kernels else place
    return f"{text.rstrip('.')}: {about}." if own else text


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
    key = finding.key if finding else tuple(origin["key"]) if origin else ()
    numbers: dict[str, Any] = dict.fromkeys(NUMBERS)
    if finding:
        numbers = {name: _rounded(getattr(finding, name)) for name in NUMBERS}
    entry = {
        "id": ":".join([claim.id, *claim.own(key).values()]),
        "says": origin["says"] if origin else say(claim, finding),
        "where": origin["where"] if origin else claim.place,
        "state": state,
        **numbers,
        "published": origin["value"] if origin else None,
        "limit": None,
        "dataset": dataset,
        "key": list(key),
    }
    return entry | ({"marks": list(finding.marks)} if finding and finding.marks else {})


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else float(f"{value:.6g}")


def claim_of(entry: Entry) -> str:
    """Return the id of the claim that an entry is of."""
    return str(entry["id"]).split(":")[0]


def finding_of(entry: Entry) -> Finding:
    """Return the numbers of an entry as a finding."""
    numbers = {name: entry[name] for name in NUMBERS}
    return Finding(tuple(entry["key"]), **numbers, marks=entry.get("marks", ()))


def _judged(
    claim: Claim, data: Data, finding: Finding, origin: Entry | None, between: Limits, count: int
) -> dict[str, Any]:
    """Return the entry of an item of a claim, compared with what is claimed of it."""
    published, limit = None, None
    if origin:
        published = finding_of(origin)
        limit = published.prediction if claim.test == NEAR else None
        limit = limit or between(origin["dataset"]).get(finding.limit_of)
    state = judge(claim, finding, published, limit, count)
    usual = published.marks if published else ()
    state = state if stands(claim, state, finding.marks, usual) else AGAIN
    entry = _entry(claim, data.name, state, finding, origin)
    if limit:
        entry["limit"] = _rounded(math.exp(limit.half))
    if claim.test != COUNT:
        entry["seen_from"] = _rounded(math.exp(reach(claim, finding, published, limit)))
    return entry | ({"rows": finding.rows} if state == FAILED and finding.rows else {})


def _together(claim: Claim, claims: Sequence[Claim], origins: Mapping[str, Origins]) -> int:
    """Return the number of items that are tested together with one of a claim. Those near something
    are of all such claims: they may all deviate together if one machine is unlike the others.
    """
    alike = [other for other in claims if other is claim or other.test == claim.test == NEAR]
    return sum(len(origins.get(other.id, ())) for other in alike)


def published_data(root: Path) -> list[Data]:
    """Return the published datasets, the earliest first."""
    datasets = [of_samples(folder, name) for name, folder in runs(root / PUBLISHED).items()]
    return sorted(datasets, key=lambda data: str(data.environment["time"]))


Findings = Sequence[tuple[Data, Finding]]
"""What the published data have for an item of a claim, the earliest first."""


def of_published(root: Path, everything: Sequence[Data] = ()) -> list[dict[str, Any]]:
    """Return the entries of all claims for the published data, what is claimed of an item before
    the data that are judged by it.

    `everything` is what `published_data` returns, if the caller has read that.

    A claim about signs `over` a size is about the items that have it in the earliest dataset with
    the item. Later datasets are judged by it, whatever they have. A claim to be near something is
    about the mean over the machines that measured its latest binary; a dataset with that binary is
    judged by the mean over all other machines: what fails so is `known`, no failure of anybody
    else's data. In any other claim every dataset is
    judged. Rows of a busy machine claim nothing, and are not judged.
    """
    everything, claims = everything or published_data(root), read(root)
    findings = {claim.id: _findings(claim, everything) for claim in claims}
    origins = {claim.id: _origins(claim, findings[claim.id]) for claim in claims}
    environments = {data.name: data.environment for data in everything}

    @cache
    def between(name: str, other: str) -> Mapping[LimitKey, Limit]:
        first = environments[name]
        return limits(root / PUBLISHED, first, environments.get(other) or _any_machine(first))

    entries = []
    for claim in claims:
        count = _together(claim, claims, origins)
        for key, origin in origins[claim.id].items():
            several, against = findings[claim.id][key], origin
            if claim.fixed:
                entries.append(origin)
            for data, finding in several:
                if claim.test == NEAR:
                    others = [each for each in several if each[0].machine != data.machine]
                    if not others:
                        continue
                    against = _entry(claim, MEAN, CLAIMED, over_machines(others), origin)
                elif claim.fixed and data is several[0][0]:
                    continue
                of_data = partial(between, data.name)
                entry = _judged(claim, data, finding, against, of_data, count)
                refuted = claim.fixed and entry["state"] == FAILED
                entries.append(entry | ({"known": True} if refuted else {}))
        if not origins[claim.id]:
            entries.append(_entry(claim, None, NOTHING))
    return entries


def _findings(claim: Claim, everything: Sequence[Data]) -> dict[Key, Findings]:
    """Return what the published data have for each item, without rows of a busy machine. A claim to
    be near something is about the latest binary only.
    """
    findings: dict[Key, list[tuple[Data, Finding]]] = {}
    for data in everything:
        for finding in find(claim, data) if claim.applies(data.environment) else ():
            if not set(finding.marks) & set(BUSY):
                findings.setdefault(finding.key, []).append((data, finding))
    if claim.test != NEAR:
        return dict(findings)
    return {
        key: [each for each in several if each[1].binary == several[-1][1].binary]
        for key, several in findings.items()
    }


def _origins(claim: Claim, findings: Mapping[Key, Findings]) -> dict[Key, dict[str, Any]]:
    """Return what is claimed of each item, as entries: of the earliest data, or of the mean over
    machines. A campaign of some rungs says nothing of gains over the rung below.
    """
    origins = {}
    items = [claim.item(key) for key in findings]
    rungs = sorted({item[name] for item in items for name in ("kernel", "other") if name in item})
    for key, several in findings.items():
        item = claim.item(key)
        if "other" in item and (item["other"], item["kernel"]) not in pairwise(rungs):
            continue
        data, finding = several[0]
        name = data.name
        if claim.test == NEAR:
            name, finding = MEAN, over_machines(several)
        elif claim.fixed:
            size = max(finding.value, 1 / finding.value)
            same = verdicts.of(finding.low, finding.high) == verdicts.SAME
            if same or not claim.over < size <= claim.up_to:
                continue
        origins[key] = _entry(claim, name, CLAIMED, finding)
    devices = {data.environment["device"] for several in findings.values() for data, _ in several}
    if (measured := ", ".join(sorted(devices))) != claim.place:
        for origin in origins.values():
            origin["where"] += f"; measured on {measured}"
    return origins


def claimed(entries: Iterable[Entry]) -> list[Entry]:
    """Return the first entry of each claimed item: of the data that fix what is claimed. The other
    datasets' values for it are not in `results/published/claims.json`.

    Its state is `FAILED` if later published data refute it, but for a mean over machines, which has
    them in it.
    """
    first: dict[str, Entry] = {}
    for entry in entries:
        known = first.setdefault(entry["id"], entry)
        if entry["state"] == FAILED and not known["machines"]:
            first[entry["id"]] = {**known, "state": FAILED}
    return list(first.values())


def read_published(root: Path) -> list[dict[str, Any]]:
    """Return the entries of `results/published/claims.json`, one per claimed item; empty before the
    first dataset is published.
    """
    path = root / PUBLISHED / JUDGED
    entries: list[dict[str, Any]] = read_json(path) if path.exists() else []
    return entries


def held_against(root: Path, data: Data) -> list[dict[str, Any]]:
    """Return the entries of all claims and items for a dataset.

    Nothing is compared with an item that published data refute.
    """
    origins: dict[str, dict[Key, Entry]] = {}
    for entry in read_published(root):
        if entry["value"] is not None and entry["state"] != FAILED:
            origins.setdefault(claim_of(entry), {})[tuple(entry["key"])] = entry

    @cache
    def between(name: str) -> Mapping[LimitKey, Limit]:
        other = _any_machine(data.environment)
        if name != MEAN:
            other = read_environment(root / PUBLISHED / name / "environment.json")
        return limits(root / PUBLISHED, data.environment, other)

    claims, data = read(root), _of_published_kernels(root, data)
    entries = []
    for claim in claims:
        known = origins.get(claim.id, {})
        if not claim.applies(data.environment):
            entry = _entry(claim, data.name, ELSEWHERE)
            says = [origin["says"] for origin in known.values() if origin["id"] == claim.id]
            entries.append(entry | {"says": says[0] if says else entry["says"]})
            continue
        findings = {finding.key: finding for finding in find(claim, data)}
        count = _together(claim, claims, origins)
        keys = [()] if claim.test == COUNT else list(known)
        for key in keys:
            if key in findings:
                entries.append(_judged(claim, data, findings[key], known.get(key), between, count))
            else:
                lacks = lacking(claim, data, key)
                # a cold time that would be the warm one is no item of its own
                state = ELSEWHERE if AS_WARM in str(lacks) else NOTHING
                entry = _entry(claim, data.name, state, None, known.get(key))
                entries.append(entry | {"lacks": lacks})
        if not keys:
            entries.append(_entry(claim, data.name, NOTHING))
    return entries


def _any_machine(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a machine of the same model, whichever it is."""
    return {"device": environment["device"]}


def _of_published_kernels(root: Path, data: Data) -> Data:
    """Return data with the rows of baselines and published kernels only: claims are not about
    anybody's own kernels.

    Data stay as they are if no kernel of their device kind is published.
    """
    ids = (id.split("/") for id in kernel_ids(featured(root / PUBLISHED).values()))
    names = {name for kind, name in ids if kind == data.environment.get("kind")}

    def ours(row: Row) -> bool:
        kernels = {row["kernel"], row.get("other", row["kernel"])}
        return all(kernel in names or is_baseline(kernel) for kernel in kernels)

    rows = {table: list(filter(ours, of)) for table, of in data.rows.items()}
    return replace(data, rows=rows) if names else data


def write(entries: Sequence[Entry], path: Path) -> None:
    """Write entries as a list of mappings. The page and the table are made from it."""
    lines = ",\n ".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    write_whole(path, f"[{lines}]\n".encode())
