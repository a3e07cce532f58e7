"""The tries of `ladder try`: compile a kernel, run the gauntlet, time it beside the reference, the
best rung and its last try.

The worker, the rounds and the verdicts are those of a campaign. `results/try/` has what is kept.
"""

import json
import math
import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ladder.cli import sandbox, trial_report
from ladder.cli.trial_verdict import FAILURES, gravest, of_peak, on_problem
from ladder.compiling.compile import SUFFIX as BINARY
from ladder.compiling.compile import Resource, compile_kernel, compile_support
from ladder.compiling.provenance import fingerprint
from ladder.compiling.toolchain import DEFAULT_ARCHITECTURE
from ladder.core import clock, places, yaml_schema
from ladder.core.errors import OF_DISKS, InputError, unwritable
from ladder.core.files import digest, write_whole
from ladder.devices.detect import DetectedDevice, detect_cpu, detect_gpus, left_out
from ladder.devices.lock import exclusive, uuids
from ladder.measuring.probe import probe
from ladder.measuring.protocol import Candidate, Judged
from ladder.measuring.session import Session
from ladder.measuring.trial import LAST, LIMITS, RUNG, SIZE, Entry, Trial
from ladder.measuring.verdict import OnProblem, Verdict
from ladder.model import campaign_file
from ladder.model.campaign import Campaign, check_memory
from ladder.model.kernel import KIND_OF, OF_BUILD, SUFFIXES, Configuration, Kernel
from ladder.model.kernel_file import header_of, parse
from ladder.model.problem import VARIED, Problem
from ladder.storage.dataset_layout import read_environment

WATCH_SECONDS = 0.1
"""Time between looks at the file."""
NOT_TRIED = "not_tried"
ASKED = ("problems", "element_types", "seed", *VARIED)
"""The keys of a campaign that `--problems` takes."""
REPEATED = ("size", "problem", "problems", "type", *VARIED, "set", "block", "grid")
"""The options that a command needs to ask the same again."""


def folder() -> Path:
    """Return the folder of what tries keep."""
    return places.project() / "results" / "try"


def run(given: Namespace) -> int:
    """Try the files of a command line; return the exit code: 2 if one could not be tried, 1 if one
    has failed, else 0.

    The verdicts go to `--json`, an object a line, and then what people read goes to stderr. Raises
    `InputError` if that file cannot be written.
    """
    to_stdout, codes, lines = given.json == Path("-"), [0], ""

    def say(text: str) -> None:
        print(text, file=sys.stderr if to_stdout else sys.stdout, flush=True)

    try:
        for verdict in judged(given, say):
            if verdict.status == NOT_TRIED:
                print(
                    f"Error: {verdict.reason}",
                    file=sys.stdout if given.watch else sys.stderr,
                    flush=True,
                )
            codes.append({NOT_TRIED: 2, "correct": 0}.get(verdict.status, 1))
            if to_stdout:
                print(verdict.json(), flush=True)
            elif given.json:
                lines += verdict.json() + "\n"
                write_whole(given.json, lines.encode())
    except KeyboardInterrupt:
        print("Interrupted", file=sys.stderr)
        return 130
    return max(codes)


def judged(given: Namespace, say: Callable[[str], None] = lambda text: None) -> Iterator[Verdict]:
    """Yield the verdict on each file of a command line; with `--watch`, one for each save, until
    interrupted. `say` gets the lines that people read.
    """
    deadline = clock.now() + given.budget
    for file in given.files:
        try:
            with closing(Tries(given, file, say, deadline)) as tries:
                yield from tries.watched() if given.watch else [tries.once()]
        except (InputError, OSError) as error:
            if isinstance(error, OSError):
                if error.errno not in OF_DISKS:
                    raise
                error = unwritable(error.filename, error)
            yield Verdict("", str(file), NOT_TRIED, str(error), repeated(given, str(file)))


def repeated(given: Namespace, *files: str) -> list[str]:
    """Return the words of the command line that asks the same of files again."""
    words = ["ladder", "try", *files]
    for name in REPEATED:
        value = getattr(given, name)
        values = value if isinstance(value, list) else [value]
        words += [f"--{name}={each}" for each in values if each is not None]
    return words


