"""One kernel, tried: compiled, run through the gauntlet, timed beside the reference, the best rung and its own last try.

The worker, the rounds and the verdicts are those of a campaign. What is kept lies in `results/try/`.
"""

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NoReturn

import psutil

from ladder import campaign, gauntlet, records, sources, verdicts
from ladder.campaign import BASELINES, Campaign, Limits, Problem
from ladder.child import START_SECONDS, Child, Failure
from ladder.compile import SUFFIX as BINARY
from ladder.compile import Resource, compile_kernel, compile_support
from ladder.devices import exactly
from ladder.diagnosis import Diagnosis
from ladder.environment import DEFAULT_ARCHITECTURE, ROOT, Device, detect_cpu, detect_gpus, fingerprint
from ladder.jobs import read_environment, write_whole
from ladder.kernels import OF_BUILD, SUFFIX, Configuration, Kernel, parse
from ladder.lock import exclusive, uuids
from ladder.measure import too_fast
from ladder.models import model
from ladder.probe import probe
from ladder.statistics import median_interval, paired_ratio
from ladder.units import InputError, rate_unit, tflops

FOLDER = ROOT / "results" / "try"
SIZE = {"cuda": 4096, "cpu": 256}
"""The square that a kernel is tried on unless another problem is asked for."""
LIMITS = Limits(race=False, target=0.01, min_samples=6, max_samples=20, max_seconds=0.3, timeout_seconds=20)
"""Six samples are the fewest whose range is a 95 % interval of the median."""
BESIDE = 6
"""Configurations that are timed in the same rounds, beside the best rung and the last try."""
OTHERS = 0.25
"""Cores from which on what other processes use is told: counters of the system go by hundredths of a second."""
WATCH_SECONDS = 0.1
"""Between looks at the file."""


@dataclass(frozen=True)
class Asked:
    """What the command line asks for. `lists` are values of parameters, of the compiler and of its options."""

    path: Path
    size: tuple[int, int, int] | None = None
    element_type: str = "float32"
    lists: Mapping[str, Sequence[str]] | None = None
    counters: bool = False


@dataclass
class Contestant:
    """A compiled configuration of the kernel, of a rung, or of the last try."""

    kernel: Kernel
    configuration: Configuration
    binary: Path
    resource: Mapping[str, Any]
    status: str = "correct"
    reason: str = ""
    tensor_cores: bool = False
    series: Mapping[str, Any] | None = None
    """What it was timed at."""
    beside: Sequence["Contestant"] = ()
    """What was timed in the same rounds."""

    @property
    def label(self) -> str:
        """What it is called here."""
        return _label(self.kernel.name, self.configuration.label)

    def given(self) -> tuple[Any, ...]:
        """What the worker makes a launch of."""
        return self.kernel.name, str(self.kernel.path), self.configuration.parameters, str(self.binary), self.kernel.precision

    def ratio(self, other: "Contestant | None" = None) -> tuple[float, float, float]:
        """How many times as fast as the reference, or as another of the same rounds, with the ends of the interval, within-run."""
        mine = self.series or {}
        theirs = (other.series or {})["samples"] if other else mine["reference"]
        rounds = min(len(mine["samples"]), len(theirs))
        return paired_ratio(theirs[:rounds], mine["samples"][:rounds])


