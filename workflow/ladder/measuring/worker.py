"""The child process in which kernels run: whatever one does to it, the job that supervises it lives on.

Started by `ladder.measuring.worker_start`; answers the requests that `measure` and `confirm` send over the connection on that file
descriptor.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from ladder.compiling import cubin
from ladder.core import yaml_schema
from ladder.devices.base import Device, Launch, Refused
from ladder.devices.simulation import simulated
from ladder.measuring import gauntlet, timing
from ladder.measuring.diagnosis import diagnose
from ladder.measuring.verify import Verdict, judge
from ladder.model import kernel_file
from ladder.model.campaign import Limits
from ladder.model.kernel import Configuration, Kernel
from ladder.model.problem import Problem

Contestant = tuple[str, str | None, Sequence[Sequence[Any]], str, str]
"""Name, kernel file (None for a baseline), parameters, binary file and precision ("" for the element type's own)."""
Files = tuple[Kernel, bytes] | None
"""A contestant's kernel and binary as they are on the disk; a baseline has none."""
MOST_WRITTEN = 1 << 28
"""Bytes that a file may grow to in the worker; its own are binaries of kernels."""
LAUNCHES = 2
"""Of every problem of the gauntlet: a race is seldom seen by one."""


def _files(contestant: Contestant) -> Files:
    _, path, _, binary, _ = contestant
    return None if path is None else (_parsed(Path(path), yaml_schema.read(Path(path))), Path(binary).read_bytes())


@lru_cache(maxsize=64)
def _parsed(path: Path, text: str) -> Kernel:
    """The kernel in a file of this text: asked for again and again."""
    return kernel_file.parse(path)


def open_device(kind: str, uuid: str, support: Path) -> Device:
    """The device of a kind, together with its baselines."""
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


class Worker:
    """Holds a device, the operands of a problem and the launches made for it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.device: Device
        self.launches: dict[int, Launch] = {}
        self.present: Any = None
        self.small: dict[Problem, Any] = {}
        """The operands of the gauntlet's problems."""

    def _say(self, answer: Sequence[Any]) -> None:
        """Send an answer: as text, so that what a kernel writes to the pipe is at worst no answer, and no program that the job runs."""
        self.connection.send_bytes(json.dumps(answer, default=lambda value: value.item()).encode())

    def open(self, kind: str, uuid: str, support: str) -> None:
        self.device = open_device(kind, uuid, Path(support))

    def problem(self, problem: Mapping[str, Any], reference: str) -> None:
        """Make the operands, and see that the reference launch itself is right."""
        if self.present is not None:
            self.device.free(self.present)
        self.launches, self.present = {}, None
        self.given = Problem(**problem)
        self.present = self.device.operands(self.given)
        self.reference = self.device.baseline(reference)
        verdict = judge(self.device.check(self.reference), self.given)
        if verdict.status != "correct":
            raise RuntimeError(f"the reference {reference} is {verdict.status} on {self.given.label}: {verdict.reason}")

    def _launch(self, contestant: Contestant, files: Files) -> Launch:
        """A contestant's launch on the present problem, made of its files."""
        name, _, parameters, _, precision = contestant
        if files is None:
            return replace(self.device.baseline(name), tf32=precision == "tf32")
        kernel, code = files
        given = self.device.given
        chosen = Configuration(given.element_type, tuple((name, value) for name, value in parameters))
        need = kernel.unmet_need(chosen, {**given.names(), **self.device.names})
        if need:
            raise Refused("not_supported", need)
        return replace(self.device.kernel(kernel, chosen, code), tf32=precision == "tf32")

    def gauntlet(self, element_type: str, *contestant: Any) -> None:
        """Run a contestant on the gauntlet's problems; sends the verdict, that on the first problem that it gets wrong."""
        verdict, tensor, files = Verdict("correct"), contestant[4] != "", _files(contestant)
        if self.device.kind == "cuda" and files:
            kept, tensor = cubin.state(files[1]), cubin.uses_tensor_cores(files[1])
            if kept:
                why = (
                    f"{', '.join(kept)}: state on the device that outlives a launch; expected no malloc, and no variables but "
                    "__constant__ ones that are only read"
                )
                verdict = Verdict("incorrect", why)
        for problem in gauntlet.problems(element_type, contestant[4] == "tf32"):
            if verdict.status != "correct":
                break
            self._say(("trying", gauntlet.describe(problem)))
            if problem not in self.small:
                self.small[problem] = self.device.operands(problem)
            self.device.use(self.small[problem])
            try:
                launch = self._launch(contestant, files)
            except Refused as refusal:
                if refusal.fatal or refusal.status != "not_supported":
                    raise
                continue
            for _ in range(LAUNCHES):
                found = judge(self.device.check(launch), problem, launch.tf32)
                if found.status != "correct":
                    verdict = Verdict(found.status, f"on {gauntlet.describe(problem)}: {found.reason}")
                    break
        self._say(("verdict", vars(verdict) | {"tensor_cores": tensor}))

    def diagnose(self, problem: Mapping[str, Any], *contestant: Any) -> None:
        """Launch a contestant on a problem that it gets wrong; sends what a look at it finds, or None, and whether it was right now."""
        given, seen, wrong = Problem(**problem), [], []
        self.small[given] = self.small.get(given) or self.device.operands(given)
        self.device.use(self.small[given])
        launch = self._launch(contestant, _files(contestant))
        for turn in range(LAUNCHES):
            verdict = judge(self.device.check(launch), given, launch.tf32)
            seen.append(self.device.look())
            wrong += [turn] * (verdict.status != "correct")
        first = wrong[0] if wrong else 0
        found = diagnose(given, *seen[first], seen[first - 1][3], verdict.component_bound or 0.0)
        self._say(("diagnosis", vars(found) if found else None, not wrong))

    def load(self, index: int, *contestant: Any) -> None:
        """Make the launch of a contestant on the present problem."""
        self.launches[index] = self._launch(contestant, _files(contestant))

    def check(self, index: int) -> None:
        """Launch a contestant once and compare every element; sends the verdict."""
        launch = self.launches[index]
        self._say(("verdict", vars(judge(self.device.check(launch), self.given, launch.tf32))))

    def time(self, indices: list[int], state: str, limits: Mapping[str, Any], seed: int, best: float) -> None:
        """Time contestants side by side; sends each one's samples, and the verdict on them, as soon as they suffice."""
        chosen = {index: self.launches[index] for index in indices}
        before = self.device.other_processes()
        for done in timing.measure(self.device, chosen, self.reference, state, Limits(**limits), seed, best):
            if done is None:
                self._say(("alive",))
            else:
                index, series = done
                others = [count for count in (before, self.device.other_processes()) if count is not None]
                verdict = Verdict("incorrect", series.fault)
                if not series.fault and series.errors is not None:
                    verdict = judge(series.errors, self.given, self.launches[index].tf32)
                sent = {name: value for name, value in vars(series).items() if name not in ("errors", "fault")}
                self._say(("series", index, sent, max(others, default=None), vars(verdict)))

    def energy(self, index: int, repeats: int, seconds: float) -> None:
        """Measure the energy of a contestant over `seconds`; sends the joules and microseconds of one launch, or None."""
        found = self.device.energy(self.device.sample(self.launches[index], repeats), seconds)
        self._say(("energy", found and [value / repeats for value in found]))

    def serve(self) -> None:
        """Answer requests, each ended by `done` (with the microseconds the device has been busy) or `refused`, until told to stop."""
        while (request := self.connection.recv()) is not None:
            try:
                getattr(self, request[0])(*request[1:])
            except Refused as refusal:
                self._say(("refused", refusal.status, refusal.reason, refusal.fatal))
                if refusal.fatal:
                    return
                continue
            except OSError as error:  # a disk, a library, memory that others hold: the machine's, for kernels raise nothing
                self._say(("unusable", f"{sys.executable} -m ladder.measuring.worker_start: {error}"))
                return
            self._say(("done", self.device.busy_us))
        self.device.close()


def main(descriptor: int) -> NoReturn:
    """Serve the connection on a file descriptor, and end the process."""
    # it dies with the job (prctl(2), PR_SET_PDEATHSIG): an endless kernel would go on for ever. Ctrl-C is for the job, which ends the child
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # what a kernel prints, or writes elsewhere, fills no disk; Python ignores SIGXFSZ, and a write beyond it fails
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    most = MOST_WRITTEN if hard == resource.RLIM_INFINITY else min(MOST_WRITTEN, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    Worker(Connection(descriptor)).serve()
    os._exit(0)  # the system takes back what it holds sooner than the interpreter and the libraries do
