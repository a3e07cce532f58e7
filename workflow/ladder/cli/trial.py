"""The tries of `ladder try`: compile a kernel, run the gauntlet, time it beside the reference, the
best rung and its last try.

The worker, the rounds and the verdicts are those of a campaign. `results/try/` has what is kept.
"""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NoReturn

from tqdm import tqdm

from ladder.cli import trial_report
from ladder.cli.best_rung import SIZE, best_rung
from ladder.compiling.compile import SUFFIX as BINARY
from ladder.compiling.compile import Resource, compile_kernel, compile_support
from ladder.compiling.provenance import fingerprint
from ladder.compiling.toolchain import DEFAULT_ARCHITECTURE
from ladder.core import clock, yaml_schema
from ladder.core.errors import InputError, unwritable
from ladder.core.files import ROOT, digest, write_whole
from ladder.core.surroundings import remarks
from ladder.core.types import FAILED
from ladder.devices.detect import DetectedDevice, detect_cpu, detect_gpus, left_out
from ladder.devices.lock import exclusive, uuids
from ladder.measuring.probe import probe
from ladder.measuring.session import Session
from ladder.measuring.trial import LIMITS, Entry, Trial
from ladder.model import campaign_file
from ladder.model.campaign import Campaign, check_memory
from ladder.model.kernel import OF_BUILD, SUFFIXES, Configuration, Kernel
from ladder.model.kernel_file import parse
from ladder.model.problem import Problem
from ladder.pipeline import code_digest
from ladder.storage.dataset_layout import read_environment

FOLDER = ROOT / "results" / "try"
FAILURES = (*FAILED, "compile_error")
"""Statuses with which a try ends, the gravest first."""
WATCH_SECONDS = 0.1
"""Time between looks at the file."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of the command line. `lists` are values of parameters, of the compiler and of
    its options.
    """

    path: Path
    size: tuple[int, int, int] | None = None
    element_type: str = "float32"
    lists: Mapping[str, Sequence[str]] | None = None
    counters: bool = False
    operands: Mapping[str, str] = field(default_factory=dict)
    """Values of `VARIED`."""


