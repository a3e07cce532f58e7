"""Make the parts of pages about studies and claims."""

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ladder.analysis.dataset import Dataset
from ladder.claims import definitions, judge, report
from ladder.claims.definitions import NOTHING
from ladder.claims.evidence import Finding
from ladder.claims.judge import CLAIMED, FAILED, REPRODUCED, UNSURE
from ladder.core.verdicts import AGAIN
from ladder.storage import published_index
from ladder.storage.dataset_layout import PUBLISHED

from book import answers as study_answers
from book import loops
from book.answers import TOPICS, Answer
from book.data import Story
from book.half import held_out_of_16_bits
from book.markdown import gain_text, kernel_text, markdown_table, number, problem_text, share_text
from book.past import fastest_on, held_out

DETAILS = Path("docs/evidence.md")
"""The page that has `details`."""
CELLS = (
    "peak", "copy", "sms", "rate", "gain", "share", "over", "fastest", "study", "short", "claim", "lock", "past", "mix", "minutes",
)  # fmt: skip
"""The names that `cell` accepts."""


def tried(story: Story, kernel: str) -> str:
    """Return a table of changes to a rung, from the study `tried`: each change's speedup over the rung without it."""
    columns, tables = ["change", "problem", "times as fast", "95 %, within-run", "configuration"], []
    for answer in study_answers.of(story.root, "tried"):
        rows = [
            [
                change["what"],
                problem_text(change["problem"]),
                f"×{change['ratio']:.3f}",
                f"{change['low']:.3f} to {change['high']:.3f}",
                f"`{change['configuration']}`",
            ]
            for change in answer.measured["changes"]
            if change["kernel"] == kernel
        ]
        if rows:
            head = f"Of {kernel_text(kernel)}, on `{answer.device}`, in the same rounds as what is changed{_stale(story, answer, ' (', ')')}:"
            tables.append(f"{head}\n\n{markdown_table(columns, rows, words=(0, 1, -1))}")
    return "\n\n".join(tables) or NOTHING.capitalize() + "."


def answers(story: Story) -> str:
    """Return a table of the studies by topic: each question, the short answer on each device, and a link to its section in `details`."""
    rows = []
    for topic, names in TOPICS.items():
        rows.append([f"**{topic}**", "", "", ""])
        for name in names:
            if committed := study_answers.of(story.root, name):
                devices = "<br>".join(f"`{answer.device}`" for answer in committed)
                rows.append([committed[0].question, "<br>".join(_short(story, name)), devices, f"[`{name}`](#{name})"])
    return markdown_table(["question", "short answer", "measured on", "details"], rows, words=range(4))


def _stale(story: Story, answer: Answer, before: str, after: str = "") -> str:
    """Return why an answer no longer holds, or how many of its kernels have changed since, between two texts; "" if neither."""
    changed, count = len(answer.changed(story.kernels.values())), len(answer.kernels)
    reasons = [f"outdated: {answer.outdated}"] if answer.outdated else []
    if changed:
        which = (
            f"{changed} of its {count} kernels have"
            if changed < count
            else "its kernel has"
            if count == 1
            else "its kernels have"
        )
        reasons.append(f"{which} changed since")
    return f"{before}{'; '.join(reasons)}{after}" if reasons else ""


def _short(story: Story, name: str) -> list[str]:
    """Return the short answer on each device."""
    return [f"{answer.short}{_stale(story, answer, ' (', ')')}" for answer in study_answers.of(story.root, name)]


def details(story: Story) -> str:
    """Return a section for each study: what it found on each device, when and how, and the files with the measurements."""
    parts, above = [], "../" * len(DETAILS.parent.parts)
    for name in sorted(name for names in TOPICS.values() for name in names):
        committed = study_answers.of(story.root, name)
        if not committed:
            continue
        sentences = "\n".join(
            f"- {answer.long} (`{answer.device}`, {answer.made}{_stale(story, answer, '; ')})" for answer in committed
        )
        files = ", ".join(f"[`{answer.path.name}`]({above}{answer.path.relative_to(story.root)})" for answer in committed)
        parts.append(f"### `{name}`\n\n{committed[0].question}\n\n{sentences}\n\nData: {files}.")
    return "\n\n".join(parts)


def claimed(story: Story) -> str:
    """Return a table of claims: each claim, where it holds, its value and interval, and the states of the data judged by it.

    The range predicted for another machine is below the interval. A claim about many items has no value.
    """
    counted, rows = report.counts(story.entries), []
    for claim in definitions.read(story.root):
        entries = [entry for entry in story.entries if entry["id"].split(":")[0] == claim.id]
        entry = next((entry for entry in entries if entry["id"] == claim.id and entry["value"] is not None), None)
        says = entry["says"] if entry else claim.says
        sentence, _, end = says.rstrip(".").partition(" (")
        value, interval, predicted = end.rstrip(")") or "–", "–", "–"
        if entry and claim.near:
            known = Finding((), "", names={}, **{name: entry[name] for name in ("value", "low", "high", "processes", "machines")})
            value, interval = _exact(claim, [known.value]), _exact(claim, [known.low, known.high])
            if limit := known.prediction:
                predicted = _exact(claim, [known.value * math.exp(-limit.half), known.value * math.exp(limit.half)])
        judged = counted.get(claim.id, Counter())
        items, judged[CLAIMED] = judged[CLAIMED], 0
        states = " · ".join(f"{sign} {judged[state]}" for state, sign in SIGNS.items() if judged[state]) or "no later data"
        where = entries[0]["where"] if entries else claim.place
        rows.append([f"{sentence}.", where, value, interval, predicted, f"{items} items: {states}" if items > 1 else states])
    return markdown_table(
        ["claim", "where", "value", "95 % interval", "predicted range", "data judged by it"], rows, words=(0, 1, -1)
    )


