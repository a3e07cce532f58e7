"""Make the tables of pages about studies and claims."""

import math
import re
from collections import Counter
from functools import partial
from statistics import median

from ladder.claims import definitions, report
from ladder.claims.definitions import NEAR
from ladder.claims.judge import CLAIMED, FAILED, REPRODUCED, UNSURE, claim_of, finding_of
from ladder.core import verdicts
from ladder.core.verdicts import AGAIN

from book import answers as study_answers
from book.answers import TOPICS, Answer
from book.data import Story, Unmeasured
from book.markdown import markdown_table, problem_text

ABOVE = "../"
"""From the page with `answers` to the root."""


def tried(story: Story, kernel: str) -> str:
    """Return a table of changes to a rung, from the study `tried`: each change's speedup over the
    rung without it.
    """
    columns = ["change", "problem", "times as fast, 95 % within-run"]
    tables = []
    for answer in study_answers.of(story.root, "tried"):
        rows = [
            [
                change["what"],
                problem_text(change["problem"]),
                verdicts.plus_minus(change["ratio"], change["low"], change["high"]),
            ]
            for change in answer.measured["changes"]
            if change["kernel"] == kernel
        ]
        head = f"On `{answer.device}`, in the same rounds{stale(story, answer, ' (', ')')}:"
        if rows:
            tables.append(f"{head}\n\n{markdown_table(columns, rows, words=(0, 1))}")
    if not tables:
        raise Unmeasured
    return "\n\n".join(tables)


def power_limit(story: Story, size: str) -> str:
    """Return a table of what rung 21 and its parts take at a size, launched back to back, beside
    plain products of FP16 operands, from the study `power_limit`.
    """
    tables = []
    for answer in study_answers.of(story.root, "power_limit"):
        (at,) = (row for row in answer.measured["rows"] if str(row["size"]) == size)
        held, plain = at["held"], at["products"]["128 x 256"]
        cycles = at["size"] ** 3 / (MULTIPLY_ADDS * answer.measured["sm_count"])  # of a product
        launches = [
            ("rung 21", held["whole"], 3),
            ("only its split", held["split"], 0),
            ("only its products", held["product"], 3),
            ("one FP16 product, tiles of 128 × 256", plain, 1),
        ]
        rows = []
        for name, run, products in launches:
            busy = 100 * products * cycles / (run["us"] * run["clock_mhz"])
            cells = [f"{run[key]:.0f}" for key in ("us", "clock_mhz", "power_w")]
            rows.append([name, *cells, f"{busy:.0f} %" if products else "–"])
        least = 3 * plain["us"] + held["split"]["us"]
        rows.append(["three such products and the split, computed", f"{least:.0f}"])
        columns = ["launch", "time, µs", "SM clock, MHz", "power, W", "tensor cores busy"]
        note = f"One `{answer.device}`{stale(story, answer, '; ')}"
        tables.append(markdown_table(columns, rows, notes=[note]))
    if not tables:
        raise Unmeasured
    return "\n\n".join(tables)


MULTIPLY_ADDS = 2048
"""Of 16-bit operands, by the tensor cores of an SM in a cycle: NVIDIA's H100 white paper."""


def gates(story: Story) -> str:
    """Return a table of the study `gate_rates` for each device: how often its gates, and their
    comparisons, said what of each change, and how wide the intervals are.
    """
    tables = []
    for answer in study_answers.of(story.root, "gate_rates"):
        gates = list(answer.measured.values())
        rows = [[row for each in change for row in each["rows"]] for change in gates]
        ratios = [[row["ratio"] for row in each if row["ratio"]] for each in rows]
        lines = []
        for what, key, found in (("gates", "result", gates), ("comparisons", "verdict", rows)):
            said = [Counter(each[key] for each in change) for change in found]
            lines.append([f"**{what}**", *(str(len(change)) for change in found)])
            for word in sorted(set().union(*said)):
                lines.append([word, *(str(count[word]) for count in said)])
        middles = [median(value for value, *_ in each) for each in ratios]
        halves = [median(math.sqrt(high / low) - 1 for _, low, high in each) for each in ratios]
        lines.append(["speed, head / base, median", *(f"{each:.3f}" for each in middles)])
        lines.append(["half of its interval, median", *(f"{100 * each:.2f} %" for each in halves)])
        changes = [f"{by} % slower" if int(by) else "unchanged" for by in answer.measured]
        head = f"On `{answer.device}`{stale(story, answer, ' (', ')')}:"
        tables.append(f"{head}\n\n{markdown_table(['', *changes], lines)}")
    if not tables:
        raise Unmeasured
    return "\n\n".join(tables)


