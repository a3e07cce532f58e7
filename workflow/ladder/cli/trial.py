"""The tries of `ladder try`: compile a kernel, run the gauntlet, time it beside the reference, the
best rung and its last try.

The worker, the rounds and the verdicts are those of a campaign. `results/try/` has what is kept.
"""

import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache, partial
from multiprocessing import get_context
from typing import Any, NoReturn

from ladder.cli import trial_report
from ladder.cli.best_rung import SIZE, best_rung
from ladder.compiling.compile import SUFFIX as BINARY
from ladder.compiling.compile import Resource, compile_kernel, compile_support
from ladder.compiling.provenance import fingerprint
from ladder.compiling.toolchain import DEFAULT_ARCHITECTURE
from ladder.core import clock, yaml_schema
from ladder.core.errors import InputError, unwritable
from ladder.core.files import ROOT, digest, write_whole
from ladder.core.types import FAILED
from ladder.devices.detect import DetectedDevice, detect_cpu, detect_gpus, left_out
from ladder.devices.lock import exclusive, uuids
from ladder.measuring.probe import probe
from ladder.measuring.session import Session
from ladder.measuring.trial import LAST, LIMITS, RUNG, Entry, Trial
from ladder.model import campaign_file
from ladder.model.campaign import Campaign, check_memory
from ladder.model.kernel import OF_BUILD, SUFFIXES, Configuration, Kernel
from ladder.model.kernel_file import parse
from ladder.model.problem import VARIED, Problem
from ladder.storage.dataset_layout import read_environment

FOLDER = ROOT / "results" / "try"
FAILURES = (*FAILED, "compile_error")
"""Statuses with which a try ends, the gravest first."""
WATCH_SECONDS = 0.1
"""Time between looks at the file."""


