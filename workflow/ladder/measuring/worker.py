"""The child process in which kernels run. Whatever a kernel does to it, the job that supervises it
lives on.

`ladder.measuring.worker_start` starts it. It answers the requests of its job (`protocol`) over the
connection on the given file descriptor.
"""

import ctypes
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from ladder.compiling import cubin
from ladder.core import clock, yaml_schema
from ladder.core.errors import InputError
from ladder.core.surroundings import described, sha256
from ladder.core.types import OF_CUDA
from ladder.devices import libraries
from ladder.devices.base import Device, Errors, Launch, Refused
from ladder.devices.operands import near, whole
from ladder.devices.simulation import simulated
from ladder.measuring import bits, gauntlet, protocol, timing
from ladder.measuring.diagnosis import diagnose
from ladder.measuring.gauntlet import AT_ONCE
from ladder.measuring.protocol import Answer, Candidate, Request, encode
from ladder.measuring.verify import Verdict, judge
from ladder.model import kernel_file
from ladder.model.baselines import REDUCING
from ladder.model.campaign import SUSTAINED
from ladder.model.kernel import Configuration, Kernel
from ladder.model.problem import Problem

Files = tuple[Kernel, bytes] | None
"""A candidate's kernel and binary as they are on disk; None for a baseline."""
MOST_WRITTEN = 1 << 28
"""The most bytes of a file written in the worker; its own files are binaries of kernels."""
REPEATS = 100
"""Empty launches in a sample, which show the overhead that a launch has if launches are
repeated.
"""
LAUNCHES = 2
"""Launches per problem of the gauntlet: one seldom shows a race."""


def _files(candidate: Candidate) -> Files:
    if candidate.path is None:
        return None
    path = Path(candidate.path)
    return _parsed(path, yaml_schema.read(path)), Path(candidate.binary).read_bytes()


@lru_cache(maxsize=64)
def _parsed(path: Path, text: str) -> Kernel:
    """Return the kernel in a file with this text; cached, because it is needed again and again."""
    return kernel_file.parse(path)


def opener(kind: str, library: str = "") -> Callable[[str, Path], Device]:
    """Import what opens a device of a kind, together with its baselines: those of the installed
    library, or of the one whose files are in the folder `library`. Return the function that opens
    it.
    """
    if kind == "cuda" and (gpus := simulated()):
        return partial(gpus.open_device, library=library)
    if kind == "cuda":
        libraries.load(library)  # before nvmath-python loads the one that it finds
        from ladder.devices.cublas import Cublas
        from ladder.devices.cuda import Cuda

        return lambda uuid, support: Cuda(uuid, support.read_bytes(), Cublas)
    from ladder.devices import blas
    from ladder.devices.cpu import Cpu

    return lambda uuid, support: Cpu(support, blas)


def _verdict(errors: Errors, problem: Problem, launch: Launch) -> Verdict:
    """Return the verdict on what a launch computed."""
    return judge(errors, problem, launch.precision, launch.reduces)


