"""Launches timed beside each other in the same rounds, under conditions that may matter.

    .venv/bin/python studies/beside.py CASE [--rounds N] [--dataset NAME]

- `disturbance`: cuBLAS and two rungs with nvcc at work on every core, and without. On a GPU; about 20 s a round.
- `neighbours`: BLAS with one thread and a rung on the CPU, beside BLAS with all threads, and alone. OpenBLAS's threads spin for a while
  after a call, on cores that the next launch wants; the CPU device waits until they are at rest. `unsettled` is without that wait. About
  10 s a round.
- `thin`: what a call of BLAS and of rung 04 takes whatever M is, and what a row of C takes: lines through the times at several M, by least
  squares of the relative differences. A is M x 1024, B 1024 x 1024, both with one thread. About 10 s a round.
- `placement`: each problem's fastest rung of a published dataset beside cuBLAS, with operands at boundaries of 2 MiB, where the driver
  begins large allocations, and at a few of the places to which a campaign moves them by chance. On a GPU; about 2 minutes.
- `tensor`: rung 21, in its best published configuration, beside SGEMM; each beside itself alone, for tensor cores draw so much power that
  what is timed in the same rounds is timed at a lower clock; each launched for some seconds, with the energy that the board counts; and all
  configurations on operands of which every chunk is left to float32. On a GPU of compute capability 9.0; about a minute.
- `power_limit`: rung 21 launched back to back, whole and each of its two launches alone, and rung 34, which has one product of 16 bits where
  rung 21 has three: times, clocks and power. On a GPU of compute capability 9.0; about a minute.
- `tried`: the changes of `studies/changes.py` beside the rungs as they are. The same; about four minutes.

Measured are medians in microseconds, their ratios, and joules.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from changes import CHANGES, Change, as_it_is, changed
from ladder.analysis.dataset import Dataset
from ladder.claims.answers import STUDIES
from ladder.claims.study import command_line, furthest
from ladder.compiling.compile import compile_kernel, compile_support
from ladder.core.errors import InputError
from ladder.core.files import ROOT
from ladder.core.stats import median_interval, paired_ratio
from ladder.core.surroundings import cores
from ladder.devices import cpu, operands
from ladder.devices.back_to_back import MEASURED_SECONDS
from ladder.devices.base import Launch
from ladder.devices.detect import detect_cpu
from ladder.devices.lock import first_gpu
from ladder.measuring import timing
from ladder.measuring.verify import judge
from ladder.measuring.worker import open_device
from ladder.model.campaign import Limits
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import discover, parse
from ladder.model.problem import Problem
from ladder.publishing.page_data import Story
from ladder.publishing.page_past import fastest_rungs
from ladder.storage.dataset_layout import PUBLISHED
from ladder.storage.published_index import HEADLINE, featured

SETTLE_SECONDS = 3.0
"""Until every core compiles."""
PLACES = 5
UNFIT = "lognormal"
"""The distribution of which no chunk fits."""


class Bench:
    """A device of this machine that measures in this process, and the digests of what it has compiled."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.here = first_gpu() if kind == "cuda" else detect_cpu()
        self.uuids, self.folder = list(self.here.uuids[:1]), folder
        (folder / "support").write_bytes(compile_support(kind, self.here.arch))
        self.device = open_device(kind, next(iter(self.uuids), ""), folder / "support")
        self.binaries: dict[str, str] = {}

    @contextmanager
    def on(self, problem: Problem) -> Iterator[None]:
        """Have the operands of a problem in use."""
        self.problem, drawn = problem, self.device.operands(problem)
        try:
            yield
        finally:
            self.device.free(drawn)

    def kernel(self, kernel: Kernel, configuration: Configuration, name: str = "") -> Launch:
        """A kernel in a configuration, compiled, and correct on the present problem. Raises `InputError` if it is not."""
        folder = self.folder / name / kernel.name
        (row,) = compile_kernel(kernel, [(configuration, "")], self.here.arch, folder, 1)
        if row.status != "compiled":
            raise InputError(f"{kernel.id}: {configuration.label}: {row.status}: {row.reason}")
        self.binaries[f"{kernel.name} {configuration.label} {name}".strip()] = row.sha256
        self.built = folder / row.binary
        return self.check(self.device.kernel(kernel, configuration, self.built.read_bytes()))

    def rung(self, id: str, **parameters: int) -> Launch:
        """A kernel of the ladder by its defaults and these parameters."""
        kernel = discover(ROOT)[id]
        return self.kernel(kernel, Configuration("float32", tuple({**kernel.parameters, **parameters}.items())))

    def baseline(self, name: str) -> Launch:
        """A launch of a vendor's library, correct on the present problem."""
        return self.check(self.device.baseline(name))

    def check(self, launch: Launch) -> Launch:
        """The launch. Raises `InputError` if its result is not correct."""
        verdict = judge(self.device.check(launch), self.problem)
        if verdict.status != "correct":
            raise InputError(f"{self.problem.label}: {verdict.status}: {verdict.reason}")
        return launch

    def part(self, kernel: Kernel, configuration: Configuration, index: int) -> Launch:
        """One of the launches of a kernel that `kernel` has just compiled and checked."""
        whole = Kernel.launches
        with mock.patch.object(Kernel, "launches", lambda *given: whole(*given)[index : index + 1]):
            return self.device.kernel(kernel, configuration, self.built.read_bytes())

    def hold(self, launch: Launch, us: float, seed: int) -> dict[str, float]:
        """What a launch of about `us` takes back to back, with clock and power. Raises `InputError` without an energy counter."""
        repeats = max(1, round(Limits().sample_us / us))
        timed = self.device.sustain(self.device.sample(launch, repeats), repeats * us, seed)
        if timed.power_w is None or timed.sm_clock_mhz is None:
            raise InputError("the GPU's energy or clock cannot be read")
        return {"us": timed.us / repeats, "clock_mhz": timed.sm_clock_mhz, "power_w": timed.power_w}

    def time(self, launches: Sequence[Launch], reference: Launch, samples: int = 20, seed: int = 0) -> list[timing.Series]:
        """Some samples of each launch and of the reference beside it, in the same rounds. Raises `InputError` if one is not correct."""
        limits = Limits(min_samples=samples, max_samples=samples, target=1e-6, race=False)
        rounds = timing.Rounds(self.device, dict(enumerate(launches)), reference, "warm", limits, seed)
        series: dict[int, timing.Series] = {}
        while not rounds.done:
            series |= rounds.next()
        for index in series:
            if series[index].fault:
                raise InputError(f"{self.problem.label}: {series[index].fault}")
        return [series[index] for index in range(len(launches))]

    def medians(self, launches: Sequence[Launch], reference: Launch, samples: int = 20) -> list[float]:
        """Of each launch, in microseconds."""
        return [median(series.samples) for series in self.time(launches, reference, samples)]