SIGNS = {REPRODUCED: "✓", UNSURE: "≈", AGAIN: "↻", FAILED: "✗"}
"""The sign of each state in the table of claims."""


def _exact(claim: definitions.Claim, values: Sequence[float]) -> str:
    """Return numbers of a claim with four digits, in percent if its sentence has them in percent."""
    percent = "{value%}" in claim.says
    return " to ".join(f"{100 * value:.4g} %" if percent else f"{value:.4g}" for value in values)


def _lock(story: Story, device: str) -> str:
    """Return a sentence on the published runs on a device model that were not measured with the packages of the lock."""
    index = published_index.read(story.root / PUBLISHED)
    groups = [entry for group, entry in index.items() if group.startswith(f"{device}/")]
    runs, others = (
        [run for it in groups for run in it["runs"]],
        [own for it in groups for own in it.get("not_from_lock", {}).values()],
    )
    packages = ", ".join(sorted({f"`{package}`" for words in others for package in words.split(", ")}))
    other = (
        f"{len(others)} of {len(runs)} published runs are known to have used other versions than the lock that `make` installs"
    )
    return f"{other}: {packages}" if others else other


def _minutes(story: Story, dataset: str, times: str) -> str:
    """Return the minutes of a run's measure jobs if all that the device executed took `times` as long, and the host no longer."""
    if dataset not in story.folders:
        return NOTHING
    costs = Dataset.open(story.folders[dataset]).costs
    return f"{(costs['wall_seconds'].sum() + (float(times) - 1) * costs['busy_seconds'].sum()) / 60:.0f}"


def cell(story: Story, name: str, *arguments: str) -> str:
    """Return one value for a page.

    `peak KIND [DIVISOR]`, `copy KIND`, `sms KIND` and `rate|gain|share KERNEL PROBLEM` give a number. `over KERNEL OTHER PROBLEM`
    is the speedup over another kernel, `mix KERNEL PROBLEM` the instructions of its main loop. `fastest KERNEL` is on how many problems
    that nothing was tuned on a 16-bit rung is the fastest.
    `study NAME` is the answer of a study, `short NAME` its short answer; `claim ID` is a claim's sentence with its numbers; `lock
    DEVICE` says which packages of runs on a device model are not those of the lock; `past DATASET [TYPE]` how fast the rungs are on the
    shapes that nothing was tuned on; `minutes DATASET TIMES` how long a campaign measures at most where a device is so many times slower. The
    name of a published dataset, and an element type, may follow `rate` and `share`. Rungs without float32 are shown in bfloat16.
    """
    if name == "claim":
        claim = next((claim for claim in definitions.read(story.root) if claim.id == arguments[0]), None)
        if claim is None:
            raise ValueError("no such claim in config/claims.yaml")
        known = judge.read_published(story.root)
        return next((entry["says"] for entry in known if entry["id"] == claim.id and entry["value"] is not None), NOTHING)
    if name == "past":
        return held_out_of_16_bits(story, *arguments) if len(arguments) > 1 else held_out(story, *arguments)
    if name == "minutes":
        return _minutes(story, *arguments)
    if name == "lock":
        return _lock(story, *arguments)
    if name == "short":
        return "; ".join(_short(story, arguments[0])) or NOTHING
    if name == "study":
        return "; ".join(
            f"{answer.long} (`{answer.device}`{_stale(story, answer, '; ')})"
            for answer in study_answers.of(story.root, arguments[0])
        )
    if name in ("peak", "copy", "sms"):
        data = story.data.get(arguments[0])
        if data is None:
            return NOTHING
        if name == "sms":
            return str(data.environment["attributes"]["sm_count"])
        if name == "copy":
            return f"{number(data.environment['peaks']['copy_tb_s'])} TB/s"
        return f"{number(data.environment['peaks']['fp32_tflops'] / data.unit_size / float([*arguments, '1'][1]))} {data.unit}"
    if name == "mix":
        counts = loops.mix(story, *arguments)
        return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or NOTHING
    if name == "fastest":
        problems, count = fastest_on(story, *arguments)
        return f"{len(problems)} of {count}" if count else NOTHING
    if name == "over":
        pair = story.over(*arguments)
        return NOTHING if pair is None else gain_text(pair)
    if name == "gain":
        gain = story.gain(*arguments)
        return NOTHING if gain is None else gain_text(gain)
    kernel, problem, *of = arguments
    data = story.campaign(*of) if of else story.beside(kernel, problem)
    row = story.best(kernel, problem, data) if data else None
    if row is None or data is None:
        return NOTHING
    return (
        share_text(data, story.over_machines(row, data)) if name == "share" else f"{number(data.rate(row['tflops']))} {data.unit}"
    )