class Trial:
    """Tries of one file. Between them the worker stays, with its device open."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        path = asked.path.resolve()
        self.kind = next((kind for kind, suffix in SUFFIX.items() if path.suffix == suffix), "")
        if not self.kind or path.parent != ROOT / "kernels" / self.kind:
            raise InputError(f"{asked.path}: expected a kernel in kernels/cuda/*.cu or kernels/cpu/*.c of {ROOT}")
        self.path = path
        found = detect_gpus() if self.kind == "cuda" else [detect_cpu()]
        self.device: Device | None = found[0] if found else None
        self.kept = FOLDER / self.kind / path.stem
        """Where the last right try is kept, with the suffix of each file."""
        self.child: Child | None = None
        self.uuid = ""
        self.others = 0.0
        """Beside what was timed: the cores that other processes used, or how many computed on the GPU."""
        self.rung: tuple[Path, str] | None = None
        self.sought = False

    def kill(self) -> None:
        """End the worker, whatever it does."""
        if self.child:
            self.child.kill()

    def close(self) -> None:
        """Let the worker go."""
        if self.child:
            self.child.close()
            self.child = None

    def once(self) -> bool:
        """Try the file as it is now and print what was found; returns whether it is right. Raises `InputError`."""
        start = time.monotonic()
        kernel = parse(self.path)
        plan = self._plan(kernel)
        (problem,) = plan.problems(self.kind, self.asked.element_type)
        arch = self.device.arch if self.device else DEFAULT_ARCHITECTURE
        mine, refused = self._compile_and_open(kernel, plan.configurations[kernel.id], arch)
        where = f" on {self.device.name}" if self.device else ""
        print(f"{kernel.id}, {problem.element_type}, {problem.m} x {problem.n} x {problem.k}{where}")
        for (status, reason), alike in _alike(refused).items():
            print(f"{status}: {', '.join(alike[:3])}{f' and {len(alike) - 3} more' if len(alike) > 3 else ''}\n{reason}")
        wrong = any(row.status == "compile_error" for row in refused)
        if not self.device:
            for one in mine:
                print(f"compiled for {arch}: {one.label}: {_resources(one.resource)}")
        if not self.device and not wrong:
            raise InputError("no GPU was found here: compiled, not run; expected an NVIDIA GPU and its driver")
        if mine and self.device:
            support = self._support(arch)
            with exclusive([self.uuid] if self.uuid else uuids(self.device)) as (self.uuid, _):
                self._alive(support)  # a device or support file that cannot be used is told by it in a line
                environment = self._environment(support)
                last = self._last(kernel)
                changed = [one for one in last if one.resource["sha256"] not in {one.resource["sha256"] for one in mine}]
                self._judge_and_time(mine, [*changed, *self._best_rung(problem, arch)], problem, support, environment)
                self._report(mine, last, problem, environment, support)
            wrong |= any(one.status not in ("correct", "not_supported") for one in mine)
        if wrong:  # who knows what it did to the worker
            self.close()
        elif self.device and not any(one.status == "correct" for one in mine):
            raise InputError(f"{self.asked.path}: no configuration of it runs on {self.device.name}, on this problem")
        print(f"{'wrong' if wrong else 'right'}; {time.monotonic() - start:.1f} s", flush=True)
        return not wrong

    def _plan(self, kernel: Kernel) -> Campaign:
        """A campaign of this kernel alone on the one problem, checked as any other."""
        lists = self.asked.lists or {}
        build = {name: values for name, values in lists.items() if name in OF_BUILD}
        own = {name: _numbers(values) for name, values in lists.items() if name not in build}
        data = {
            "campaign": "try",
            "problems": {self.kind: [list(self.asked.size or [SIZE[self.kind]] * 3)]},
            "element_types": [self.asked.element_type],
            "parameters": {kernel.id: own} if own else {},
            "options": {name: _numbers(values) for name, values in build.items() if name != "compiler"},
        }
        compiler = {"compiler": list(build["compiler"])} if "compiler" in build else {}
        return campaign.load(data | compiler, "ladder try", {kernel.id: kernel})

    def _compile_and_open(
        self, kernel: Kernel, configurations: Sequence[tuple[Configuration, str]], arch: str
    ) -> tuple[list[Contestant], list[Resource]]:
        """What `compiled` returns. Meanwhile the worker is opened, where nobody holds the device: what the compiler says waits for no run.

        With several configurations it is not: before all are compiled, another run may take that device, and leave others free.
        """
        if self.child or not self.device or len(configurations) > 1:
            return compiled(kernel, configurations, arch)
        pool = ProcessPoolExecutor(1, mp_context=get_context("fork"))
        compiling = pool.submit(compiled, kernel, configurations, arch)
        pool.shutdown(wait=False)  # it ends when that is done: an idle process answers Ctrl-C with a traceback
        # where it cannot be opened, that is said when it is needed
        with suppress(BlockingIOError, InputError), exclusive(uuids(self.device), wait=False) as (self.uuid, _):
            self._alive(self._support(arch))
        return compiling.result()

    def _support(self, arch: str) -> Path:
        """What the pipeline itself runs on the device, compiled once for each version of it."""
        path = FOLDER / "build" / arch / f"support-{sources.digest('devices', 'compile')}.bin"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, compile_support(self.kind, arch))
        return path

    def _environment(self, support: Path) -> dict[str, Any]:
        """`environment.json` of the device, measured when it is tried for the first time."""
        assert self.device
        path = FOLDER / self.device.slug / "environment.json"
        if path.exists():
            known = read_environment(path)
            if known["fingerprint"] == fingerprint(self.device):
                return known
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:  # this process does not touch the device
            found = pool.submit(probe, self.device, self.uuid, support).result()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(found).encode())
        return found

    def _alive(self, support: Path) -> Child:
        if self.child and self.child.process.poll() is not None:
            self.close()
        if self.child is None:
            # it outlives the lock, and does nothing while this process does not hold one
            with Path(os.devnull).open() as nothing:
                self.child = Child(self.kind, self.uuid, support, nothing.fileno())
        return self.child

    def _failed(self, failure: Failure) -> None:
        if not failure.alive:
            self.close()

    def _judge_and_time(
        self,
        mine: Sequence[Contestant],
        beside: Sequence[Contestant],
        problem: Problem,
        support: Path,
        environment: Mapping[str, Any],
    ) -> None:
        """Set status and series of the contestants: the gauntlet, whole numbers of the problem's size, then timed rounds."""
        self.others = 0.0
        for one in mine:
            self._judge(one, problem, support)
        right = [one for one in mine if one.status == "correct"]
        for start in range(0, len(right), BESIDE):
            group = right[start : start + BESIDE]
            if not self._time(group, beside, problem, support) and len(group) > 1:
                for one in group:  # one of them did it: each alone tells which
                    one.status, one.reason = "correct", ""
                    self._time([one], (), problem, support)
        for one in right:
            if one.series and (why := too_fast(environment, problem, one.series["samples"], one.tensor_cores)):
                one.status, one.reason = "incorrect", why

    def _judge(self, one: Contestant, problem: Problem, support: Path) -> None:
        """The gauntlet, then a launch on whole numbers of the problem's size; what is wrong is looked at."""
        small = {gauntlet.describe(p): p for p in gauntlet.problems(problem.element_type, one.kernel.precision == "tf32")}
        whole, at = exactly(problem, one.kernel.precision == "tf32"), problem
        try:
            for answer in self._ask(support, ("gauntlet", problem.element_type, *one.given())):
                if answer[0] == "trying":
                    at = small[answer[1]]
                else:
                    verdict = dict(answer[1])
            one.tensor_cores = verdict["tensor_cores"]
            if verdict["status"] == "correct":
                at = whole
                self._present(whole, [one], support)
                ((_, verdict),) = self._ask(support, ("check", 0))
            one.status, one.reason = verdict["status"], verdict["reason"]
            if one.status == "incorrect":
                later = list(small.values())
                seen, guess = self._look(one, [at, *(later[later.index(at) + 1 :] if at in later else [])], support)
                if seen:
                    one.reason = (
                        f"on {gauntlet.describe(at)}: C[{seen.row}][{seen.column}] is {seen.got:.9g}; expected {seen.wanted:.9g} "
                        f"({seen.wrong} of {seen.elements} elements are wrong)"
                    ) + (f"\n  it looks like this: {guess}" if guess else f"\n  {verdict['reason']}")
        except Failure as failure:
            self._failed(failure)
            one.status, one.reason = failure.status, f"on {gauntlet.describe(at)}: {failure.reason}"

    def _look(self, one: Contestant, problems: Sequence[Problem], support: Path) -> tuple[Diagnosis | None, str]:
        """What is seen on the first of several problems, and a guess at the mistake: what half of those that it gets wrong suggest.

        One alone suggests too much: a stride that is wrong meets the NaN between rows, whatever it was taken for.
        """
        seen: list[Diagnosis] = []
        for problem in problems:
            try:
                ((_, found),) = self._ask(support, ("diagnose", vars(problem), *one.given()))
            except Failure as failure:
                self._failed(failure)
                if not failure.alive:
                    break
            else:
                if not seen and not found:
                    break
                seen += [Diagnosis(**found)] if found else []
        alike: dict[str, list[str]] = {}
        for guess in (guess for diagnosis in seen for guess in diagnosis.guesses):
            alike.setdefault(re.sub(r"\d+", "", guess), []).append(guess)
        most = max(alike.values(), key=len, default=[""])
        return (seen[0] if seen else None), (most[0] if 2 * len(most) >= len(seen) else "")

    def _ask(self, support: Path, request: tuple[Any, ...]) -> Iterator[list[Any]]:
        return self._alive(support).ask(request, LIMITS.timeout_seconds)

    def _present(self, problem: Problem, contestants: Sequence[Contestant], support: Path) -> None:
        """Have the worker make the operands and the launches."""
        try:
            list(self._alive(support).ask(("problem", vars(problem), BASELINES[self.kind][0]), START_SECONDS))
        except Failure as failure:
            if failure.status == "not_supported":  # the operands do not fit
                raise
            self._failed(failure)
            raise InputError(f"{problem.label}: the problem could not be set up: {failure.reason}") from None
        for index, one in enumerate(contestants):
            list(self._ask(support, ("load", index, *one.given())))

    def _time(self, group: Sequence[Contestant], beside: Sequence[Contestant], problem: Problem, support: Path) -> bool:
        """Time configurations in the same rounds, beside others; False where the worker did not live through it."""
        others = [replace(one) for one in beside]
        contestants = [*group, *others]
        for one in group:
            one.beside = others
        try:
            self._present(problem, contestants, support)
            seed = time.time_ns() % 2**32
            start, used = time.monotonic(), self._used_by_others()
            for answer in self._ask(support, ("time", list(range(len(contestants))), "warm", asdict(LIMITS), seed, 0.0)):
                if answer[0] == "series":
                    one, verdict = contestants[answer[1]], answer[4]
                    self.others = max(self.others, answer[3] or 0)
                    if verdict["status"] == "correct":
                        one.series = answer[2]
                    else:
                        one.status, one.reason = verdict["status"], f"while timed: {verdict['reason']}"
            if self.kind == "cpu":
                self.others = max(self.others, (self._used_by_others() - used) / (time.monotonic() - start))
        except Failure as failure:
            self._failed(failure)
            for one in contestants:
                if one.series is None:
                    one.status, one.reason = failure.status, f"while timed: {failure.reason}"
            return False
        return True

    def _used_by_others(self) -> float:
        """Seconds of a core that all but the worker have used, other virtual machines too, since the system or the worker started."""
        assert self.child
        everyone, worker = psutil.cpu_times(), psutil.Process(self.child.process.pid).cpu_times()
        return (
            sum(everyone) - everyone.idle - everyone.iowait - everyone.guest - everyone.guest_nice - worker.user - worker.system
        )

    def _last(self, kernel: Kernel) -> list[Contestant]:
        """The best of the last right try, where it was of the same device, as a contestant."""
        note, source = self.kept.with_suffix(".json"), self.kept.with_suffix(SUFFIX[self.kind])
        if not note.exists():
            return []
        try:
            known = json.loads(note.read_text())
            if known["device"] != (self.device and self.device.slug) or known["element_type"] != self.asked.element_type:
                return []
            configuration = Configuration.of(known["element_type"], known["configuration"])
            return [Contestant(parse(source), configuration, self.kept.with_suffix(BINARY[self.kind]), known["resource"])]
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"{note}: got {error!r}; expected what the last right try has left. Remove it and try again"
            ) from None

    def _best_rung(self, problem: Problem, arch: str) -> list[Contestant]:
        """The best rung of this device's own or published results, compiled; none where there are no results, or it does not run here."""
        if not self.sought:
            self.sought, self.rung = True, best_rung(self.device, self.path, problem) if self.device else None
        if self.rung is None:
            return []
        kernel = parse(self.rung[0])
        one = Configuration.of(problem.element_type, self.rung[1])
        return compiled(kernel, [(one, kernel.objection(one))], arch)[0]

    def _report(
        self, mine: list[Contestant], last: Sequence[Contestant], problem: Problem, environment: Mapping[str, Any], support: Path
    ) -> None:
        """Print what was found, and keep it."""
        timed = sorted((one for one in mine if one.series and one.status == "correct"), key=lambda one: -one.ratio()[0])
        unit, size = rate_unit(self.kind)
        for one in timed:
            us, low, high = median_interval((one.series or {})["samples"])
            rate, least, most = (tflops(problem.m, problem.n, problem.k, value) / size for value in (us, high, low))
            words = [f"{one.label}: {_interval(rate, least, most)} {unit}"]
            words.append(f"of {BASELINES[self.kind][0]} {_interval(*one.ratio())}")
            rungs = [rung for rung in one.beside if rung.series and rung.kernel.path.parent == self.path.parent]
            words += [f"of {rung.kernel.name} {_interval(*one.ratio(rung))}" for rung in rungs]
            if problem.element_type == "float32":
                words.append(f"of the measured peak {rate * size / environment['peaks']['fp32_tflops']:.0%}")
            print("; ".join(words))
            if modelled := _modelled(one, problem, environment):
                print(f"  {modelled}")
        if timed:
            print("  intervals: 95 %, within-run")
            if said := beside(self.kind, self.others):
                print(f"  {said}")
            for one in last:
                print(f"  since the last right try: {_changes(timed[0], one)}")
        if timed and self.asked.counters:
            print(f"  {self._stalls(timed[0], problem, support)}")
        for one in mine:
            if one.status != "correct":
                print(f"{one.status}: {one.label}: {one.reason}")
        self._keep(timed, mine, problem)

    def _stalls(self, best: Contestant, problem: Problem, support: Path) -> str:
        from ladder.counters import NotCounted, stalls  # they take longer to import than all else

        functions = ["gemm", *(launch["function"] for launch in best.kernel.then)]
        given = {name: value for name, value in vars(problem).items() if name not in ("offset", "seed")}
        task = {"uuid": self.uuid, "support": str(support), "kernel": str(best.kernel.path), "functions": functions,
                "configuration": best.configuration.label, "binary": str(best.binary), "problem": given}  # fmt: skip
        try:
            return "stalls, cycles an issued instruction: " + ", ".join(f"{name} {value:.2g}" for name, value in stalls(task))
        except NotCounted as why:
            return f"no counters: {why}"

    def _keep(self, timed: Sequence[Contestant], mine: Sequence[Contestant], problem: Problem) -> None:
        """Keep the best of a right try for the next one, and a line of every try in `history.jsonl`."""
        assert self.device
        self.kept.parent.mkdir(parents=True, exist_ok=True)
        line: dict[str, Any] = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "kernel": f"{self.kind}/{self.path.stem}",
            "device": self.device.slug,
            "element_type": problem.element_type,
            "problem": problem.label,
            "status": {one.configuration.label: one.status for one in mine},
        }
        if timed:
            best = timed[0]
            line |= {"configuration": best.configuration.label, "ratio": best.ratio(), "sha256": best.resource["sha256"]}
            write_whole(self.kept.with_suffix(SUFFIX[self.kind]), best.kernel.text.encode())
            write_whole(self.kept.with_suffix(BINARY[self.kind]), best.binary.read_bytes())
            write_whole(self.kept.with_suffix(".json"), json.dumps(line | {"resource": best.resource}).encode())
        with (FOLDER / "history.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def compiled(
    kernel: Kernel, configurations: Sequence[tuple[Configuration, str]], arch: str
) -> tuple[list[Contestant], list[Resource]]:
    """What compiled, and the rows of what did not."""
    folder = FOLDER / "build" / arch / kernel.id
    rows = compile_kernel(kernel, configurations, arch, folder, len(os.sched_getaffinity(0)))
    pairs = list(zip(rows, configurations, strict=True))
    found = [Contestant(kernel, one, folder / row.binary, asdict(row)) for row, (one, _) in pairs if row.status == "compiled"]
    return found, [row for row in rows if row.status not in ("compiled", "skipped")]