def sandboxed(given: Namespace) -> int:
    """Try the files of a command line in a container; return the exit code. Raises `InputError`."""
    paths = [file.absolute() for file in given.files]
    seen = [path for path in paths if path.exists()]
    for path in paths:
        beside = [path.with_suffix(".yaml")]
        with suppress(InputError):  # which the container tells
            beside += Tries(given, path, print, math.inf).kernel().includes
        # a kernel may name any file of its reader
        folders = [folder.resolve() for folder in places.include_folders(path)]
        seen += [
            each
            for each in beside
            if each.exists() and any(map(each.resolve().is_relative_to, folders))
        ]
    if given.problems and given.problems[0] not in "[{":
        given.problems = str(Path(given.problems).absolute())
        seen.append(Path(given.problems))
    words = [*repeated(given, *map(str, paths))[1:], f"--budget={given.budget}"]
    needs_gpu = any(KIND_OF.get(path.suffix) == "cuda" for path in paths)
    if given.json:
        words.append("--json=-")
    output = given.json if given.json != Path("-") else None
    return sandbox.run(words, seen, needs_gpu, output)


class Tries:
    """The tries of one file. Between tries the worker keeps its device open; it is idle while this
    process holds no lock on the device.
    """

    def __init__(
        self, given: Namespace, file: Path, say: Callable[[str], None], deadline: float
    ) -> None:
        """`given` are the arguments of the command line, `say` gets the lines that people read, and
        after the `deadline`, a time of `clock.now`, nothing more is begun. Raises `InputError` for
        arguments that cannot be used.
        """
        if not (kind := KIND_OF.get(file.suffix)):
            raise InputError(f"{file}: expected a kernel, in a file {', '.join(KIND_OF)}")
        self.given, self.say, self.deadline = given, say, deadline
        self.lists, self.asked = _lists(given.set), _asked(given, kind)
        """Values of parameters, of the compiler and of its options; problems as in a campaign."""
        self.kind, self.path = kind, file.absolute()
        self.begun = Verdict(
            f"{kind}/{file.stem}", str(file), NOT_TRIED, command=repeated(given, str(file))
        )
        devices = detect_gpus() if self.kind == "cuda" else [detect_cpu()]
        self.device: DetectedDevice | None = devices[0] if devices else None
        self.arch = self.device.arch if self.device else DEFAULT_ARCHITECTURE
        apart = _apart(self.path.parent)
        which = digest([self.lists, apart]) if self.lists or apart else ""
        self.kept = folder() / self.kind / which / self.path.stem
        """The path of the last correct try of the same configurations; each of its files has its
        own suffix.
        """
        self.session: Session | None = None
        self._best: Entry | None = None
        self._best_rungs: dict[Problem, tuple[Path, str] | None] = {}
        """By the problem: to find one reads all results."""

    def once(self) -> Verdict:
        """Try the file as it is now, say the results, and return the verdict. Its status is
        `not_tried` if the file could not be tried; the verdict then holds what was found before.
        """
        start, self._best, self.verdict = clock.now(), None, self.begun
        try:
            self._once()
        except InputError as error:
            self._found(reason=str(error))
        except KeyboardInterrupt:
            if self.session:
                self.session.kill()
            raise
        finally:
            show("")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._found(time=now, seconds=round(clock.now() - start, 1))
        if self.verdict.problems:
            self._keep()
        for line in trial_report.ending(self.verdict):
            self.say(line)
        return self.verdict

    def watched(self) -> Iterator[Verdict]:
        """Try the file now and whenever it or a file that it includes has changed, without end."""
        tried = None
        while True:
            try:
                state = [path.read_bytes() for path in [self.path, *self.kernel().includes]]
            except (InputError, OSError) as error:
                state = [str(error).encode()]
            if state != tried:
                tried = state
                yield self.once()
            clock.sleep(WATCH_SECONDS)

    def close(self) -> None:
        """Let the worker end."""
        if self.session:
            self.session.end()
        self.session = None

    def kernel(self) -> Kernel:
        """Return the kernel in the file. If that has no header, `--block` and `--grid` make one,
        for which a link to the file is put beside it. Raises `InputError`.
        """
        given = {name: getattr(self.given, name) for name in ("block", "grid")}
        found = header_of(self.path)
        for name, text in given.items():
            if text and (found or self.kind == "cpu"):
                why = "has a header, which says it" if found else "is no CUDA kernel"
                raise InputError(f"--{name} {text}: {self.path} {why}")
        if found:
            return parse(self.path)
        header: dict[str, Any] = {"element_types": self.asked["element_types"]}
        if layout := self.asked.get("layout"):
            header["layouts"] = layout if isinstance(layout, list) else [layout]
        if self.asked.get("batch", 1) != 1:
            header["batch"] = True
        if self.kind == "cuda":
            if not all(given.values()):
                raise InputError(
                    f"{self.path}: no header; expected the file to begin with a comment /*--- … "
                    f"---*/ of YAML, {self.path.stem}.yaml beside it, or --block and --grid"
                )
            # commas within parentheses belong to an expression
            header |= {
                name: list(map(yaml_schema.typed, re.findall(r"(?:[^,(]|\([^)]*\)+)+", text)))
                for name, text in given.items()
            }
        file = self.path.resolve()
        link = folder() / "given" / digest(str(file)) / self.kind / self.path.name
        link.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):  # it stays: others may try the file at the same time
            link.symlink_to(file)
        write_whole(link.with_suffix(".yaml"), json.dumps(header).encode())
        try:
            return parse(link)
        except InputError as error:
            raise InputError(str(error).replace(str(link), str(self.path))) from None

    def _found(self, **known: Any) -> None:
        self.verdict = replace(self.verdict, **known)

    def _once(self) -> None:
        kernel = self.kernel()
        self._found(sha256=kernel.digest, source=kernel.sources)
        plan = self._plan(kernel)
        if device := self.device:
            names = ("slug", "name", "kind", "arch")
            self._found(device={name: getattr(device, name) for name in names})
            if device.memory:
                check_memory(plan, self.kind, device.name, device.memory)
        left: list[Problem] = []
        for element_type in plan.element_types:
            chosen = [
                (configuration, objection)
                for configuration, objection in plan.configurations[kernel.id]
                if configuration.element_type == element_type
            ]
            if chosen:
                left += self._try_type(kernel, chosen, plan.problems(self.kind, element_type))
        self._found(not_measured=left)
        results = self.verdict.problems
        status = gravest([result.status for result in results])
        if status in FAILURES:
            outcomes = [outcome for result in results for outcome in result.outcomes]
            self._found(
                status=status,
                reason=next(outcome.reason for outcome in outcomes if outcome.status == status),
            )
        elif not self.device:
            unusable = "".join(f"; {reason}" for reason in left_out())
            raise InputError(
                f"no usable GPU was found here{unusable}: compiled, not run; expected an NVIDIA "
                "GPU and its driver"
            )
        elif status == "correct":
            self._found(status=status)
        elif clock.now() >= self.deadline:
            raise InputError(
                f"--budget {self.given.budget:g}: used up before anything was measured; expected "
                "more seconds"
            )
        else:
            reasons = {outcome.reason for result in results for outcome in result.outcomes}
            raise InputError(
                f"{self.verdict.file}: no configuration of it runs on {self.device.name}, on this "
                f"problem: {'; '.join(sorted(reasons))}"
            )

    def _plan(self, kernel: Kernel) -> Campaign:
        """Return a campaign of this kernel alone on the problems, checked like any other."""
        build = {name: values for name, values in self.lists.items() if name in OF_BUILD}
        own = {name: _numbers(values) for name, values in self.lists.items() if name not in build}
        if self.given.type or not self.given.problems:
            for element_type in self.asked["element_types"]:
                check_type(kernel, element_type)
        if build and self.path.suffix != ".cu":
            raise InputError(
                f"--set {next(iter(build))}: expected a parameter of {kernel.id}; only CUDA C++ is "
                "compiled so"
            )
        data: dict[str, Any] = {
            "campaign": "tried",
            "parameters": {kernel.id: own} if own else {},
            **self.asked,
        }
        if "compiler" in build:
            data["compiler"] = build.pop("compiler")
        data["options"] = {name: _numbers(values) for name, values in build.items()}
        return campaign_file.load(data, "ladder try", {kernel.id: kernel})

    def _try_type(
        self,
        kernel: Kernel,
        configurations: Sequence[tuple[Configuration, str]],
        problems: Sequence[Problem],
    ) -> Sequence[Problem]:
        """Try the configurations of an element type. Return the problems that were not begun:
        those after the deadline, or when no configuration was left.
        """
        if clock.now() >= self.deadline:
            return problems
        show("compiling")
        # meanwhile the worker starts; but not while several are compiled: another run may take that
        # device by then, and leave others free
        if self.device and not self.session and len(configurations) == 1:
            # a device that cannot be opened is an error only when it is needed
            with suppress(OSError, InputError), exclusive(uuids(self.device), wait=False) as held:
                self._start(held[0])
        entries = compiled(kernel, configurations, self.arch)
        show("")
        refused = [entry for entry in entries if entry.status != "compiled"]
        left = [entry for entry in entries if entry.status == "compiled"]
        last = self._last(self.device, configurations[0][0].element_type) if self.device else None
        judged: dict[Candidate, Judged] = {}
        passed: list[Problem] = []
        for turn, problem in enumerate(problems):
            if turn and (not left or clock.now() >= self.deadline):
                return [*passed, *problems[turn:]]
            mine = [replace(entry) for entry in left if entry.configuration.form == problem.form]
            unsupported = problem.layout not in kernel.layouts or (
                problem.batched and not kernel.batch
            )
            if left and unsupported:
                why = kernel.unsupported(left[0].configuration, problem.names())
                refused.append(replace(left[0], status="not_supported", reason=why))
            if not [*mine, *refused]:
                passed.append(problem)
                continue
            # compiler messages must not wait for another run
            result = on_problem(problem, [*mine, *refused], {})
            self.say(trial_report.heading(self.verdict, problem))
            for line in trial_report.refusals(self.verdict, result):
                self.say(line)
            if self.device and mine:
                result = self._run(self.device, problem, mine, refused, last, judged)
            self._found(problems=[*self.verdict.problems, result])
            for line in trial_report.results(self.verdict, result):
                self.say(line)
            # what fails on one problem counts as failed on all, as in a campaign
            failed = {
                entry.configuration
                for entry in mine
                if entry.status not in ("correct", "not_supported")
            }
            left, refused = [each for each in left if each.configuration not in failed], []
            if any(entry.status in FAILURES for entry in mine):
                self.close()  # an incorrect kernel may have damaged the worker
        return passed

    def _start(self, uuid: str) -> Session:
        """Return the session, whose worker starts. Raises `InputError` if the support file cannot be
        used.
        """
        if self.session is None:
            support = folder() / "build" / self.arch / "support.bin"
            write_whole(support, compile_support(self.kind, self.arch))
            self.session = Session(self.kind, uuid, support, {}, LIMITS.timeout_seconds, lock=None)
            self.session.start(vars(self.given).pop("worker", None))
        return self.session

    def _run(
        self,
        device: DetectedDevice,
        problem: Problem,
        mine: Sequence[Entry],
        refused: Sequence[Entry],
        last: Entry | None,
        judged: dict[Candidate, Judged],
    ) -> OnProblem:
        """Set the outcome of the compiled configurations, and return it beside that of the refused
        ones.
        """
        free = [self.session.uuid] if self.session else uuids(device)
        with exclusive(free) as (uuid, _), ThreadPoolExecutor(1) as pool:
            # first: if the device cannot be used, the user gets one line of error
            session, counters = self._start(uuid), ""
            session.environment = self._environment(device, session)
            rung = pool.submit(self._rung, device, problem)  # while the worker verifies
            last = last if last and last.configuration.form == problem.form else None
            is_other = last and last.resource.sha256 not in {each.resource.sha256 for each in mine}
            trial = Trial(
                session,
                problem,
                mine,
                lambda: {RUNG: rung.result(), LAST: last if is_other else None},
                show,
                judged,
                self.deadline,
            )
            trial.run()
            show("")
            if timed := trial.timed:
                self._best = timed[0]
                shares = [of_peak(entry, problem, session.environment) for entry in timed]
                if max(shares) > 1:  # other work had slowed the device when it was measured
                    session.environment = self._environment(device, session, again=True)
                if self.given.counters:
                    counters = self._stalls(session, timed[0], problem)
            self._found(environment=session.environment)
            entries = [*mine, *refused]
            return on_problem(problem, entries, session.environment, trial, last, counters)

    def _environment(
        self, device: DetectedDevice, session: Session, again: bool = False
    ) -> dict[str, Any]:
        """Return the device's `environment.json`. It is measured at first, when what it describes
        has changed, or `again`.
        """
        path, child = folder() / device.slug / "environment.json", session.worker()
        if path.exists() and not again:
            known = read_environment(path)
            described = fingerprint(device), child.attributes
            if (known["fingerprint"], known["attributes"]) == described:
                return known
        measured = probe(device, child)
        write_whole(path, json.dumps(measured).encode())
        return measured

    def _last(self, device: DetectedDevice, element_type: str) -> Entry | None:
        """Return the best entry of the last correct try, if it was on the same device and of the
        same element type.
        """
        note, source = self.kept.with_suffix(".json"), self.kept.with_suffix(self.path.suffix)
        if not (note.exists() and source.exists()):
            return None
        try:
            known = json.loads(note.read_text())
            resource = Resource(**known["resource"])
            if (known["device"], resource.element_type) != (device.slug, element_type):
                return None
            configuration = Configuration.of(element_type, resource.configuration)
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
        # imported while the worker verifies: pyarrow takes long
        from ladder.cli.best_rung import best_rung

        if problem not in self._best_rungs:
            self._best_rungs[problem] = best_rung(device, self.path, problem, self.lists)
        if not (best := self._best_rungs[problem]):
            return None
        configuration = Configuration.of(problem.element_type, best[1])
        entry = compiled_alone(parse(best[0]), configuration, self.arch)
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

    def _keep(self) -> None:
        """Add the verdict to `history.jsonl`, and keep the best entry of the last problem that was
        timed for the next try. Warn if that cannot be done.
        """
        try:
            self.kept.parent.mkdir(parents=True, exist_ok=True)
            # one write: others may add lines at the same time
            with (folder() / "history.jsonl").open("ab", buffering=0) as file:
                file.write(f"{self.verdict.json()}\n".encode())
            if self._best:
                self._keep_best(self._best)
        except (InputError, OSError) as error:
            if isinstance(error, OSError):
                error = unwritable(error.filename or folder(), error)
            words = f"the next try cannot compare with this one: {error}"
            print(f"Warning: {words}", file=sys.stderr, flush=True)

    def _keep_best(self, best: Entry) -> None:
        # it may have been in another language
        for suffix in (*SUFFIXES[self.kind], ".yaml"):
            self.kept.with_suffix(suffix).unlink(missing_ok=True)
        write_whole(self.kept.with_suffix(self.path.suffix), best.kernel.text.encode())
        if best.kernel.sidecar:
            write_whole(self.kept.with_suffix(".yaml"), best.kernel.sidecar.encode())
        write_whole(self.kept.with_suffix(BINARY[self.kind]), best.binary.read_bytes())
        note = {"device": self.device and self.device.slug, "resource": asdict(best.resource)}
        write_whole(self.kept.with_suffix(".json"), json.dumps(note).encode())


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


