"""What the project says of its measurements, as data, and what anybody's data say to it.

`config/claims.yaml` has the claims. What is published decides what exactly each says, number by number: `results/published/claims.json`,
which `ladder story` writes. Other data are held against that file.
"""

import html
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pandas as pd

from ladder import yamlfile
from ladder.aggregate import of_folder
from ladder.expressions import evaluate, names_in
from ladder.jobs import read_environment, write_whole
from ladder.repeat import Limited, limited, limits
from ladder.statistics import CONFIDENCE, student_t
from ladder.study import NOTHING, PUBLISHED, Study, studies
from ladder.tables import read_csv
from ladder.targets import CLAIMED_OF, CLAIMS, JUDGED, SHOWN
from ladder.units import InputError

REPRODUCED, FAILED, UNSURE, ELSEWHERE = "reproduced", "not reproduced", "not distinguishable", "not applicable here"
"""What data say to a claim; where they lack what it is about, it is `NOTHING`."""
DISPUTED = "not in all published data"
"""What the first of the published data would claim and others of them do not: it is told, and nothing is held against it."""
STATES = (FAILED, REPRODUCED, UNSURE, DISPUTED, NOTHING, ELSEWHERE)
"""All of them, the gravest first."""
IDENTITY = ("pair", "kernel", "other", "element_type", "problem", "state")
"""Columns that say what a row is about."""

Key = tuple[str, ...]
Entry = Mapping[str, Any]
"""What some data say to a claim, or to one of the things that it is about: a row of `claims.json`."""


@dataclass(frozen=True)
class Claim:
    """One claim; the fields are the keys of config/README.md."""

    id: str
    says: str
    where: Mapping[str, str]
    value: str
    holds: str
    said_in: Sequence[str]
    table: str = ""
    study: str = ""
    list: str = ""
    rows: Mapping[str, Any] = field(default_factory=dict)
    which: Mapping[str, Any] | None = None
    low: str = ""
    high: str = ""
    when: str = ""
    fails: str = ""

    @property
    def whole(self) -> bool:
        """Whether it is about all rows together, not about each."""
        return self.which is not None or (bool(self.study) and not self.list)

    @property
    def near(self) -> bool:
        """Whether it is about being near to what was published."""
        return "near_low" in names_in(self.holds)

    @property
    def relative(self) -> bool:
        """Whether it is about what was published."""
        return bool(self.when) or self.near or "published" in names_in(self.holds)

    @property
    def place(self) -> str:
        """Where it holds, in words."""
        if "device" in self.where:
            return self.where["device"]
        if "compute_capability" in self.where:
            return f"any GPU of compute capability {self.where['compute_capability']}"
        return {"cuda": "any GPU", "cpu": "any CPU", "": "any machine"}[self.where.get("kind", "")]

    def applies(self, environment: Mapping[str, Any]) -> bool:
        """Whether it holds where something was measured."""
        known = {**environment.get("attributes", {}), **environment}
        return all(str(known.get(name)) == value for name, value in self.where.items())


@dataclass(frozen=True)
class Found:
    """What data say of one thing that a claim is about."""

    key: Key
    about: str
    """The same in words; nothing where the claim is about one thing only."""
    value: float
    low: float
    high: float
    """The ends of the 95 % interval, or the value."""
    processes: int
    names: Mapping[str, Any]
    """More that expressions may ask for."""
    limit_of: Limited = ("", "", "", False)
    """By which a repeat limit is looked up."""

    def half(self, confidence: float) -> float:
        """Half of its interval, in logarithms."""
        if not 0 < self.low < self.high:
            return 0.0
        scale = (
            student_t(self.processes - 1, confidence) / student_t(self.processes - 1, CONFIDENCE) if self.processes > 1 else 1.0
        )
        return scale * math.log(self.high / self.low) / 2