class Worker:
    """A device, the operands of a problem, and the launches made for it."""

    def __init__(self) -> None:
        self.device: Device
        self.launches: dict[Candidate, Launch] = {}
        self.present: Any = None
        self.small: dict[Problem, Any] = {}
        """The operands of the gauntlet's problems."""
        self.took: dict[tuple[Candidate, int, int, int, int], float] = {}
        """Roughly the microseconds of a launch on an M, N, K and batch on which it was checked."""

    def answers(self, request: Request) -> Iterator[Answer]:
        """Do a request; yield all answers to it but the last."""
        if self.present is not None:
            self.device.use(self.present)  # the request before may have used others
        match request:
            case protocol.Open(kind, uuid, support, library):
                self.device = opener(kind, library)(uuid, support)
                yield protocol.Opened(self.device.describe() | described(kind))
            case protocol.Probe():
                empty = {
                    "launch_us": self.device.launch_us(1),
                    "repeated_launch_us": self.device.launch_us(REPEATS),
                }
                measured = {"peaks": self.device.peaks(), **empty, "idle": self.device.monitor()}
                yield protocol.Probed(measured | {"libraries": sha256(self.device.kind)})
            case protocol.SetProblem(problem, reference):
                self._set_problem(problem, reference)
            case protocol.RunGauntlet(element_type, candidate, layout, batched):
                yield from self._run_gauntlet(element_type, candidate, layout, batched)
            case protocol.Load(candidate):
                launch = self._launch(candidate, _files(candidate))
                launch.us = self.took.get(self._checked(candidate), 0.0)
                self.launches[candidate] = launch
            case protocol.Check(candidate):
                launch = self.launches[candidate]
                verdict = self._judge(launch, self.given)
                self.took[self._checked(candidate)] = launch.us
                yield protocol.Judged(
                    verdict.status, verdict.reason, sums_16_bit=verdict.sums_16_bit
                )
            case protocol.Search():
                found = self.device.search() or ()
                yield protocol.Found(" ".join(f"{name}={value}" for name, value in found))
            case protocol.Diagnose(problem, candidate):
                yield self._diagnose(problem, candidate)
            case protocol.CompareBits(problem, candidate):
                yield from self._compare_bits(problem, candidate)
            case protocol.Time():
                yield from self._time(request)

    def _checked(self, candidate: Candidate) -> tuple[Candidate, int, int, int, int]:
        given = self.given
        return candidate, given.m, given.n, given.k, given.batch

    def _judge(self, launch: Launch, problem: Problem) -> Verdict:
        return _verdict(self.device.check(launch), problem, launch)

    def _use(self, problem: Problem) -> None:
        """Use the operands of a problem that is none to be timed."""
        if problem not in self.small:
            self.small[problem] = self.device.operands(problem)
        self.device.use(self.small[problem])

    def _set_problem(self, problem: Problem, reference: str) -> None:
        """Make the operands and verify the reference on them. Raises `RuntimeError` if the
        reference is not correct.

        On whole numbers of 16 bits the reference is not timed, and need not be exact: cuBLAS may
        add parts of K in 16 bits.
        """
        if self.present is not None:
            self.device.free(self.present)
        self.launches, self.present = {}, None
        self.given = problem
        self.present = self.device.operands(problem)
        self.reference = self._launch(Candidate(reference), None)
        if whole(problem) and problem.element_type in OF_CUDA:
            return
        verdict = self._judge(self.reference, problem)
        if verdict.status != "correct":
            raise RuntimeError(
                f"the reference {reference} is {verdict.status} on {problem.label}: "
                f"{verdict.reason}"
            )

    def _unmet_need(self, candidate: Candidate, files: Files, problem: Problem) -> str:
        """Return what a candidate needs and a problem or the device does not have, or ""."""
        chosen = Configuration.of(problem.element_type, candidate.configuration)
        given = {**problem.names(), **self.device.names}
        return files[0].unmet_need(chosen, given) if files else ""

    def _launch(self, candidate: Candidate, files: Files) -> Launch:
        """Return a candidate's launch on the present problem, made from its files, if the problem
        has what it needs.
        """
        if need := self._unmet_need(candidate, files, self.device.given):
            raise Refused("not_supported", need)
        return self._made(candidate, files)

    def _made(self, candidate: Candidate, files: Files) -> Launch:
        given = self.device.given
        chosen = Configuration.of(given.element_type, candidate.configuration)
        if files is None:
            launch = self.device.baseline(candidate.name, dict(chosen.parameters))
        else:
            kernel, code = files
            launch = self.device.kernel(kernel, chosen, code)
        reduces = candidate.name in REDUCING and given.element_type in OF_CUDA
        return replace(launch, precision=candidate.precision, reduces=reduces)

    def _run_gauntlet(
        self, element_type: str, candidate: Candidate, layout: str, batched: bool
    ) -> Iterator[Answer]:
        """Run a candidate on the gauntlet. The verdict is that on the first problem that it gets
        wrong.

        A baseline that adds parts of K in 16 bits is not wrong for that, but marked.
        """
        files, verdict = _files(candidate), Verdict("correct")
        tensor_cores = candidate.precision == "tf32"
        asked = plain = gauntlet.problems(element_type, candidate.precision, layout, batched)
        if files:
            kernel, code = files
            chosen = Configuration.of(element_type, candidate.configuration)
            plain = gauntlet.of_kernel(kernel, element_type, layout, batched)
            asked = gauntlet.problems_for(kernel, chosen, self.device.names)
            if self.device.kind == "cuda":
                kept, tensor_cores = cubin.state(code), cubin.uses_tensor_cores(code)
                if kept:
                    why = (
                        f"{', '.join(kept)}: state on the device that outlives a launch; expected "
                        "no malloc, and no variables but __constant__ ones that are only read"
                    )
                    verdict, asked = Verdict("incorrect", why), []
        launched, sums_16_bit, nan_at_alpha_0 = [], False, False
        for problem in asked:
            yield protocol.Trying(gauntlet.describe(problem))
            found: list[Verdict] = []
            try:
                self._use(problem)
                launch = self._made(candidate, files)  # `problems_for` meets what it needs
                while len(found) < LAUNCHES and (not found or found[-1].status == "correct"):
                    found.append(self._judge(launch, problem))
            except Refused as refusal:
                if refusal.fatal or refusal.status != "not_supported":
                    raise
                continue
            launched.append(problem)
            for judged in found:
                nan_at_alpha_0 |= judged.nan_at_alpha_0
                sums_16_bit |= judged.sums_16_bit
                if judged.status != "correct":
                    why = f"on {gauntlet.describe(problem)}: {judged.reason}"
                    verdict = Verdict(judged.status, why)
            if verdict.status == "correct" and problem.distribution == AT_ONCE.distribution:
                errors = self.device.check_at_once(launch)
                judged = _verdict(errors, problem, launch) if errors else judged
                if judged.status != "correct":
                    why = f"on {gauntlet.describe(problem)}: two launches at once: {judged.reason}"
                    verdict = Verdict(judged.status, why)
            if verdict.status != "correct":
                break
        changed = sum(problem not in plain for problem in launched)
        examined = tensor_cores, len(launched), changed, sums_16_bit, nan_at_alpha_0
        yield protocol.Judged(verdict.status, verdict.reason, *examined)

    def _diagnose(self, problem: Problem, candidate: Candidate) -> Answer:
        """Launch a candidate on a problem that it gets wrong, and examine the result."""
        seen, wrong = [], []
        self._use(problem)
        launch = self._launch(candidate, _files(candidate))
        for turn in range(LAUNCHES):
            verdict = self._judge(launch, problem)
            seen.append(self.device.look())
            if verdict.status != "correct":
                wrong.append(turn)
        if not wrong:
            return protocol.Diagnosed(None, right=True)
        first, again = seen[wrong[0]], seen[wrong[0] - 1][3]
        diagnosis = diagnose(near(problem), *first, again, verdict.component_bound or 0.0)
        return protocol.Diagnosed(vars(diagnosis) if diagnosis else None, right=False)

    def _compare_bits(self, problem: Problem, candidate: Candidate) -> Iterator[Answer]:
        """Launch a candidate on a problem and its like, and compare the bits of the results, until
        those of the same operands differ.
        """
        device, files, found = self.device, _files(candidate), dict[str, Any]()
        first: tuple[Problem, Any] | None = None
        unmet = partial(self._unmet_need, candidate, files)
        for asked in bits.launches(problem, device.kind, unmet):
            yield protocol.Alive()
            try:
                operands = self._computed(asked, candidate, files)
            except Refused as refusal:
                if refusal.fatal or first is None:
                    raise
                continue
            first = first or (asked.problem, operands)
            is_first = operands is first[1]
            bits.compare(found, asked, first[0], partial(device.differ, first[1]), is_first)
            if not is_first:
                device.free(operands)
            if found.get("every_launch"):
                break
        if first:
            device.free(first[1])
        yield protocol.Compared(found)

    def _computed(self, asked: bits.Asked, candidate: Candidate, files: Files) -> Any:
        """Return operands at new addresses, with the result of a launch."""
        device, goes_on = self.device, True
        operands = device.operands(asked.problem, compared=False)
        try:
            device.limit(asked.question == "processors")
            launch = self._launch(candidate, files)
            with device.busy() if asked.busy else nullcontext():
                device.compute(launch)
        except Refused as refusal:
            goes_on = not refusal.fatal
            if goes_on:
                device.free(operands)
            raise
        finally:
            if goes_on:
                device.limit(half=False)
        return operands

    def _time(self, request: protocol.Time) -> Iterator[Answer]:
        """Time candidates side by side. Yield the samples of each and the verdict on them as soon
        as they suffice.
        """
        launches = [self.launches[candidate] for candidate in request.candidates]
        kind = timing.Sustained if request.state == SUSTAINED else timing.Rounds
        rounds = kind(self.device, launches, self.reference, request)
        while not rounds.done:
            finished = rounds.next()
            for index, series in finished.items():
                verdict = Verdict("incorrect", series.fault)
                if not series.fault and series.errors is not None:
                    launch = launches[index]
                    verdict = _verdict(series.errors, self.given, launch)
                yield protocol.Sampled(index, vars(series), rounds.others(), vars(verdict))
            if not finished:
                yield protocol.Alive()

    def serve(self, connection: Connection) -> None:
        """Answer requests until None comes. The last answer to each is `Done`, `Declined` or
        `Unusable`.
        """
        while (request := connection.recv()) is not None:
            last: Answer
            ends = False
            try:
                for answer in self.answers(request):
                    connection.send_bytes(encode(answer))
                last = protocol.Done(self.device.busy_us)
            except Refused as refusal:
                last = protocol.Declined(refusal.status, refusal.reason, refusal.fatal)
                ends = refusal.fatal
            # a disk, a library, memory that others hold: kernels raise nothing
            except (InputError, OSError, MemoryError) as error:
                last = protocol.Unusable(
                    f"{sys.executable} -m ladder.measuring.worker_start: {error}"
                )
                ends = True
            connection.send_bytes(encode(last))
            if ends:
                return
        self.device.close()


def main(descriptor: int) -> NoReturn:
    """Serve the connection on a file descriptor, then end the process."""
    # die with the job (prctl(2), PR_SET_PDEATHSIG): an endless kernel would go on forever. Ctrl-C
    # is for the job, which ends the child
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    clock.count_stops()
    # whatever a kernel writes, it must not fill a disk; Python ignores SIGXFSZ, and a write beyond
    # the limit fails
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    most = MOST_WRITTEN if hard == resource.RLIM_INFINITY else min(MOST_WRITTEN, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    try:
        Worker().serve(Connection(descriptor))
    except BaseException:
        # the last words: libraries print more if the interpreter ends as usual
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)  # the system frees everything sooner than the interpreter and the libraries do