def median(samples: Sequence[float]) -> float:
    """The median of samples."""
    return median_interval(samples)[0]


@contextmanager
def compiling(arch: str) -> Iterator[None]:
    """What the pipeline's compile jobs do, with all cores."""
    with subprocess.Popen([sys.executable, __file__, "--compile", arch], start_new_session=True) as load:
        time.sleep(SETTLE_SECONDS)
        try:
            yield
        finally:
            os.killpg(load.pid, signal.SIGKILL)


def compile_for_ever(arch: str) -> None:
    """Compile a rung again and again."""
    kernel = discover(ROOT)["cuda/10_block_tile_128"]
    while True:
        with tempfile.TemporaryDirectory() as folder:
            compile_kernel(kernel, list(kernel.expand({}, ["float32"])), arch, Path(folder), os.cpu_count() or 1)


def disturbance(bench: Bench, rounds: int, sizes: Sequence[int] = (256, 1024, 4096), samples: int = 30) -> dict[str, Any]:
    """Stretches of measuring in turns, quiet and busy, each with all launches in the same rounds."""
    rows: list[dict[str, Any]] = []
    walls: list[dict[str, Any]] = []
    names = ("cublas", "cuda/03_shared_tile", "cuda/10_block_tile_128")
    for size in sizes:
        with bench.on(Problem(size, size, size)):
            launches = [bench.baseline(names[0]), *map(bench.rung, names[1:])]
            medians: dict[str, list[list[float]]] = {"quiet": [], "busy": []}
            wall: dict[str, list[float]] = {"quiet": [], "busy": []}
            for how in ("quiet", "busy") * rounds:
                with compiling(bench.here.arch) if how == "busy" else nullcontext():
                    start = time.monotonic()
                    medians[how].append(bench.medians(launches, launches[0], samples))
                    wall[how].append(time.monotonic() - start)
        for name, quiet, busy in zip(names, zip(*medians["quiet"], strict=True), zip(*medians["busy"], strict=True), strict=True):
            ratios = [loud / still for still, loud in zip(quiet, busy, strict=True)]
            middle, low, high = median_interval(ratios)
            rows.append({"size": size, "name": name, "busy_to_quiet": middle, "low": low, "high": high, "ratios": ratios})
            print(f"{size} {name}: busy/quiet {middle:.4f} [{low:.4f}, {high:.4f}]", flush=True)
        walls.append({"size": size, **wall})
    return {"cores": len(os.sched_getaffinity(0)), "pairs": rounds, "rows": rows, "wall_seconds": walls}


