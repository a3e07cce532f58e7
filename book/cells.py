"""Make the values that stand within a line of a page: a function for each name of a marker
`cell`.
"""

from collections.abc import Callable

from ladder.claims import definitions, judge
from ladder.claims.definitions import NOTHING
from ladder.figures.data import View
from ladder.storage import published_index
from ladder.storage.dataset_layout import PUBLISHED

from book import answers, loops
from book.data import Row, Story, Unmeasured
from book.evidence import stale
from book.half import held_out_of_16_bits
from book.markdown import gain_text, number, share_text
from book.past import fastest_on, held_out


def measured(row: Row | None) -> Row:
    """Return a row. Raises `Unmeasured` if there is none."""
    if row is None:
        raise Unmeasured
    return row


def peak(story: Story, kind: str, divisor: str = "1") -> str:
    """Return the measured FP32 peak of a kind's device, divided by a number."""
    data = story.view(kind)
    peak = data.environment["peaks"]["fp32_tflops"] / data.unit_size
    return f"{number(peak / float(divisor))} {data.unit}"


def tensor_peak(story: Story, dataset: str) -> str:
    """Return the measured peak of the tensor cores in 16 bits."""
    peaks = story.opened(dataset).environment["peaks"]
    return f"{number(peaks['tensor_16_bit_tflops'])} TFLOP/s"


def sms(story: Story, kind: str) -> str:
    """Return the number of multiprocessors."""
    return str(story.view(kind).environment["attributes"]["sm_count"])


def best(story: Story, kernel: str, problem: str, *dataset: str) -> tuple[View, Row]:
    """Return the best row of a kernel and the data that have it: a published dataset and element
    type if these follow.
    """
    data = story.campaign(*dataset) if dataset else story.dataset(kernel, problem)
    return data, measured(data.best_rows.get((kernel, problem)))


def rate(story: Story, kernel: str, problem: str, *dataset: str) -> str:
    """Return the throughput of a kernel, as `best` takes it."""
    data, row = best(story, kernel, problem, *dataset)
    return f"{number(data.rate(row['tflops']))} {data.unit}"


def share(story: Story, kernel: str, problem: str, *dataset: str) -> str:
    """Return the ratio to the reference in percent, as `best` takes it."""
    data, row = best(story, kernel, problem, *dataset)
    return share_text(data, story.over_machines(row, data))


def gain(story: Story, kernel: str, problem: str) -> str:
    """Return the speedup over the rung that a rung builds on."""
    return gain_text(measured(story.gain(kernel, problem)))


def over(story: Story, kernel: str, other: str, problem: str) -> str:
    """Return the speedup over another kernel or baseline."""
    return gain_text(measured(story.dataset(kernel, problem).over(kernel, other, problem)))


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
    for entry in judge.read_published(story.root):
        if entry["id"] == id and entry["value"] is not None:
            return str(entry["says"])
    raise Unmeasured


def lock(story: Story, device: str) -> str:
    """Return a sentence on the published runs on a device model that were not measured with the
    packages of the lock.
    """
    index = published_index.read(story.root / PUBLISHED)
    groups = [entry for group, entry in index.items() if group.startswith(f"{device}/")]
    runs = sum(len(entry["runs"]) for entry in groups)
    others = [own for entry in groups for own in entry.get("not_from_lock", {}).values()]
    packages = sorted({f"`{package}`" for words in others for package in words.split(", ")})
    return (
        f"{len(others)} of {runs} published runs are known to have used other versions than the "
        f"lock that `make` installs{': ' if packages else ''}{', '.join(packages)}"
    )


def minutes(story: Story, dataset: str, times: str) -> str:
    """Return the minutes of a run's measure jobs if all that the device executed took `times` as
    long, and the host no longer.
    """
    costs = story.opened(dataset).costs
    longer = (float(times) - 1) * costs["busy_seconds"].sum()
    return f"{(costs['wall_seconds'].sum() + longer) / 60:.0f}"


CELLS: dict[str, Callable[..., str]] = {
    function.__name__: function
    for function in (
        peak,
        tensor_peak,
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