class Tries:
    """The tries of one file. Between tries the worker keeps its device open; it is idle while this
    process holds no lock on the device.
    """

    def __init__(self, given: Namespace) -> None:
        """`given` are the arguments of the command line. Raises `InputError`."""
        self.given = given
        self.size = _size(given)
        self.lists = _lists(given.set)
        """Values of parameters, of the compiler and of its options."""
        kinds = [kind for kind, suffixes in SUFFIXES.items() if given.file.suffix in suffixes]
        self.kind = kinds[0] if kinds else ""
        # which may itself be a symbolic link
        self.path = ROOT / "kernels" / self.kind / given.file.name
        if not self.kind or given.file.parent.resolve() != self.path.parent.resolve():
            known = [
                f"kernels/{kind}/*{suffix}"
                for kind, suffixes in SUFFIXES.items()
                for suffix in suffixes
            ]
            raise InputError(f"{given.file}: expected a kernel in {' or '.join(known)} of {ROOT}")
        devices = detect_gpus() if self.kind == "cuda" else [detect_cpu()]
        self.device: DetectedDevice | None = devices[0] if devices else None
        self.arch = self.device.arch if self.device else DEFAULT_ARCHITECTURE
        self.kept = FOLDER / self.kind / (digest(self.lists) if self.lists else "") / self.path.stem
        """The path of the last correct try of the same configurations; each of its files has its
        own suffix.
        """
        self.session: Session | None = None
        self.best_rung = cache(partial(best_rung, given=self.lists))
        """Reads all results, once."""

    def once(self) -> bool:
        """Try the file as it is now and print the results; return whether it is correct. Raises
        `InputError`.
        """
        try:
            return self._once()
        finally:
            show("")

    def kill(self) -> None:
        """Kill the worker, whatever it does."""
        if self.session:
            self.session.kill()

    def close(self) -> None:
        """Let the worker end."""
        if self.session:
            self.session.end()
        self.session = None

    def _once(self) -> bool:
        start = clock.now()
        kernel = parse(self.path)
        plan = self._plan(kernel)
        (problem,) = plan.problems(self.kind, self.given.type)
        if self.device and self.device.memory:
            check_memory(plan, self.kind, self.device.name, self.device.memory)
        show("compiling")
        entries = self._compile_and_open(kernel, plan.configurations[kernel.id])
        show("")
        where = f" on {self.device.name}" if self.device else ""
        extras = "".join(f" {name}={value}" for name, value in problem.varied.items())
        print(
            f"{kernel.id}, {problem.element_type}, {problem.m} x {problem.n} x "
            f"{problem.k}{extras}{where}"
        )
        mine = [entry for entry in entries if entry.status == "compiled"]
        for text in trial_report.refusals(entries):
            print(text)
        if self.device and mine:
            self._run(self.device, problem, mine)
        for entry in mine if not self.device else ():
            words = trial_report.resources(entry.resource)
            print(f"compiled for {self.arch}: {entry.label}: {words}")
        failed = [entry.status for entry in entries if entry.status in FAILURES]
        if failed:  # an incorrect kernel may have damaged the worker
            self.close()
        elif not self.device:
            unusable = "".join(f"; {reason}" for reason in left_out())
            raise InputError(
                f"no usable GPU was found here{unusable}: compiled, not run; expected an NVIDIA "
                "GPU and its driver"
            )
        elif not any(entry.status == "correct" for entry in mine):
            raise InputError(
                f"{self.given.file}: no configuration of it runs on {self.device.name}, on this "
                "problem"
            )
        verdict = min(failed, key=FAILURES.index, default="correct")
        print(f"{verdict}; {clock.now() - start:.1f} s", flush=True)
        return not failed

    def _plan(self, kernel: Kernel) -> Campaign:
        """Return a campaign of this kernel alone on the one problem, checked like any other."""
        build = {name: values for name, values in self.lists.items() if name in OF_BUILD}
        own = {name: _numbers(values) for name, values in self.lists.items() if name not in build}
        check_type(kernel, self.given.type)
        if build and self.path.suffix != ".cu":
            raise InputError(
                f"--set {next(iter(build))}: expected a parameter of {kernel.id}; only CUDA C++ is "
                "compiled so"
            )
        data: dict[str, Any] = {
            "campaign": "tried",
            "problems": {self.kind: [self.size or [SIZE[self.kind]] * 3]},
            "element_types": [self.given.type],
            "parameters": {kernel.id: own} if own else {},
        }
        if "compiler" in build:
            data["compiler"] = build.pop("compiler")
        data["options"] = {name: _numbers(values) for name, values in build.items()}
        for name in VARIED:
            text = getattr(self.given, name)
            if text is not None:
                values = [yaml_schema.typed(part) for part in text.split(",")]
                data[name] = values if len(values) > 1 else values[0]
        return campaign_file.load(data, "ladder try", {kernel.id: kernel})

    def _compile_and_open(
        self, kernel: Kernel, configurations: Sequence[tuple[Configuration, str]]
    ) -> list[Entry]:
        """Return the compiled configurations. Meanwhile open the worker if the device is free:
        compiler messages must not wait for another run.

        With several configurations the worker is not opened early: until all are compiled, another
        run may take that device and leave others free.
        """
        if self.session or not self.device or len(configurations) > 1:
            return compiled(kernel, configurations, self.arch)
        pool = ProcessPoolExecutor(1, mp_context=get_context("fork"))
        compiling = pool.submit(compiled, kernel, configurations, self.arch)
        # it ends with this task: an idle process answers Ctrl-C with a traceback
        pool.shutdown(wait=False)
        # a device that cannot be opened is an error only when it is needed
        with suppress(OSError, InputError), exclusive(uuids(self.device), wait=False) as (uuid, _):
            self._open(uuid)
        return compiling.result()

    def _open(self, uuid: str) -> Session:
        """Return the session with its worker started. Raises `InputError` if the device or the
        support file cannot be used.
        """
        if self.session is None:
            support = FOLDER / "build" / self.arch / "support.bin"
            support.parent.mkdir(parents=True, exist_ok=True)
            write_whole(support, compile_support(self.kind, self.arch))
            self.session = Session(self.kind, uuid, support, {}, LIMITS.timeout_seconds, lock=None)
        self.session.worker()
        return self.session

    def _run(self, device: DetectedDevice, problem: Problem, mine: Sequence[Entry]) -> None:
        """Set the outcome of the compiled configurations, print the results and keep the best."""
        with exclusive([self.session.uuid] if self.session else uuids(device)) as (uuid, _):
            # first: if the device cannot be used, the user gets one line of error
            session = self._open(uuid)
            session.environment = self._environment(device, session)
            last, rung = self._last(device), self._rung(device, problem)
            beside = {RUNG: rung} if rung else {}
            if last and last.resource.sha256 not in {entry.resource.sha256 for entry in mine}:
                beside[LAST] = last
            trial = Trial(session, problem, mine, beside, show)
            trial.run()
            show("")
            timed = trial.timed
            doubts, stalls = {}, ""
            if timed:
                shares = [
                    trial_report.of_peak(entry, problem, session.environment) for entry in timed
                ]
                if max(shares) > 1:  # other work had slowed the device when it was measured
                    session.environment = self._environment(device, session, again=True)
                reference_us = timed[0].samples["reference_us"]
                doubts = trial_report.doubts(self.kind, trial.others, reference_us)
                if self.given.counters:
                    stalls = self._stalls(session, timed[0], problem)
            for line in trial_report.results(trial, doubts, last, stalls):
                print(line)
            try:
                self._keep(device, trial, list(doubts))
            except (InputError, OSError) as error:
                if isinstance(error, OSError):
                    error = unwritable(error.filename or FOLDER, error)
                words = f"nothing is kept of it for the next try: {error}"
                print(f"Warning: {words}", file=sys.stderr, flush=True)

    def _environment(
        self, device: DetectedDevice, session: Session, again: bool = False
    ) -> dict[str, Any]:
        """Return the device's `environment.json`. It is measured at first, when what it describes
        has changed, or `again`.
        """
        path, child = FOLDER / device.slug / "environment.json", session.worker()
        if path.exists() and not again:
            known = read_environment(path)
            described = fingerprint(device), child.attributes
            if (known["fingerprint"], known["attributes"]) == described:
                return known
        measured = probe(device, child)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(measured).encode())
        return measured

    def _last(self, device: DetectedDevice) -> Entry | None:
        """Return the best entry of the last correct try, if it was on the same device and of the
        same element type.
        """
        note, source = self.kept.with_suffix(".json"), self.kept.with_suffix(self.path.suffix)
        if not (note.exists() and source.exists()):
            return None
        try:
            known = json.loads(note.read_text())
            if (known["device"], known["element_type"]) != (device.slug, self.given.type):
                return None
            configuration = Configuration.of(self.given.type, known["configuration"])
            resource = Resource(**known["resource"])
            binary = self.kept.with_suffix(BINARY[self.kind])
            return Entry(parse(source), configuration, resource, binary, resource.status)
        except (ValueError, TypeError, KeyError, InputError) as error:
            raise InputError(
                f"{note}: {type(error).__name__}: {error}; expected what the last correct try has "
                "left. Remove it and try again"
            ) from None

    def _rung(self, device: DetectedDevice, problem: Problem) -> Entry | None:
        """Return the best rung of the device's own or of published results, compiled. None without
        results, or if it does not run here.
        """
        best = self.best_rung(device, self.path, problem)
        if best is None:
            return None
        path, label = best
        configuration = Configuration.of(problem.element_type, label)
        entry = compiled_alone(parse(path), configuration, self.arch)
        return entry if entry.status == "compiled" else None

    def _stalls(self, session: Session, best: Entry, problem: Problem) -> str:
        # importing them takes longer than all else
        from ladder.measuring.counters import STALLS, NotCounted, profile, stalls

        given = dict(vars(problem))
        del given["offset"], given["seed"]
        task = {
            "uuid": session.uuid,
            "support": str(session.support),
            "kernel": str(best.kernel.path),
            "functions": ["gemm", *(launch["function"] for launch in best.kernel.then)],
            "configuration": best.configuration.label,
            "binary": str(best.binary),
            "problem": given,
        }
        try:
            return "stalls, cycles an issued instruction: " + stalls(profile(task, STALLS.values()))
        except NotCounted as why:
            return f"no counters: {why}"

    def _keep(self, device: DetectedDevice, trial: Trial, marks: Sequence[str]) -> None:
        """Keep the best entry of a correct try for the next one, and add a line for every try to
        `history.jsonl`.
        """
        self.kept.parent.mkdir(parents=True, exist_ok=True)
        line: dict[str, Any] = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "kernel": f"{self.kind}/{self.path.stem}",
            "device": device.slug,
            "element_type": trial.problem.element_type,
            "problem": trial.problem.label,
            "status": {entry.configuration.label: entry.status for entry in trial.entries},
        }
        if trial.timed:
            best = trial.timed[0]
            line |= {
                "configuration": best.configuration.label,
                "ratio": best.ratio(),
                "sha256": best.resource.sha256,
                "marks": marks,
            }
            for suffix in SUFFIXES[self.kind]:  # it may have been in another language
                self.kept.with_suffix(suffix).unlink(missing_ok=True)
            write_whole(self.kept.with_suffix(self.path.suffix), best.kernel.text.encode())
            write_whole(self.kept.with_suffix(BINARY[self.kind]), best.binary.read_bytes())
            note = line | {"resource": asdict(best.resource)}
            write_whole(self.kept.with_suffix(".json"), json.dumps(note).encode())
        with (FOLDER / "history.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def show(step: str) -> None:
    """Show the current step on a terminal, in place of the last one; "" before anything else."""
    if sys.stderr.isatty():
        text = step[: os.get_terminal_size(sys.stderr.fileno()).columns - 1]
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _size(given: Namespace) -> list[int] | None:
    """Return the M, N and K that `--size` or `--problem` asks for; None for neither."""
    if given.size is not None:
        option, parts, expected = f"--size {given.size}", [given.size] * 3, "a size such as 512"
    elif given.problem is not None:
        option, parts = f"--problem {given.problem}", given.problem.split("x")
        expected = "MxNxK such as 64x4096x4096"
    else:
        return None
    if len(parts) != 3 or not all(re.fullmatch("[1-9][0-9]{0,5}|1000000", part) for part in parts):
        raise InputError(f"{option}: expected {expected}, from 1 to 1000000")
    return list(map(int, parts))


def _lists(assignments: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each name, from assignments such as `BM=64,128`."""
    lists: dict[str, list[str]] = {}
    for assignment in assignments:
        name, is_given, values = assignment.partition("=")
        if not is_given or name in lists:
            raise InputError(
                f"--set {assignment}: expected NAME=VALUES such as BM=64,128, each name once"
            )
        lists[name] = values.split(",")
    return lists


def check_type(kernel: Kernel, element_type: str) -> None:
    """Raise `InputError` if a kernel does not have the element type of `--type`."""
    if element_type not in kernel.element_types:
        raise InputError(
            f"--type {element_type}: expected one of the element_types in the header of "
            f"{kernel.id}, {', '.join(kernel.element_types)}"
        )


def _numbers(values: Sequence[str]) -> list[int | str]:
    return [int(value) if re.fullmatch("[0-9]{1,18}", value) else value for value in values]


def compiled(
    kernel: Kernel, configurations: Sequence[tuple[Configuration, str]], arch: str
) -> list[Entry]:
    """Return a kernel's configurations, each of which has its objection or "", compiled or with why
    they were not.
    """
    folder = FOLDER / "build" / arch / kernel.id
    rows = compile_kernel(kernel, configurations, arch, folder, len(os.sched_getaffinity(0)))
    return [
        Entry(kernel, configuration, row, folder / row.binary, row.status, row.reason)
        for row, (configuration, _) in zip(rows, configurations, strict=True)
    ]


def compiled_alone(kernel: Kernel, configuration: Configuration, arch: str) -> Entry:
    """Return one configuration, compiled or with why it was not."""
    (entry,) = compiled(kernel, [(configuration, kernel.objection(configuration))], arch)
    return entry


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