def neighbours(bench: Bench, rounds: int, sizes: Sequence[int] = (256, 1024), samples: int = 20) -> dict[str, Any]:
    """Ratios of the medians beside `blas_all`, with the wait and without, to those of the stretch alone before."""
    rows, names = [], ("blas_1", "cpu/03_blocked")
    for size in sizes:
        with bench.on(Problem(size, size, size)):
            alone = [bench.baseline("blas_1"), bench.rung(names[1])]
            both = [*alone, bench.baseline("blas_all")]
            ratios: dict[str, dict[str, list[float]]] = {name: {"beside": [], "unsettled": []} for name in names}
            for _ in range(rounds):
                quiet = bench.medians(alone, alone[0], samples)
                waits: Mapping[str, AbstractContextManager[Any]] = {
                    "beside": nullcontext(), "unsettled": mock.patch.object(cpu, "_settle", lambda: None)
                }  # fmt: skip
                for how, wait in waits.items():
                    with wait:
                        for name, us, before in zip(names, bench.medians(both, both[0], samples), quiet, strict=False):
                            ratios[name][how].append(us / before)
        rows += [
            {"size": size, "name": name, **{how: median(values) for how, values in by.items()}, "ratios": by}
            for name, by in ratios.items()
        ]
    return {"cores": cores(), "sizes": sizes, "pairs": rounds, "rows": rows}


def thin(
    bench: Bench, rounds: int, heights: Sequence[int] = (24, 36, 48, 96, 192, 384), side: int = 1024, samples: int = 30
) -> dict[str, Any]:
    """Times by rows of C, whole slivers of the rung's, of 12 rows; and the lines through them."""
    times: dict[str, dict[int, float]] = {"blas_1": {}, "cpu/04_vectorized_parallel": {}}
    for m in heights:
        with bench.on(Problem(m, side, side)):
            launches = [bench.baseline("blas_1"), bench.rung("cpu/04_vectorized_parallel", THREADS=1)]
            medians = [bench.medians(launches, launches[0], samples) for _ in range(rounds)]
        for name, of in zip(times, zip(*medians, strict=True), strict=True):
            times[name][m] = median(of)
    return {
        "side": side,
        "stretches": rounds,
        "times_us": times,
        "lines": [{"name": name, **line(of)} for name, of in times.items()],
    }


def line(times: Mapping[int, float]) -> dict[str, float]:
    """The line through times in microseconds by rows of C: `fixed_us`, `row_us`, and `off`, the ratio to it that is furthest from 1."""
    m, us = np.array(list(times), float), np.array(list(times.values()))
    (fixed, row), *_ = np.linalg.lstsq(np.stack([1 / us, m / us], axis=1), np.ones(len(m)))
    return {"fixed_us": fixed, "row_us": row, "off": furthest(us / (fixed + row * m))}


def fastest(dataset: str) -> list[tuple[Problem, str, Configuration]]:
    """Every problem of a published dataset with the kernel and configuration of its fastest rung."""
    chosen = []
    for row in fastest_rungs(Story(ROOT).published(dataset)):
        m, n, k = (int(row[name]) for name in "mnk")
        problem = Problem(m, n, k, alpha=float(row["alpha"]), beta=float(row["beta"]), padding=int(row["padding"]))
        chosen.append((problem, row["kernel"], Configuration.of("float32", row["configuration"])))
    return chosen


@contextmanager
def at_boundaries() -> Iterator[None]:
    """Have operands begin where the driver's allocator puts them."""
    from ladder.devices import cuda_operands  # which needs the driver

    with mock.patch.multiple(operands, GUARD=0, RESULT_SHIFTS=1), mock.patch.object(cuda_operands, "SHIFTS", 1):
        yield