def answers(story: Story) -> str:
    """Return the studies by topic: each question, and the short answer on each device with its date,
    whether it still holds, and a link to its file.
    """
    parts = []
    for topic, names in TOPICS.items():
        parts.append(f"\n## {topic}\n")
        for name in names:
            if committed := study_answers.of(story.root, name):
                said = "; ".join(map(partial(_short, story), committed))
                parts.append(f'- <a id="{name}"></a>**{committed[0].question}** {said}')
    return "\n".join(parts).strip()


def _short(story: Story, answer: Answer) -> str:
    path = f"{ABOVE}{answer.path.relative_to(story.root)}"
    when = f"{answer.date}{stale(story, answer, '; ')}"
    text = re.sub(r"(\d)%", r"\1 %", answer.short)
    return f"{text} ([`{answer.device}`]({path}), {when})"


def stale(story: Story, answer: Answer, before: str, after: str = "") -> str:
    """Return why an answer no longer holds, or how many of its kernels have changed since, between
    two texts; "" if neither.
    """
    changed, count = len(answer.changed(story.kernels.values())), len(answer.kernels)
    reasons = [f"outdated: {answer.outdated}"] if answer.outdated else []
    if changed:
        which = (
            f"{changed} of its {count} kernels {'has' if changed == 1 else 'have'}"
            if changed < count
            else "its kernel has"
            if count == 1
            else "its kernels have"
        )
        reasons.append(f"{which} changed since")
    return f"{before}{'; '.join(reasons)}{after}" if reasons else ""


def claimed(story: Story) -> str:
    """Return a table of claims: each claim, where it holds, its value, that predicted for another
    machine, and the states of the data judged by it. A claim about many items has no value.
    """
    claims, rows = report.grouped(story.entries, claim_of), []
    for claim in definitions.read(story.root):
        entries = claims[claim.id]
        first = entries[0]
        whole = first["id"] == claim.id and first["value"] is not None
        says = first["says"] if whole else claim.says
        sentence, _, end = says.rstrip(".").partition(" (")
        cells = [end.rstrip(")") or "–", "–"]
        if whole and claim.test == NEAR:
            known, percent = finding_of(first), "%}" in claim.says
            value = verdicts.plus_minus(known.value, known.low, known.high, percent)
            cells[0] = f"{value} ({end.rstrip(')')})"
            if limit := known.prediction:
                low, high = (known.value * math.exp(sign * limit.half) for sign in (-1, 1))
                cells[1] = verdicts.plus_minus(known.value, low, high, percent)
        judged = Counter(entry["state"] for entry in entries)
        states = " · ".join(
            f"{sign} {judged[state]}" for state, sign in SIGNS.items() if judged[state]
        )
        items = f"{judged[CLAIMED]} items: " if judged[CLAIMED] > 1 else ""
        text = f"{items}{states or 'no later data'}"
        rows.append([f"{sentence}.", first["where"], *cells, text])
    columns = ["claim", "where", "value", "predicted range", "data judged by it"]
    return markdown_table(columns, rows, words=(0, 1, -1))


SIGNS = {REPRODUCED: "✓", UNSURE: "≈", AGAIN: "↻", FAILED: "✗"}
"""The sign of each state in the table of claims."""
