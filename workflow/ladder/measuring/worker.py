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
from dataclasses import replace
from functools import lru_cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from ladder.compiling import cubin
from ladder.core import clock, yaml_schema
from ladder.core.errors import InputError
from ladder.core.surroundings import described
from ladder.core.types import OF_CUDA
from ladder.devices.base import Device, Launch, Refused
from ladder.devices.operands import whole
from ladder.devices.simulation import simulated
from ladder.measuring import gauntlet, protocol, timing
from ladder.measuring.diagnosis import diagnose
from ladder.measuring.protocol import Answer, Candidate, Request, encode
from ladder.measuring.verify import INEXACT, Verdict, judge
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


def open_device(kind: str, uuid: str, support: Path) -> Device:
    """Return the device of a kind, together with its baselines."""
    if kind == "cuda" and (gpus := simulated()):
        opened: Device = gpus.open_device(uuid, support)
        return opened
    if kind == "cuda":
        from ladder.devices.cublas import Cublas
        from ladder.devices.cuda import Cuda

        return Cuda(uuid, support.read_bytes(), Cublas)
    from ladder.devices import blas
    from ladder.devices.cpu import Cpu

    return Cpu(support, blas.launch)


def library(device: Any) -> str:
    """Return name and version of the vendor's library that a device is compared with."""
    if device.kind == "cuda":
        return f"cuBLAS {device.blas.version()}"
    from ladder.devices import blas

    return blas.version()