def placement(bench: Bench, rounds: int, dataset: str) -> dict[str, Any]:
    """Each problem's fastest rung beside cuBLAS, at the boundaries and at other places."""
    rows, known = [], discover(ROOT)
    for problem, rung, configuration in fastest(dataset):
        places = []
        for place in range(1 + rounds):
            with nullcontext() if place else at_boundaries(), bench.on(problem):
                launch = bench.kernel(known[f"cuda/{rung}"], configuration)
                (series,) = bench.time([launch], bench.baseline("cublas"), 10, place)
            ratio = paired_ratio(series.reference, series.samples)[0]
            places.append({"rung_us": median(series.samples), "cublas_us": median(series.reference), "ratio": ratio})
        rows.append({
            "problem": problem.label, "rung": f"{rung} {configuration.label}", "aligned": places[0], "elsewhere": places[1:],
        })  # fmt: skip
        print(f"{problem.label}: {rung}", *(f"{place['ratio']:.3f}" for place in places), flush=True)
    return {"dataset": dataset, "rows": rows}


def best_of(kernel: Kernel, dataset: str) -> Mapping[str, str]:
    """The best configuration of a kernel in a published dataset by problem."""
    best = Dataset.open(featured(ROOT / PUBLISHED)[dataset], [kernel]).best
    chosen = best[(best["kernel"] == kernel.name) & (best["state"] == "warm")]
    return dict(zip(chosen["problem"].astype(str), chosen["configuration"], strict=True))


PRODUCT_TYPE, PRODUCT_RUNG = "float16", "cuda/34_half_late_stores"
PRODUCT_TILES = {"128 x 128": {"BN": 128, "STAGES": 6}, "128 x 256": {}}
"""What `power_limit` holds beside rung 21: of these operands one product, by this rung, in tiles as large as rung 21's and in its own."""


def power_limit(bench: Bench, rounds: int, dataset: str, sizes: Sequence[int] = (4096, 8192)) -> dict[str, Any]:
    """Where rung 21's time goes when the power is at its limit, beside single products with nothing to split or to promote."""
    known, rows = discover(ROOT), []
    split, single = known["cuda/21_tensor_split"], known[PRODUCT_RUNG]
    best = best_of(split, dataset)
    for size in sizes:
        held: dict[str, list[dict[str, float]]] = {}
        for turn in range(rounds):
            with bench.on(Problem(size, size, size)):
                configuration = Configuration.of("float32", best[str(size)])
                whole = bench.kernel(split, configuration)
                us = bench.medians([whole], whole, 3)[0]
                held.setdefault("whole", []).append(bench.hold(whole, us, turn))
                # each launch by itself: it finds in the workspace what the last whole one has left there
                with mock.patch.object(bench.device, "_poison_workspace", lambda: None, create=True):
                    for index, name in enumerate(("split", "product")):
                        held.setdefault(name, []).append(bench.hold(bench.part(split, configuration, index), us, turn))
            with bench.on(Problem(size, size, size, PRODUCT_TYPE)):
                for tile, parameters in PRODUCT_TILES.items():
                    given = {**single.parameters, **parameters}
                    launch = bench.kernel(single, Configuration(PRODUCT_TYPE, tuple(given.items())))
                    held.setdefault(tile, []).append(bench.hold(launch, bench.medians([launch], launch, 3)[0], turn))
        medians = {
            what: {name: median([timed[name] for timed in several]) for name in several[0]} for what, several in held.items()
        }
        products = {tile: medians.pop(tile) for tile in PRODUCT_TILES}
        rows.append({"size": size, "configuration": best[str(size)], "held": medians, "products": products})
        print(rows[-1], flush=True)
    return {"held_seconds": MEASURED_SECONDS, "sm_count": bench.device.names["sm_count"], "rows": rows}