def best_rung(device: Device, tried: Path, problem: Problem) -> tuple[Path, str] | None:
    """Kernel file and configuration of the fastest rung, relative to the reference, on a problem.

    By the device's own results, else those published of it, else of others of its kind; where they have not that problem, on their largest
    square up to `SIZE`. None where no results have a rung whose file is still there.
    """
    results = ROOT / "results"
    own = sorted(results.glob(f"*/{device.slug}/samples"))
    others = sorted(results.glob("published/*/samples"), key=lambda path: not path.parent.name.startswith(device.slug))
    for folder in dict.fromkeys(
        [*own, *(path for path in others if path.parent.name.startswith("cpu-") == (device.kind == "cpu"))]
    ):
        rows = [row for path in sorted(folder.glob("*.parquet")) for row in records.read(path)[0]]
        rows = [r for r in rows if r["status"] == "correct" and r["samples_us"] and r["state"] == "warm" and not r["precision"]]
        rows = [r for r in rows if r["kernel"] != tried.stem and r["element_type"] == problem.element_type]
        rows = [r for r in rows if (tried.parent / f"{r['kernel']}{tried.suffix}").exists()]
        squares = [r["m"] for r in rows if r["m"] == r["n"] == r["k"] <= SIZE[device.kind]]
        sizes = (problem.m, problem.n, problem.k), (max(squares, default=0),) * 3
        for size in sizes:
            at = [r for r in rows if (r["m"], r["n"], r["k"]) == size]
            if at:
                fastest = max(at, key=lambda r: median_interval(r["reference_us"])[0] / median_interval(r["samples_us"])[0])
                return tried.parent / f"{fastest['kernel']}{tried.suffix}", str(fastest["configuration"])
    return None


