"""The texts of `ladder try`: what was refused, the speed beside the others, and the changes since
the last try.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ladder.analysis.kernel_model import model
from ladder.analysis.measurements import FEW_PROBLEMS, disturbance
from ladder.compiling.compile import Resource
from ladder.core import verdicts
from ladder.core.stats import median_interval, paired_ratio
from ladder.core.surroundings import cores
from ladder.core.types import OF_CUDA, rate_unit, tflops
from ladder.measuring.gauntlet import problems
from ladder.measuring.trial import Entry, label_of
from ladder.model.baselines import BASELINES
from ladder.model.hardware_limits import measured_peak
from ladder.model.problem import Problem

NAN_AT_ALPHA_0 = (
    "NaN at alpha 0: where alpha is 0 and A or B has NaN, so has C. BLAS leaves that open. To "
    "avoid it, write "
    "`alpha == 0 ? 0 : alpha * sum`"
)


def refusals(rows: Sequence[Resource]) -> list[str]:
    """Return what the compiler refused. Configurations with the same message share one text."""
    alike: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        alike.setdefault((row.status, row.reason or ""), []).append(
            label_of(row.kernel, row.configuration)
        )
    return [
        f"{status}: "
        f"{', '.join(labels[:3])}{f' and {len(labels) - 3} more' if len(labels) > 3 else ''}\n{reason}"
        for (status, reason), labels in alike.items()
    ]


def rates(entry: Entry, problem: Problem, environment: Mapping[str, Any]) -> str:
    """Return how fast an entry is beside the reference, the best rung and the measured peak, with
    within-run intervals.
    """
    unit, size = rate_unit(entry.kernel.kind)
    us, low, high = median_interval(entry.samples["samples_us"])
    rate, least, most = (
        tflops(problem.m, problem.n, problem.k, value) / size for value in (us, high, low)
    )
    words = [f"{entry.label}: {_interval(rate, least, most)} {unit}"]
    words.append(f"of {BASELINES[entry.kernel.kind][0]} {_interval(*entry.ratio())}")
    words += [f"of {rung.kernel.name} {_interval(*entry.ratio(rung))}" for rung in _rungs(entry)]
    if share := of_peak(entry, problem, environment):
        words.append(
            f"of the measured peak {share:.0%}"
            if share <= 1
            else "above the measured peak, which other work has lowered"
        )
    return "; ".join(words)


def of_peak(entry: Entry, problem: Problem, environment: Mapping[str, Any]) -> float | None:
    """Return an entry's rate as a share of the measured peak of the units that it uses; None where
    that is not measured.
    """
    peak = measured_peak(environment, problem.element_type)
    if not peak or (
        entry.gauntlet.tensor_cores and problem.element_type not in OF_CUDA
    ):  # that peak is of the FP32 or FP64 lanes
        return None
    return (
        tflops(problem.m, problem.n, problem.k, median_interval(entry.samples["samples_us"])[0])
        / peak
    )


def _rungs(entry: Entry) -> list[Entry]:
    """Return the rungs that were timed beside an entry."""
    return [
        rung
        for rung in entry.beside
        if rung.samples and rung.kernel.path.parent == entry.kernel.path.parent
    ]


def rungs(entry: Entry) -> list[str]:
    """Return the configurations of the rungs that were timed beside an entry, if they have
    parameters.
    """
    return [
        f"{rung.kernel.name}: {rung.configuration.label}"
        for rung in _rungs(entry)
        if rung.configuration.label != "-"
    ]


def gauntlet(entry: Entry) -> str:
    """Return how many problems of the gauntlet an entry was asked, if it needs something; else
    "".
    """
    whole, asked, changed = (
        len(problems(entry.configuration.element_type)),
        entry.gauntlet.gauntlet_problems,
        entry.gauntlet.gauntlet_changed,
    )
    if asked == whole and not changed:
        return ""
    few = (
        f"; fewer than {FEW_PROBLEMS} say little about other problems"
        if asked < FEW_PROBLEMS
        else ""
    )
    return (
        f"the gauntlet asked {asked} of its {whole} problems, {changed} of them changed to what "
        f"it needs{few}"
    )


def model_words(entry: Entry, problem: Problem, environment: Mapping[str, Any]) -> str:
    """Return what a GPU's model says about a configuration, in words; "" for a CPU."""
    if entry.kernel.kind != "cuda":
        return ""
    row = model(entry.kernel, entry.configuration, problem, entry.resource, environment)
    words = [resources(entry.resource)]
    if "occupancy" in row:
        words.append(
            f"{row['shared_bytes']} bytes of shared memory a block, {row['blocks_per_sm']} blocks "
            f"an SM, occupancy {row['occupancy']:.0%} "
            f"(limited by {row['occupancy_limit']})"
        )
    if "bank_conflicts" in row:
        words.append(
            "bank conflicts by the model "
            f"{row['bank_conflicts'] / max(row['shared_wavefronts'], 1):.0%} of wavefronts"
        )
    return "; ".join(words)


def resources(resource: Mapping[str, Any]) -> str:
    """Return registers, spills and static shared memory of a binary, in words."""
    spills = (resource["spill_stores"] or 0) + (resource["spill_loads"] or 0)
    return (
        f"{resource['registers']} registers, {spills} bytes of spills, "
        f"{resource['static_shared']} bytes of static shared memory"
    )


def doubts(kind: str, others: float, reference_us: Sequence[float]) -> dict[str, str]:
    """Return why no time of a try is a result, in words, by the marks that a campaign would give:
    `verdicts.BUSY`.

    A try does not time the reference as a candidate. So its rounds with odd and with even numbers
    are compared with each other.
    """
    pairs = len(reference_us) // 2 * 2
    words = {"disturbed": disturbance(kind, others, f" of {cores()}"), "unsteady": ""}
    if pairs:
        itself = paired_ratio(reference_us[0:pairs:2], reference_us[1:pairs:2])
        if not verdicts.steady(*itself):
            words["unsteady"] = (
                f"{BASELINES[kind][0]} is {_interval(*itself)} times as fast as itself in "
                "neighboring rounds"
            )
    return {mark: reason for mark, reason in words.items() if reason}


def changes(best: Entry, last: Entry, doubtful: bool = False) -> str:
    """Return how the best entry compares with that of the last correct try, in words. No verdict on
    a `doubtful` time is known.
    """
    names = ("registers", "static_shared", "spill_stores", "spill_loads")
    changed = [
        f"{name.replace('_', ' ')} {last.resource[name]} -> {best.resource[name]}"
        for name in names
        if last.resource[name] != best.resource[name]
    ]
    again = next((entry for entry in best.beside if entry.kernel.path == last.kernel.path), None)
    if best.resource["sha256"] == last.resource["sha256"]:
        verdict = "the same machine code"
    elif again is None:
        verdict = f"{best.label} is the best now, {last.label} was"
    elif not again.samples:
        verdict = f"it could not be timed again: {again.reason}"
    else:
        ratio, low, high = best.ratio(again)
        verdict = (
            f"{verdicts.AGAIN if doubtful else verdicts.of(low, high)}, "
            f"{_interval(ratio, low, high)} times as fast in the same rounds"
        )
    return "; ".join([verdict, *changed])


def _interval(value: float, low: float, high: float) -> str:
    ends = f"{low:.3g} to {high:.3g}" if verdicts.known(value, low, high) else verdicts.NOT_KNOWN
    return f"{value:.3g} (interval {ends})"