class Tries:
    """The tries of one file. Between tries the worker keeps its device open; it is idle while this
    process holds no lock on the device.
    """

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments
        self.kind = next(
            (kind for kind, suffixes in SUFFIXES.items() if arguments.path.suffix in suffixes), ""
        )
        # which may itself be a symbolic link
        path = ROOT / "kernels" / self.kind / arguments.path.name
        if not self.kind or arguments.path.parent.resolve() != path.parent.resolve():
            known = " or ".join(
                f"kernels/{kind}/*{suffix}"
                for kind, suffixes in SUFFIXES.items()
                for suffix in suffixes
            )
            raise InputError(f"{arguments.path}: expected a kernel in {known} of {ROOT}")
        self.path = path
        devices = detect_gpus() if self.kind == "cuda" else [detect_cpu()]
        self.device: DetectedDevice | None = devices[0] if devices else None
        self.kept = (
            FOLDER / self.kind / (digest(arguments.lists) if arguments.lists else "") / path.stem
        )
        """The path of the last correct try of the same configurations; each of its files has its
        own suffix.
        """
        tqdm.monitor_interval = 0  # no thread may run beside forks
        self.line = tqdm(bar_format="{desc}", leave=False, disable=None)
        """On a terminal, the current step; cleared before results are printed."""
        self.session: Session | None = None
        self.rung: tuple[Path, str] | None = None
        self.looked_for_rung = False
        self.unkept = ""
        """Why the last try could not be kept."""

    def once(self) -> bool:
        """Try the file as it is now and print the results; return whether it is correct. Raises
        `InputError`.
        """
        try:
            return self._once()
        finally:
            self.line.clear()

    def kill(self) -> None:
        """Kill the worker, whatever it does."""
        if self.session:
            self.session.kill()

    def close(self) -> None:
        """Let the worker end."""
        if self.session:
            self.session.end()

    def _once(self) -> bool:
        start = clock.now()
        kernel = parse(self.path)
        plan = self._plan(kernel)
        (problem,) = plan.problems(self.kind, self.arguments.element_type)
        if self.device and self.device.memory:
            check_memory(plan, self.kind, self.device.name, self.device.memory)
        arch = self.device.arch if self.device else DEFAULT_ARCHITECTURE
        self.line.set_description_str("compiling")
        mine, refused = self._compile_and_open(kernel, plan.configurations[kernel.id], arch)
        where = f" on {self.device.name}" if self.device else ""
        extras = "".join(f" {name}={value}" for name, value in problem.varied.items())
        self.line.clear()
        print(
            f"{kernel.id}, {problem.element_type}, {problem.m} x {problem.n} x "
            f"{problem.k}{extras}{where}"
        )
        for text in trial_report.refusals(refused):
            print(text)
        failed = [row.status for row in refused if row.status in FAILURES]
        if not self.device:
            for entry in mine:
                print(
                    f"compiled for {arch}: {entry.label}: {trial_report.resources(entry.resource)}"
                )
        if not self.device and not failed:
            unusable = "".join(f"; {it}" for it in left_out())
            raise InputError(
                f"no usable GPU was found here{unusable}: compiled, not run; expected an NVIDIA "
                "GPU and its driver"
            )
        if mine and self.device:
            support = self._support(arch)
            with exclusive([self.session.uuid] if self.session else uuids(self.device)) as (
                uuid,
                _,
            ):
                # first: if the device cannot be used, the user gets one line of error
                session = self._open(uuid, support)
                session.environment = self._environment(session)
                last = self._last(kernel)
                compiled = {entry.resource["sha256"] for entry in mine}
                changed = [entry for entry in last if entry.resource["sha256"] not in compiled]
                beside = [*changed, *self._best_rung(problem, arch)]
                trial = Trial(session, problem, beside, self.line.set_description_str)
                trial.run(mine)
                self.line.clear()
                self._report(trial, mine, last)
            failed += [entry.status for entry in mine if entry.status in FAILURES]
        if failed:  # an incorrect kernel may have damaged the worker
            self.close()
        elif self.device and not any(entry.status == "correct" for entry in mine):
            raise InputError(
                f"{self.arguments.path}: no configuration of it runs on {self.device.name}, on "
                "this problem"
            )
        print(
            f"{min(failed, key=FAILURES.index, default='correct')}; {clock.now() - start:.1f} s",
            flush=True,
        )
        if self.unkept:
            print(
                f"Warning: nothing is kept of it for the next try: {self.unkept}",
                file=sys.stderr,
                flush=True,
            )
        return not failed

    def _plan(self, kernel: Kernel) -> Campaign:
        """Return a campaign of this kernel alone on the one problem, checked like any other."""
        lists = self.arguments.lists or {}
        build = {name: values for name, values in lists.items() if name in OF_BUILD}
        own = {name: _numbers(values) for name, values in lists.items() if name not in build}
        if self.arguments.element_type not in kernel.element_types:
            raise InputError(
                f"--type {self.arguments.element_type}: expected one of the element_types in the "
                f"header of {kernel.id}, "
                f"{', '.join(kernel.element_types)}"
            )
        if build and self.path.suffix != ".cu":
            raise InputError(
                f"--set {next(iter(build))}: expected a parameter of {kernel.id}; only CUDA C++ is "
                "compiled so"
            )
        data = {
            "campaign": "tried",
            "problems": {self.kind: [list(self.arguments.size or [SIZE[self.kind]] * 3)]},
            "element_types": [self.arguments.element_type],
            "parameters": {kernel.id: own} if own else {},
            "options": {
                name: _numbers(values) for name, values in build.items() if name != "compiler"
            },
        }
        for name, text in self.arguments.operands.items():
            values = [yaml_schema.typed(part) for part in text.split(",")]
            data[name] = values if len(values) > 1 else values[0]
        compiler = {"compiler": list(build["compiler"])} if "compiler" in build else {}
        return campaign_file.load(data | compiler, "ladder try", {kernel.id: kernel})

    def _compile_and_open(
        self, kernel: Kernel, configurations: Sequence[tuple[Configuration, str]], arch: str
    ) -> tuple[list[Entry], list[Resource]]:
        """Return what `compiled` returns. Meanwhile open the worker if the device is free: compiler
        messages must not wait for another run.

        With several configurations the worker is not opened early: until all are compiled, another
        run may take that device and leave others free.
        """
        if (self.session and self.session.is_open) or not self.device or len(configurations) > 1:
            return compiled(kernel, configurations, arch)
        pool = ProcessPoolExecutor(1, mp_context=get_context("fork"))
        compiling = pool.submit(compiled, kernel, configurations, arch)
        # it ends with this task: an idle process answers Ctrl-C with a traceback
        pool.shutdown(wait=False)
        # a device that cannot be opened is an error only when it is needed
        with suppress(OSError, InputError), exclusive(uuids(self.device), wait=False) as (uuid, _):
            self._open(uuid, self._support(arch))
        return compiling.result()

    def _open(self, uuid: str, support: Path) -> Session:
        """Return the session with its worker started. Raises `InputError` if the device or the
        support file cannot be used.
        """
        if self.session is None or self.session.uuid != uuid:
            self.close()
            self.session = Session(self.kind, uuid, support, {}, LIMITS.timeout_seconds, lock=None)
        self.session.support = support
        self.session.worker()
        return self.session

    def _support(self, arch: str) -> Path:
        """Return the file with the pipeline's own device code, compiled once for each version of
        it.
        """
        path = (
            FOLDER
            / "build"
            / arch
            / f"support-{code_digest.digest('devices.operands', 'compiling.compile')}.bin"
        )
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, compile_support(self.kind, arch))
        return path

    def _environment(self, session: Session, again: bool = False) -> dict[str, Any]:
        """Return the device's `environment.json`. It is measured at first, when what it describes
        has changed, or `again`.
        """
        assert self.device
        path, child = FOLDER / self.device.slug / "environment.json", session.worker()
        if path.exists() and not again:
            known = read_environment(path)
            if (known["fingerprint"], known["attributes"]) == (
                fingerprint(self.device),
                child.attributes,
            ):
                return known
        measured = probe(self.device, child)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(measured).encode())
        return measured

    def _last(self, kernel: Kernel) -> list[Entry]:
        """Return the best entry of the last correct try, if it was on the same device and of the
        same element type.
        """
        note, source = self.kept.with_suffix(".json"), self.kept.with_suffix(self.path.suffix)
        if not (note.exists() and source.exists()):
            return []
        try:
            known = json.loads(note.read_text())
            if (
                known["device"] != (self.device and self.device.slug)
                or known["element_type"] != self.arguments.element_type
            ):
                return []
            configuration = Configuration.of(known["element_type"], known["configuration"])
            return [
                Entry(
                    parse(source),
                    configuration,
                    self.kept.with_suffix(BINARY[self.kind]),
                    known["resource"],
                )
            ]
        except (ValueError, TypeError, KeyError, InputError) as error:
            raise InputError(
                f"{note}: {type(error).__name__}: {error}; expected what the last correct try has "
                "left. Remove it and try again"
            ) from None

    def _best_rung(self, problem: Problem, arch: str) -> list[Entry]:
        """Return the best rung of the device's own or of published results, compiled. Empty without
        results, or if it does not run here.
        """
        if not self.looked_for_rung:
            self.looked_for_rung = True
            self.rung = (
                best_rung(self.device, self.path, problem, self.arguments.lists or {})
                if self.device
                else None
            )
        if self.rung is None:
            return []
        kernel = parse(self.rung[0])
        configuration = Configuration.of(problem.element_type, self.rung[1])
        return compiled(kernel, [(configuration, kernel.objection(configuration))], arch)[0]

    def _report(self, trial: Trial, mine: Sequence[Entry], last: Sequence[Entry]) -> None:
        """Print the results of a trial and keep its best entry."""
        problem, session = trial.problem, trial.session
        timed = sorted(
            (entry for entry in mine if entry.samples and entry.status == "correct"),
            key=lambda entry: -entry.ratio()[0],
        )
        if any(
            (trial_report.of_peak(entry, problem, session.environment) or 0) > 1 for entry in timed
        ):
            # other work had slowed the device when it was measured
            session.environment = self._environment(session, again=True)
        environment = session.environment
        doubts = (
            trial_report.doubts(self.kind, trial.others, timed[0].samples["reference_us"])
            if timed
            else {}
        )
        for entry in timed:
            print(
                ("not a result: " if doubts else "")
                + trial_report.rates(entry, problem, environment)
            )
            if modelled := trial_report.model_words(entry, problem, environment):
                print(f"  {modelled}")
            if gauntlet := trial_report.gauntlet(entry):
                print(f"  {gauntlet}")
        if timed:
            print("  intervals: 95 %, within-run")
            for configuration in trial_report.rungs(timed[0]):
                print(f"  {configuration}")
            if any(entry.gauntlet.nan_at_alpha_0 for entry in timed):
                print(f"  {trial_report.NAN_AT_ALPHA_0}")
            if doubts:
                print(f"  measure again while nothing else runs: {'; '.join(doubts.values())}")
            for remark in remarks(environment["attributes"]):
                print(f"  {remark}")
            for entry in last:
                print(
                    "  since the last correct try: "
                    f"{trial_report.changes(timed[0], entry, bool(doubts))}"
                )
        if timed and self.arguments.counters:
            print(f"  {self._stalls(session, timed[0], problem)}")
        for entry in mine:
            if entry.status not in ("correct", "skipped"):
                print(f"{entry.status}: {entry.label}: {entry.reason}")
        if untried := [entry.label for entry in mine if entry.status == "skipped"]:
            print(
                "not tried after the timeout: "
                f"{', '.join(untried[:3])}{f' and {len(untried) - 3} more' if len(untried) > 3 else ''}"
            )
        self.unkept = ""
        try:
            self._keep(timed, mine, problem, list(doubts))
        except InputError as error:
            self.unkept = str(error)
        except OSError as error:
            self.unkept = str(unwritable(error.filename or FOLDER, error))

    def _stalls(self, session: Session, best: Entry, problem: Problem) -> str:
        # importing them takes longer than all else
        from ladder.measuring.counters import STALLS, NotCounted, profile, stalls

        functions = ["gemm", *(launch["function"] for launch in best.kernel.then)]
        given = {
            name: value for name, value in vars(problem).items() if name not in ("offset", "seed")
        }
        task = {
            "uuid": session.uuid,
            "support": str(session.support),
            "kernel": str(best.kernel.path),
            "functions": functions,
            "configuration": best.configuration.label,
            "binary": str(best.binary),
            "problem": given,
        }
        try:
            return "stalls, cycles an issued instruction: " + stalls(profile(task, STALLS.values()))
        except NotCounted as why:
            return f"no counters: {why}"

    def _keep(
        self, timed: Sequence[Entry], mine: Sequence[Entry], problem: Problem, marks: Sequence[str]
    ) -> None:
        """Keep the best entry of a correct try for the next one, and add a line for every try to
        `history.jsonl`.
        """
        assert self.device
        self.kept.parent.mkdir(parents=True, exist_ok=True)
        line: dict[str, Any] = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "kernel": f"{self.kind}/{self.path.stem}",
            "device": self.device.slug,
            "element_type": problem.element_type,
            "problem": problem.label,
            "status": {entry.configuration.label: entry.status for entry in mine},
        }
        if timed:
            best = timed[0]
            line |= {
                "configuration": best.configuration.label,
                "ratio": best.ratio(),
                "sha256": best.resource["sha256"],
            }
            line["marks"] = list(marks)
            for suffix in SUFFIXES[self.kind]:  # it may have been in another language
                self.kept.with_suffix(suffix).unlink(missing_ok=True)
            write_whole(self.kept.with_suffix(self.path.suffix), best.kernel.text.encode())
            write_whole(self.kept.with_suffix(BINARY[self.kind]), best.binary.read_bytes())
            write_whole(
                self.kept.with_suffix(".json"),
                json.dumps(line | {"resource": best.resource}).encode(),
            )
        with (FOLDER / "history.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def _numbers(values: Sequence[str]) -> list[int | str]:
    return [int(value) if re.fullmatch("[0-9]{1,18}", value) else value for value in values]


def compiled(
    kernel: Kernel, configurations: Sequence[tuple[Configuration, str]], arch: str
) -> tuple[list[Entry], list[Resource]]:
    """Return the entries that compiled, and the resource rows of the configurations that did
    not.
    """
    folder = FOLDER / "build" / arch / kernel.id
    rows = compile_kernel(kernel, configurations, arch, folder, len(os.sched_getaffinity(0)))
    entries = [
        Entry(kernel, configuration, folder / row.binary, asdict(row))
        for row, (configuration, _) in zip(rows, configurations, strict=True)
        if row.status == "compiled"
    ]
    return entries, [row for row in rows if row.status not in ("compiled", "skipped")]


def watch(tries: Tries) -> NoReturn:
    """Try the file now and whenever it or a file that it includes has changed, until
    interrupted.
    """
    tried = None
    while True:
        try:
            state = [path.read_bytes() for path in [tries.path, *parse(tries.path).includes]]
        except (InputError, OSError) as error:
            state = [str(error).encode()]
        if state != tried:
            tried = state
            try:
                tries.once()
            except InputError as error:
                print(f"Error: {error}", flush=True)
        clock.sleep(WATCH_SECONDS)