def tensor(bench: Bench, rounds: int, dataset: str, sizes: Sequence[int] = (512, 1024, 2048, 4096, 8192)) -> dict[str, Any]:
    """Rung 21 beside SGEMM in the same rounds, alone, held, and where no chunk fits."""
    kernel = discover(ROOT)["cuda/21_tensor_split"]
    best = best_of(kernel, dataset)
    configurations = {
        configuration.label: configuration for configuration, objection in kernel.expand({}, ["float32"]) if not objection
    }
    compile_kernel(
        kernel,
        [(configuration, "") for configuration in configurations.values()],
        bench.here.arch,
        bench.folder / kernel.name,
        cores(),
    )
    names, rows = ("rung_us", "sgemm_us"), []
    for size in sizes:
        row: dict[str, Any] = {"size": size, "configuration": best[str(size)], "held": {}}
        with bench.on(problem := Problem(size, size, size)):
            launches = [bench.kernel(kernel, configurations[best[str(size)]]), bench.baseline("cublas")]
            (series,) = bench.time(launches[:1], launches[1], rounds)
            row["together"] = {"rung_us": median(series.samples), "sgemm_us": median(series.reference)}
            row["alone"] = {
                name: bench.medians([launch], launch, rounds)[0] for name, launch in zip(names, launches, strict=True)
            }
            for name, launch in zip(names, launches, strict=True):
                held = bench.hold(launch, row["alone"][name], size)
                row["held"] |= {name: held["us"], name.replace("_us", "_j"): held["power_w"] * held["us"] / 1e6}
        with bench.on(replace(problem, distribution=UNFIT)):
            # the fastest beside SGEMM, as a campaign on such operands would choose it; most are slow there, so a few samples do
            several = bench.time(
                [bench.kernel(kernel, configuration) for configuration in configurations.values()],
                bench.baseline("cublas"),
                max(rounds // 4, 2),
            )
        times = {
            label: {"rung_us": median(result.samples), "sgemm_us": median(result.reference)}
            for label, result in zip(configurations, several, strict=True)
        }
        label = max(times, key=lambda label: times[label]["sgemm_us"] / times[label]["rung_us"])
        rows.append(row | {"unfit": {"configuration": label, **times[label]}})
        print(rows[-1], flush=True)
    return {"held_seconds": MEASURED_SECONDS, "rows": rows}


def change_beside_rung(bench: Bench, change: Change, rounds: int) -> dict[str, Any]:
    """A change timed beside what was changed. Raises `InputError` if one is not correct."""
    base = parse(ROOT / "kernels" / "cuda" / f"{change.kernel}.cu"), as_it_is(change)
    number = str(CHANGES.index(change))
    other = changed(change, bench.folder / number / "kernels")
    with bench.on(Problem(*change.problem)):
        launches = [bench.kernel(*which, f"{number}/{name}") for name, which in (("base", base), ("change", other))]
        (series,) = bench.time(launches[1:], launches[0], rounds)
    ratio, low, high = paired_ratio(series.reference, series.samples)
    return {
        "kernel": change.kernel, "what": change.what, "problem": bench.problem.label,
        "base": base[1].label, "configuration": other[1].label,
        "base_us": median(series.reference), "us": median(series.samples), "ratio": ratio, "low": low, "high": high,
    }  # fmt: skip


def tried(bench: Bench, rounds: int) -> dict[str, Any]:
    """Every change. One that is not correct is listed, and loses nothing of the others."""
    rows, faults = [], []
    for change in CHANGES:
        try:
            rows.append(row := change_beside_rung(bench, change, rounds))
            result = f"{row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f})"
        except InputError as fault:
            faults.append(result := str(fault))
        print(f"{change.kernel} at {Problem(*change.problem).label}: {change.what}: {result}", flush=True)
    return {"changes": rows} | ({"faults": faults} if faults else {})


CASES: dict[str, tuple[str, int, Callable[..., dict[str, Any]], str]] = {
    "disturbance": ("cuda", 6, disturbance, ""),
    "neighbours": ("cpu", 6, neighbours, ""),
    "thin": ("cpu", 6, thin, ""),
    "placement": ("cuda", PLACES, placement, "nvidia-h200/beyond-cublas"),
    "tensor": ("cuda", 20, tensor, HEADLINE),
    "power_limit": ("cuda", 3, power_limit, HEADLINE),
    "tried": ("cuda", 20, tried, ""),
}
"""On which kind of device, how many rounds, stretches or places, what measures, and the published dataset from which it starts."""


def main() -> None:
    """Measure a case, and write it."""
    parser = command_line(__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--rounds", type=int, help="how many rounds, pairs of stretches or places")
    parser.add_argument("--dataset", help="the published dataset that `placement` and `tensor` start from")
    given = parser.parse_args()
    kind, rounds, measure, dataset = CASES[given.case]
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(kind, Path(scratch))
        measured = measure(bench, given.rounds or rounds, *filter(None, [dataset and (given.dataset or dataset)]))
        bench.device.close()
    STUDIES[given.case].write(bench.here, measured, uuids=bench.uuids, binaries=bench.binaries)
    if "faults" in measured:
        raise InputError("\n".join(measured["faults"]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compile"]:
        compile_for_ever(sys.argv[2])
    else:
        main()