def beside(kind: str, others: float) -> str:
    """What other processes did while it was timed, in words; "" where that is too little to tell."""
    if kind == "cuda":
        return f"timed while {others:.0f} other process(es) computed on the device" if others else ""
    return f"timed while other processes used {others:.1f} of {psutil.cpu_count()} cores" if others >= OTHERS else ""


def _changes(best: Contestant, last: Contestant) -> str:
    """How the best compares with that of the last try."""
    names = ("registers", "static_shared", "spill_stores", "spill_loads")
    changes = [
        f"{name.replace('_', ' ')} {last.resource[name]} -> {best.resource[name]}"
        for name in names
        if last.resource[name] != best.resource[name]
    ]
    again = next((one for one in best.beside if one.kernel.path == last.kernel.path), None)
    if best.resource["sha256"] == last.resource["sha256"]:
        verdict = "the same machine code"
    elif again is None:
        verdict = f"{best.label} is the best now, {last.label} was"
    elif again.series is None:
        verdict = f"it could not be timed again: {again.reason}"
    else:
        ratio, low, high = best.ratio(again)
        verdict = f"{verdicts.of(low, high)}, {_interval(ratio, low, high)} times as fast in the same rounds"
    return "; ".join([verdict, *changes])


def _alike(refused: Sequence[Resource]) -> dict[tuple[str, str], list[str]]:
    """The configurations that were refused, by status and reason: what a compiler says it says of each."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in refused:
        found.setdefault((row.status, row.reason or ""), []).append(_label(row.kernel, row.configuration))
    return found


def _label(kernel: str, configuration: str) -> str:
    """A configuration's label; the kernel's name where it has no parameters."""
    return kernel if configuration == "-" else configuration


def _numbers(values: Sequence[str]) -> list[int | str]:
    return [int(value) if value.isdigit() else value for value in values]


def _interval(value: float, low: float, high: float) -> str:
    return f"{value:.3g} [{low:.3g}, {high:.3g}]"


def _resources(resource: Mapping[str, Any]) -> str:
    spills = (resource["spill_stores"] or 0) + (resource["spill_loads"] or 0)
    return (
        f"{resource['registers']} registers, {spills} bytes of spills, {resource['static_shared']} bytes of static shared memory"
    )


def _modelled(one: Contestant, problem: Problem, environment: Mapping[str, Any]) -> str:
    """What a GPU's model says of a configuration, in words; "" for a CPU."""
    if one.kernel.kind != "cuda":
        return ""
    row = model(one.kernel, one.configuration, problem, one.resource, environment)
    words = [_resources(one.resource)]
    if "occupancy" in row:
        words.append(
            f"{row['shared_bytes']} bytes of shared memory a block, {row['blocks_per_sm']} blocks an SM, occupancy {row['occupancy']:.0%} "
            f"(limited by {row['occupancy_limit']})"
        )
    if "bank_conflicts" in row:
        words.append(f"bank conflicts by the model {row['bank_conflicts'] / max(row['shared_wavefronts'], 1):.0%} of wavefronts")
    return "; ".join(words)


def watch(trial: Trial) -> NoReturn:
    """Try the file now and whenever it, or what it includes, has changed, until interrupted."""
    tried = None
    while True:
        try:
            state = [path.read_bytes() for path in [trial.path, *parse(trial.path).includes]]
        except (InputError, OSError) as error:
            state = [str(error).encode()]
        if state != tried:
            tried = state
            try:
                trial.once()
            except InputError as error:
                print(f"Error: {error}", flush=True)
        time.sleep(WATCH_SECONDS)
