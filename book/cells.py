"""Make the values that stand within a line of a page: a function for each name of a marker
`cell`.
"""

from collections.abc import Callable

from ladder.analysis.dataset import Dataset
from ladder.claims import definitions, judge
from ladder.claims.definitions import NOTHING
from ladder.storage import published_index
from ladder.storage.dataset_layout import PUBLISHED

from book import answers, loops
from book.data import Story
from book.evidence import stale
from book.half import held_out_of_16_bits
from book.markdown import gain_text, number, share_text
from book.past import fastest_on, held_out


def peak(story: Story, kind: str, divisor: str = "1") -> str:
    """Return the measured FP32 peak of a kind's device, divided by a number."""
    data = story.data.get(kind)
    if data is None:
        return NOTHING
    return (
        f"{number(data.environment['peaks']['fp32_tflops'] / data.unit_size / float(divisor))} "
        f"{data.unit}"
    )


def copy(story: Story, kind: str) -> str:
    """Return the measured copy bandwidth."""
    data = story.data.get(kind)
    return f"{number(data.environment['peaks']['copy_tb_s'])} TB/s" if data else NOTHING


def sms(story: Story, kind: str) -> str:
    """Return the number of multiprocessors."""
    data = story.data.get(kind)
    return str(data.environment["attributes"]["sm_count"]) if data else NOTHING


def rate(story: Story, kernel: str, problem: str, *dataset: str) -> str:
    """Return the throughput of a kernel, of a published dataset and element type if these
    follow.
    """
    data = story.campaign(*dataset) if dataset else story.beside(kernel, problem)
    row = story.best(kernel, problem, data) if data else None
    return f"{number(data.rate(row['tflops']))} {data.unit}" if data and row else NOTHING


def share(story: Story, kernel: str, problem: str, *dataset: str) -> str:
    """Return the ratio to the reference in percent, as `rate` does."""
    data = story.campaign(*dataset) if dataset else story.beside(kernel, problem)
    row = story.best(kernel, problem, data) if data else None
    return share_text(data, story.over_machines(row, data)) if data and row else NOTHING


def gain(story: Story, kernel: str, problem: str) -> str:
    """Return the speedup over the rung that a rung builds on."""
    row = story.gain(kernel, problem)
    return gain_text(row) if row else NOTHING


def over(story: Story, kernel: str, other: str, problem: str) -> str:
    """Return the speedup over another kernel or baseline."""
    row = story.over(kernel, other, problem)
    return gain_text(row) if row else NOTHING


def mix(story: Story, kernel: str, problem: str) -> str:
    """Return the instructions of a kernel's main loop."""
    counts = loops.mix(story, kernel, problem)
    return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or NOTHING


def fastest(story: Story, kernel: str) -> str:
    """Return on how many problems that nothing was tuned on a 16-bit rung is the fastest."""
    problems, count = fastest_on(story, kernel)
    return f"{len(problems)} of {count}" if count else NOTHING


def past(story: Story, dataset: str, *element_type: str) -> str:
    """Return how fast the rungs are on the shapes that nothing was tuned on."""
    return (
        held_out_of_16_bits(story, dataset, *element_type)
        if element_type
        else held_out(story, dataset)
    )


def study(story: Story, name: str) -> str:
    """Return the long answer of a study on each device."""
    return "; ".join(
        f"{answer.long} (`{answer.device}`{stale(story, answer, '; ')})"
        for answer in answers.of(story.root, name)
    )


def claim(story: Story, id: str) -> str:
    """Return a claim's sentence with its numbers."""
    if id not in {known.id for known in definitions.read(story.root)}:
        raise ValueError("no such claim in config/claims.yaml")
    known = judge.read_published(story.root)
    return next(
        (entry["says"] for entry in known if entry["id"] == id and entry["value"] is not None),
        NOTHING,
    )


def lock(story: Story, device: str) -> str:
    """Return a sentence on the published runs on a device model that were not measured with the
    packages of the lock.
    """
    index = published_index.read(story.root / PUBLISHED)
    groups = [entry for group, entry in index.items() if group.startswith(f"{device}/")]
    runs, others = (
        [run for it in groups for run in it["runs"]],
        [own for it in groups for own in it.get("not_from_lock", {}).values()],
    )
    packages = ", ".join(
        sorted({f"`{package}`" for words in others for package in words.split(", ")})
    )
    other = (
        f"{len(others)} of {len(runs)} published runs are known to have used other versions "
        "than the lock that `make` installs"
    )
    return f"{other}: {packages}" if others else other


def minutes(story: Story, dataset: str, times: str) -> str:
    """Return the minutes of a run's measure jobs if all that the device executed took `times` as
    long, and the host no longer.
    """
    if dataset not in story.folders:
        return NOTHING
    costs = Dataset.open(story.folders[dataset]).costs
    return f"{(costs['wall_seconds'].sum() + (float(times) - 1) * costs['busy_seconds'].sum()) / 60:.0f}"


CELLS: dict[str, Callable[..., str]] = {
    function.__name__: function
    for function in (
        peak,
        copy,
        sms,
        rate,
        share,
        gain,
        over,
        mix,
        fastest,
        past,
        study,
        claim,
        lock,
        minutes,
    )
}
"""What may stand in a marker `cell`. A rung without float32 is shown in bfloat16."""