@dataclass(frozen=True)
class Data:
    """What a claim is held against: the tables of a dataset, or what studies measured on a device."""

    name: str
    environment: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)
    """By study."""


def read(root: Path) -> list[Claim]:
    """The claims of a checkout. Raises `InputError` that names the claim and the key of a mistake."""
    path = root / CLAIMS
    data = yamlfile.load(yamlfile.read(path), str(CLAIMS))
    yamlfile.check(data, "claims", str(CLAIMS))
    claims = [
        Claim(**given | {name: str(given[name]) for name in ("value", "low", "high", "when", "holds", "fails") if name in given})
        for given in data
    ]
    twice = [id for id, count in Counter(claim.id for claim in claims).items() if count > 1]
    if twice:
        raise InputError(f"{CLAIMS}: id: got {twice[0]!r} twice; expected each once")
    for claim in claims:
        for name in ("value", "low", "high", "when", "holds", "fails"):
            try:
                names_in(getattr(claim, name) or 0)
            except InputError as error:
                raise InputError(f"{CLAIMS}: {claim.id}: {name}: {error}") from None
    return claims


def of_samples(folder: Path, name: str = "") -> Data:
    """A published dataset, whose tables are made from its samples."""
    made, environment = of_folder(folder, [])
    return Data(name or folder.name, environment, {table: made[table] for table in CLAIMED_OF})


def of_tables(tables: Mapping[str, Path], environment: Path, name: str) -> Data:
    """A dataset by its tables, those of `CLAIMED_OF`, and its `environment.json`."""
    return Data(name, read_environment(environment), {table: read_csv(tables[table]) for table in CLAIMED_OF})


def of_studies(root: Path, folder: Path) -> list[Data]:
    """The answers to studies in a folder below results/, a piece of data a file."""
    found = []
    for study in studies(root):
        for path in sorted((root / folder).glob(_answers(study, folder))):
            answer = json.loads(path.read_text())
            environment = {"device": answer["device"]} if study.answers else answer["provenance"]
            found.append(Data(path.name, environment, measured={study.name: answer if study.answers else answer["measured"]}))
    return found


def _answers(study: Study, folder: Path) -> str:
    if study.answers:
        return study.answers if folder == PUBLISHED else "no files"
    return f"{'studies/' if folder == PUBLISHED else ''}{study.name}.*.json"


