"""Make the parts of pages about studies and claims."""

from collections import Counter

from ladder.analysis.dataset import Dataset
from ladder.claims import definitions, report
from ladder.claims.answers import STUDIES
from ladder.claims.judge import CLAIMED, FAILED
from ladder.claims.study import NOTHING
from ladder.publishing import main_loops
from ladder.publishing.page_cells import _code, _gain, _number, _share, _shown, _table
from ladder.publishing.page_data import Story
from ladder.publishing.page_past import held_out
from ladder.storage import published_index
from ladder.storage.dataset_layout import PUBLISHED

VALUES = ("peak", "copy", "sms", "rate", "gain", "share", "over", "study", "claim", "lock", "past", "mix", "minutes")
"""The names that `value` accepts."""


def tried(story: Story, kernel: str) -> str:
    """Return a table of changes to a rung, from the study `tried`: each change's speedup over the rung without it."""
    columns, tables = ["change", "problem", "times as fast", "95 %, within-run", "configuration"], []
    for device, measured in STUDIES["tried"].published(story.root).values():
        rows = [
            [
                change["what"],
                _shown(change["problem"]),
                f"×{change['ratio']:.3f}",
                f"{change['low']:.3f} to {change['high']:.3f}",
                f"`{change['configuration']}`",
            ]
            for change in measured["changes"]
            if change["kernel"] == kernel
        ]
        if rows:
            head = f"Of {_code(kernel)}, on `{device}`, in the same rounds as what is changed:"
            tables.append(f"{head}\n\n{_table(columns, rows, words=(0, 1, -1))}")
    return "\n\n".join(tables) or NOTHING.capitalize() + "."


def answers(story: Story) -> str:
    """Return a table of studies: the question, the answer on each device, the command, and the files."""
    rows = []
    for study in STUDIES.values():
        files = [f"[`{path.name}`]({path.relative_to(story.root)})" for path in study.published(story.root)] or ["–"]
        rows.append([study.question, "<br>".join(study.sentences(story.root)), f"`{study.run}`", "<br>".join(files)])
    return _table(["question", "found", "by", "data"], rows, words=range(4))


def claimed(story: Story) -> str:
    """Return a table of claims: each claim, where it holds, the states of the published data that it judges, and how many fail."""
    counted, rows = report.counts(story.entries), []
    for claim in definitions.read(story.root):
        entries = [entry for entry in story.entries if entry["id"].split(":")[0] == claim.id]
        says = next((entry["says"] for entry in entries if entry["id"] == claim.id), claim.says)
        judged = counted.get(claim.id, Counter())
        items, judged[CLAIMED] = judged[CLAIMED], 0
        states = report.states_text(+judged) or "no later data"
        failed = (
            f"{judged[FAILED]} of {judged.total()} ({judged[FAILED] / judged.total():.1%})"
            if judged[FAILED]
            else "0"
            if +judged
            else "–"
        )
        rows.append(
            [says, entries[0]["where"] if entries else claim.place, f"{items} items: {states}" if items > 1 else states, failed]
        )
    return _table(["claim", "where", "the published data that it judges", "not reproduced"], rows, words=range(3))


def _lock(story: Story, device: str) -> str:
    """Return a sentence on the published runs on a device model that were not measured with the packages of the lock."""
    index = published_index.read(story.root / PUBLISHED)
    groups = [entry for group, entry in index.items() if group.startswith(f"{device}/")]
    runs, others = (
        [run for it in groups for run in it["runs"]],
        [own for it in groups for own in it.get("not_from_lock", {}).values()],
    )
    packages = ", ".join(sorted({package for words in others for package in words.split(", ")}))
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


def value(story: Story, name: str, *arguments: str) -> str:
    """Return one value for a page.

    `peak KIND [DIVISOR]`, `copy KIND`, `sms KIND` and `rate|gain|share KERNEL PROBLEM` give a number. `over KERNEL OTHER PROBLEM`
    is the speedup over another kernel, `mix KERNEL PROBLEM` the instructions of its main loop.
    `study NAME` is what a study found; `claim ID` is a claim's sentence with its numbers; `lock
    DEVICE` says which packages of runs on a device model are not those of the lock; `past DATASET` how fast the rungs are on the shapes
    that nothing was tuned on; `minutes DATASET TIMES` how long a campaign measures at most where a device is so many times slower. The
    name of a published dataset may follow `rate` and `share` as the last argument.
    """
    if name == "claim":
        claim = next((claim for claim in definitions.read(story.root) if claim.id == arguments[0]), None)
        if claim is None:
            raise ValueError("no such claim in config/claims.yaml")
        entry = next((entry for entry in story.entries if entry["id"] == claim.id and entry["value"] is not None), None)
        return entry["says"] if entry else NOTHING
    if name == "past":
        return held_out(story, *arguments)
    if name == "minutes":
        return _minutes(story, *arguments)
    if name == "lock":
        return _lock(story, *arguments)
    if name == "study":
        return "; ".join(STUDIES[arguments[0]].sentences(story.root))
    if name in ("peak", "copy", "sms"):
        data = story.data.get(arguments[0])
        if data is None:
            return NOTHING
        if name == "sms":
            return str(data.environment["attributes"]["sm_count"])
        if name == "copy":
            return f"{_number(data.environment['peaks']['copy_tb_s'])} TB/s"
        return f"{_number(data.environment['peaks']['fp32_tflops'] / data.unit_size / float([*arguments, '1'][1]))} {data.unit}"
    if name == "mix":
        counts = main_loops.mix(story, *arguments)
        return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or NOTHING
    if name == "over":
        pair = story.over(*arguments)
        return NOTHING if pair is None else _gain(pair)
    if name == "gain":
        gain = story.gain(*arguments)
        return NOTHING if gain is None else _gain(gain)
    kernel, problem, *of = arguments
    data = story.campaign(*of) if of else story.beside(kernel)
    row = story.best(kernel, problem, data) if data else None
    if row is None or data is None:
        return NOTHING
    return _share(data, story.over_machines(row, data)) if name == "share" else f"{_number(data.rate(row['tflops']))} {data.unit}"