class Worker:
    """A device, the operands of a problem, and the launches made for it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.device: Device
        self.launches: dict[Candidate, Launch] = {}
        self.present: Any = None
        self.small: dict[Problem, Any] = {}
        """The operands of the gauntlet's problems."""

    def _send(self, answer: Answer) -> None:
        self.connection.send_bytes(encode(answer))

    def _do(self, request: Request) -> None:
        """Do a request and send all answers to it but the last."""
        match request:
            case protocol.Open(kind, uuid, support):
                self.device = open_device(kind, uuid, support)
                attributes = (
                    self.device.describe() | {"library": library(self.device)} | described(kind)
                )
                self._send(protocol.Opened(attributes))
            case protocol.Probe():
                empty = {
                    "launch_us": self.device.launch_us(1),
                    "repeated_launch_us": self.device.launch_us(REPEATS),
                }
                self._send(
                    protocol.Probed(
                        {"peaks": self.device.peaks(), **empty, "idle": self.device.monitor()}
                    )
                )
            case protocol.SetProblem(problem, reference):
                self._set_problem(problem, reference)
            case protocol.RunGauntlet(element_type, candidate):
                self._run_gauntlet(element_type, candidate)
            case protocol.Load(candidate):
                self.launches[candidate] = self._launch(candidate, _files(candidate))
            case protocol.Check(candidate):
                launch = self.launches[candidate]
                verdict = judge(self.device.check(launch), self.given, launch.tf32)
                self._send(protocol.Judged(verdict.status, verdict.reason))
            case protocol.Diagnose(problem, candidate):
                self._diagnose(problem, candidate)
            case protocol.Time():
                self._time(request)

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
        self.present = self.device.operands(self.given)
        self.reference = self.device.baseline(reference)
        if whole(problem) and problem.element_type in OF_CUDA:
            return
        verdict = judge(self.device.check(self.reference), self.given)
        if verdict.status != "correct":
            raise RuntimeError(
                f"the reference {reference} is {verdict.status} on {self.given.label}: "
                f"{verdict.reason}"
            )

    def _launch(self, candidate: Candidate, files: Files) -> Launch:
        """Return a candidate's launch on the present problem, made from its files."""
        tf32 = candidate.precision == "tf32"
        given = self.device.given
        chosen = Configuration.of(given.element_type, candidate.configuration)
        if files is None:
            return replace(
                self.device.baseline(candidate.name, dict(chosen.parameters).get("ALGORITHM")),
                tf32=tf32,
            )
        kernel, code = files
        need = kernel.unmet_need(chosen, {**given.names(), **self.device.names})
        if need:
            raise Refused("not_supported", need)
        return replace(self.device.kernel(kernel, chosen, code), tf32=tf32)

    def _run_gauntlet(self, element_type: str, candidate: Candidate) -> None:
        """Run a candidate on the gauntlet. The verdict is that on the first problem that it gets
        wrong.

        A baseline of 16-bit elements that is not exact on whole numbers, because it adds parts of K
        in 16 bits, is not wrong for that.
        """
        verdict, tensor_cores, files = (
            Verdict("correct"),
            candidate.precision != "",
            _files(candidate),
        )
        reduces, sums_16_bit = candidate.name in REDUCING and element_type in OF_CUDA, False
        if self.device.kind == "cuda" and files:
            kept, tensor_cores = cubin.state(files[1]), cubin.uses_tensor_cores(files[1])
            if kept:
                why = (
                    f"{', '.join(kept)}: state on the device that outlives a launch; expected no "
                    "malloc, and no variables but "
                    "__constant__ ones that are only read"
                )
                verdict = Verdict("incorrect", why)
        plain = gauntlet.problems(element_type, candidate.precision == "tf32")
        asked, launched, nan_at_alpha_0 = plain, [], False
        if files:
            asked = gauntlet.problems_for(
                files[0], Configuration.of(element_type, candidate.configuration), self.device.names
            )
        for problem in asked:
            if verdict.status != "correct":
                break
            self._send(protocol.Trying(gauntlet.describe(problem)))
            if problem not in self.small:
                self.small[problem] = self.device.operands(problem)
            self.device.use(self.small[problem])
            try:
                launch = self._launch(candidate, files)
            except Refused as refusal:
                if refusal.fatal or refusal.status != "not_supported":
                    raise
                continue
            launched.append(problem)
            for _ in range(LAUNCHES):
                judged = judge(self.device.check(launch), problem, launch.tf32)
                nan_at_alpha_0 |= judged.nan_at_alpha_0
                if reduces and INEXACT in judged.reason:
                    sums_16_bit = True
                elif judged.status != "correct":
                    verdict = Verdict(
                        judged.status, f"on {gauntlet.describe(problem)}: {judged.reason}"
                    )
                    break
        changed = sum(problem not in plain for problem in launched)
        examined = tensor_cores, len(launched), changed, sums_16_bit, nan_at_alpha_0
        self._send(protocol.Judged(verdict.status, verdict.reason, *examined))

    def _diagnose(self, problem: Problem, candidate: Candidate) -> None:
        """Launch a candidate on a problem that it gets wrong, and examine the result."""
        seen, wrong = [], []
        self.small[problem] = self.small.get(problem) or self.device.operands(problem)
        self.device.use(self.small[problem])
        launch = self._launch(candidate, _files(candidate))
        for turn in range(LAUNCHES):
            verdict = judge(self.device.check(launch), problem, launch.tf32)
            seen.append(self.device.look())
            wrong += [turn] * (verdict.status != "correct")
        first = wrong[0] if wrong else 0
        diagnosis = (
            diagnose(problem, *seen[first], seen[first - 1][3], verdict.component_bound or 0.0)
            if wrong
            else None
        )
        self._send(protocol.Diagnosed(vars(diagnosis) if diagnosis else None, not wrong))

    def _time(self, request: protocol.Time) -> None:
        """Time candidates side by side. Send the samples of each and the verdict on them as soon as
        they suffice.
        """
        before = self.device.other_processes()
        kind = timing.Sustained if request.state == SUSTAINED else timing.Rounds
        rounds = kind(
            self.device,
            [self.launches[candidate] for candidate in request.candidates],
            self.reference,
            request.state,
            request.limits,
            request.seed,
            request.best,
        )
        while not rounds.done:
            finished = rounds.next()
            for index, series in finished.items():
                tf32 = self.launches[request.candidates[index]].tf32
                self._send(self._sampled(index, series, tf32, before))
            if not finished:
                self._send(protocol.Alive())

    def _sampled(
        self, index: int, series: timing.Series, tf32: bool, before: int | None
    ) -> protocol.Sampled:
        """Return the samples of a candidate and the verdict on them. `before` is how many other
        processes computed when they began.
        """
        others = [count for count in (before, self.device.other_processes()) if count is not None]
        verdict = Verdict("incorrect", series.fault)
        if not series.fault and series.errors is not None:
            verdict = judge(series.errors, self.given, tf32)
        return protocol.Sampled(index, vars(series), max(others, default=None), vars(verdict))

    def serve(self) -> None:
        """Answer requests until None comes. The last answer to each is `Done`, `Declined` or
        `Unusable`.
        """
        while (request := self.connection.recv()) is not None:
            try:
                self._do(request)
            except Refused as refusal:
                self._send(protocol.Declined(refusal.status, refusal.reason, refusal.fatal))
                if refusal.fatal:
                    return
                continue
            except (
                InputError,
                OSError,
                MemoryError,
            ) as error:  # a disk, a library, memory that others hold: kernels raise nothing
                self._send(
                    protocol.Unusable(f"{sys.executable} -m ladder.measuring.worker_start: {error}")
                )
                return
            self._send(protocol.Done(self.device.busy_us))
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
        Worker(Connection(descriptor)).serve()
    except BaseException:
        # the last words: libraries print more if the interpreter ends as usual
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)  # the system frees everything sooner than the interpreter and the libraries do