def _flat(measured: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers in nested mappings, by their keys joined with `_`."""
    found: dict[str, Any] = {}
    for name, part in measured.items():
        if isinstance(part, Mapping):
            found |= {f"{name}_{key}": value for key, value in _flat(part).items()}
        elif isinstance(part, int | float | str):
            found[name] = part
    return found


def _chosen(rows: Iterable[Mapping[str, Any]], filters: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    wanted = {name: {str(one) for one in (value if isinstance(value, list) else [value])} for name, value in filters.items()}
    return [row for row in rows if all(str(row.get(name)) in values for name, values in wanted.items())]


def find(claim: Claim, data: Data) -> list[Found]:
    """What the data say of everything that a claim is about; nothing where they lack it."""
    if claim.table:
        rows = data.tables[claim.table].to_dict("records") if claim.table in data.tables else []
    else:
        measured = data.measured.get(claim.study)
        rows = [] if measured is None else [_flat(row) for row in (measured[claim.list] if claim.list else [measured])]
    rows = _chosen(rows, claim.rows)
    if claim.whole and rows:
        picked = rows if claim.which is None else _chosen(rows, claim.which)
        alone = picked[0] if claim.which is None else {}
        found = [_found(claim, {**alone, "count": len(picked), "of": len(rows)}, ())]
    else:
        found = [_found(claim, row, tuple(f"{row[name]}" for name in _identity(claim, row))) for row in rows]
    return [one for one in found if one]


def _identity(claim: Claim, row: Mapping[str, Any]) -> list[str]:
    """The columns that tell the rows of a claim apart; of a study's, all that are no measured numbers."""
    names = IDENTITY if claim.table else [name for name, value in row.items() if isinstance(value, int | str)]
    return [name for name in names if name in row]


def _found(claim: Claim, row: Mapping[str, Any], key: Key) -> Found | None:
    names = {name: value for name, value in row.items() if isinstance(value, int | float)}
    wanted = [claim.value, claim.low or claim.value, claim.high or claim.value]
    if any(not math.isfinite(names.get(name, math.nan)) for text in wanted for name in names_in(text)):
        return None
    value, low, high = (float(evaluate(text, names)) for text in wanted)
    about = (
        "" if claim.whole or _one(claim) else " over ".join(str(row[name]) for name in ("kernel", "other", "name") if name in row)
    )
    size = str(row.get("problem", row.get("size", "")))
    of = limited({"element_type": "float32", "problem": size, "state": "warm", **row})
    return Found(key, f"{about} at {size}" if about else "", value, low, high, int(row.get("processes") or 1), names, of)


def _one(claim: Claim) -> bool:
    """Whether a claim is about one thing, which its `rows` name."""
    return {"kernel", "problem"} <= set(claim.rows) and not any(isinstance(value, list) for value in claim.rows.values())


def judge(claim: Claim, found: Found, published: Found | None, limit: float | None, count: int) -> str:
    """What a value says to a claim of which there are `count`: all are to be judged wrongly in one case of twenty at most.

    It is reproduced where `holds` is true at 95 %, and not reproduced where `fails`, or else the contrary of `holds`, is true with
    intervals and limits that much wider (Bonferroni's inequality). Between is what cannot be told.
    """

    def true(expression: str, confidence: float) -> bool:
        z = NormalDist().inv_cdf((1 + confidence) / 2) / NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
        names = {**found.names, "value": found.value, "low": found.low, "high": found.high}
        spread = max(found.half(confidence), z * (limit or 0.0))
        if found.low > 0 and spread:
            names |= {"low": found.value * math.exp(-spread), "high": found.value * math.exp(spread)}
        if limit is not None:
            names["limit"] = math.exp(z * limit)
        if published:
            near = max(math.hypot(found.half(confidence), published.half(confidence)), z * (limit or 0.0))
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


def say(claim: Claim, found: Found | None) -> str:
    """The claim's sentence with the numbers that were found, of which `{value%}` is in per cent."""

    def number(match: re.Match[str]) -> str:
        if found is None:
            return "…"
        value = {"value": found.value, "low": found.low, "high": found.high}[match[1]]
        text = f"{100 * value if match[2] else value:.4g}"
        return f"{text} %" if match[2] else text

    text = re.sub(r"\{(value|low|high)(%?)\}", number, claim.says)
    return f"{text.rstrip('.')}: {found.about}." if found and found.about else text


def _entry(
    claim: Claim, dataset: str | None, state: str, found: Found | None = None, origin: Entry | None = None
) -> dict[str, Any]:
    """What is written of one thing that a claim is about; `origin` is that of the published data it is held against."""

    def rounded(value: float | None) -> float | None:
        return None if value is None else float(f"{value:.6g}")

    whose = [] if found is None or claim.whole or _one(claim) else [part for part in found.key if part not in claim.rows.values()]
    return {
        "id": origin["id"] if origin else ":".join([claim.id, *whose]),
        "says": origin["says"] if origin else say(claim, found),
        "where": origin["where"] if origin else claim.place,
        "state": state,
        "value": rounded(found.value if found else None),
        "low": rounded(found.low if found else None),
        "high": rounded(found.high if found else None),
        "processes": found.processes if found else None,
        "published": origin["value"] if origin else None,
        "limit": None,
        "dataset": dataset,
        "key": list(found.key) if found else origin["key"] if origin else [],
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
    found = {one.key: one for one in find(claim, data)}
    if not origins and not claim.relative:
        return [_entry(claim, data.name, judge(claim, it, None, None, len(found)), it) for it in found.values()] or [
            _entry(claim, data.name, NOTHING)
        ]
    known = {
        name: limits(root / PUBLISHED, data.environment, environments[name])
        for name in {origin["dataset"] for origin in origins.values()}
    }
    entries = []
    for key, origin in origins.items():
        if key not in found:
            entries.append(_entry(claim, data.name, NOTHING, origin=origin))
            continue
        limit = known[origin["dataset"]].get(found[key].limit_of)
        published = Found(key, "", origin["value"], origin["low"], origin["high"], origin["processes"], {})
        state = judge(claim, found[key], published, limit, near if claim.near else len(origins))
        factor = None if limit is None else float(f"{math.exp(limit):.6g}")
        entries.append(_entry(claim, data.name, state, found[key], origin) | {"limit": factor})
    return entries or [_entry(claim, data.name, NOTHING)]


def _published_data(root: Path) -> list[Data]:
    """The published datasets, that which the text is about first, other runs of one behind it, and the answers to studies."""
    names = [path.parent.relative_to(root / PUBLISHED).as_posix() for path in (root / PUBLISHED).rglob("environment.json")]
    ordered = sorted(names, key=lambda name: (name.split("/")[0] != SHOWN, name))
    return [*(of_samples(root / PUBLISHED / name, name) for name in ordered), *of_studies(root, PUBLISHED)]


def of_published(root: Path) -> list[dict[str, Any]]:
    """What the published data say to every claim, and to everything that it is about: the entries of `results/published/claims.json`.

    What a claim says is what the first of the datasets says that have it: the others are held against it as anybody's are. Of things that
    `when` is asked of it is about those of which it is true in all datasets; where it is true in the first only, they are `DISPUTED`.
    """
    everything, claims = _published_data(root), read(root)
    environments = {data.name: data.environment for data in everything}
    own: dict[str, list[Data]] = {}
    origins: dict[str, dict[Key, Entry]] = {}
    disputed: dict[str, list[dict[str, Any]]] = {}
    for claim in claims:
        found = [(data, find(claim, data)) for data in everything if claim.applies(data.environment)]
        own[claim.id] = [data for data, several in found if several]
        origins[claim.id], disputed[claim.id] = {}, []
        things: dict[Key, dict[str, Found]] = {}
        for data, several in found:
            for one in several:
                things.setdefault(one.key, {})[data.name] = one
        for key, by_name in things.items():
            name, first = next(iter(by_name.items()))
            origin = _entry(claim, name, "", first) | {"where": _where(claim, own[claim.id])}
            has_it = [_is_claimed(claim, one, first) for one in by_name.values()]
            if all(has_it):
                origins[claim.id][key] = origin
            elif has_it[0]:
                disputed[claim.id] += [_entry(claim, name, DISPUTED, one, origin) for name, one in by_name.items()]
    entries, near = [], _near(claims, origins)
    for claim in claims:
        known = origins[claim.id]
        judged = [entry for data in own[claim.id] if known for entry in _judged(claim, data, known, environments, root, near)]
        judged = [*(entry for entry in judged if entry["value"] is not None), *disputed[claim.id]]
        entries += judged or [_entry(claim, None, NOTHING)]
    return entries


def _is_claimed(claim: Claim, found: Found, first: Found) -> bool:
    """Whether a claim is about a thing, by what a dataset says of it, and the first of all."""
    names = {**found.names, "value": found.value, "low": found.low, "high": found.high, "published": first.value}
    return not claim.when or bool(evaluate(claim.when, names))


def _where(claim: Claim, own: Sequence[Data]) -> str:
    """Where a claim holds, and, where that is more than one model of device, on which it was measured."""
    models = ", ".join(sorted({str(data.environment["device"]) for data in own}))
    return claim.place if claim.place == models else f"{claim.place}; measured on {models}"


def _near(claims: Sequence[Claim], origins: Mapping[str, Mapping[Key, Entry]]) -> int:
    """How many things are claimed to be near to what was published."""
    return sum(len(origins.get(claim.id, {})) for claim in claims if claim.near)


def write_published(root: Path) -> None:
    """Write `results/published/claims.json`."""
    write(of_published(root), root / PUBLISHED / JUDGED)


def read_published(root: Path) -> list[dict[str, Any]]:
    """The entries of `results/published/claims.json`; none where nothing was published yet."""
    path = root / PUBLISHED / JUDGED
    entries: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
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
    for path in (root / PUBLISHED).rglob("environment.json"):
        name = path.parent.relative_to(root / PUBLISHED).as_posix()
        environments |= {name: read_environment(path)} if name in names else {}
    claims = read(root)
    near = _near(claims, origins)
    for claim, data in product(claims, everything):
        if claim.study in data.measured if claim.study else data.tables:
            entries += _judged(claim, data, origins.get(claim.id, {}), environments, root, near)
    return entries


def write(entries: Sequence[Entry], path: Path) -> None:
    """Write entries: a list of mappings, of which page and table are made."""
    lines = ",\n ".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    write_whole(path, f"[{lines}]\n".encode())


def counts(entries: Sequence[Entry]) -> dict[str, Counter[str]]:
    """How many things each claim is about were found to be what, by the claim's id."""
    found: dict[str, Counter[str]] = {}
    for entry in entries:
        found.setdefault(entry["id"].split(":")[0], Counter())[entry["state"]] += 1
    return found


def told(counted: Mapping[str, int]) -> str:
    """The states of a claim in words, the gravest first: `reproduced`, or `2 not reproduced, 30 reproduced`."""
    states = [state for state in STATES if counted.get(state)]
    return states[0] if sum(counted.values()) == 1 else ", ".join(f"{counted[state]} {state}" for state in states)


def is_own(entry: Entry) -> bool:
    """Whether an entry is of a campaign's dataset, `results/campaign/device`, and not of published data."""
    return str(entry["dataset"]).startswith("results/")


def summary(entries: Sequence[Entry]) -> str:
    """How many of them are in which state."""
    return told(Counter(entry["state"] for entry in entries))


def text(entries: Sequence[Entry]) -> str:
    """For a terminal: what the published data say, a line a dataset; of one's own a line a claim; every entry that was not reproduced."""
    lines = []
    for dataset in dict.fromkeys(entry["dataset"] for entry in sorted(entries, key=is_own)):
        of_it = [entry for entry in entries if entry["dataset"] == dataset]
        lines.append(f"{dataset or 'not published yet'}: {summary(of_it)}")
        lines += [f"  {id}: {told(counted)}" for id, counted in counts(of_it).items() if is_own(of_it[0])]
        lines += [f"  NOT REPRODUCED {failure(entry)}" for entry in of_it if entry["state"] == FAILED]
    return "\n".join(lines)


def failure(entry: Entry) -> str:
    """An entry in words: its name, sentence and numbers."""
    limit = f", runs differ by x{entry['limit']:.4g} at most" if entry["limit"] else ""
    published = f"; published {entry['published']:.4g}" if entry["published"] is not None else ""
    told = f"{entry['id']} ({entry['says']} Where: {entry['where']})"
    return f"{told}: {entry['value']:.4g} ({entry['low']:.4g} to {entry['high']:.4g}){published}{limit}"


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
    """The entries as a page of HTML that needs nothing else: those of one's own datasets, and folded those of published data."""
    own, others = ([entry for entry in entries if is_own(entry) is here] for here in (True, False))
    return PAGE.format(
        own=html.escape(summary(own) or "nothing measured"), own_table=_table(own), others=html.escape(summary(others)),
        others_table=_table(others),
    )  # fmt: skip


def _table(entries: Sequence[Entry]) -> str:
    """A row an entry, the gravest first."""

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