def _asked(given: Namespace, kind: str) -> dict[str, Any]:
    """Return the problems, element types and operands that are asked for, by keys of a campaign.
    The problems are those of a device kind.
    """
    asked: dict[str, Any] = {"problems": {kind: [_size(given) or [SIZE[kind]] * 3]}}
    if (text := given.problems) is not None:
        source = f"--problems {text}"
        if given.size or given.problem:
            raise InputError(f"{source}: expected no --size and no --problem beside it")
        # a list or a mapping may be given in place of a file
        data = yaml_schema.load(
            text if text[:1] in ("[", "{") else yaml_schema.read(Path(text)), source
        )
        data = data if isinstance(data, dict) else {"problems": data}
        problems = data.get("problems")
        problems = problems if isinstance(problems, dict) else {kind: problems}
        if not problems.get(kind):
            raise InputError(f"{source}: expected problems.{kind}, as in a campaign, or a list")
        data |= {"campaign": "tried", "problems": problems}
        yaml_schema.check(data, "config", source)
        asked = {name: data[name] for name in ASKED if name in data}
    if given.type or "element_types" not in asked:
        asked["element_types"] = (given.type or "float32").split(",")
    for name in VARIED:
        if (text := getattr(given, name)) is not None:
            values = [yaml_schema.typed(part) for part in text.split(",")]
            asked[name] = values if len(values) > 1 else values[0]
    return asked


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


def _apart(folder: Path) -> str:
    """Return what sets kernels of a folder apart from others of their names; "" for the folders of
    the project and of home.
    """
    name = places.named(folder.resolve())
    return "" if name in [f"kernels/{kind}" for kind in SUFFIXES] else digest(name)


def compiled(
    kernel: Kernel, configurations: Sequence[tuple[Configuration, str]], arch: str
) -> list[Entry]:
    """Return a kernel's configurations, each of which has its objection or "", compiled or with why
    they were not.
    """
    built = folder() / "build" / arch / _apart(kernel.path.parent) / kernel.id
    rows = compile_kernel(kernel, configurations, arch, built, len(os.sched_getaffinity(0)))
    return [
        Entry(kernel, configuration, row, built / row.binary, row.status, row.reason)
        for row, (configuration, _) in zip(rows, configurations, strict=True)
    ]


def compiled_alone(kernel: Kernel, configuration: Configuration, arch: str) -> Entry:
    """Return one configuration, compiled or with why it was not."""
    (entry,) = compiled(kernel, [(configuration, kernel.objection(configuration))], arch)
    return entry
