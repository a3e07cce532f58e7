"""The child process in which kernels run: whatever one does to it, the job that supervises it lives on.

Started as `python -m ladder.worker FD`; answers the requests that `measure` sends over the connection on that file descriptor.
"""

import ctypes
import math
import signal
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ladder import kernels, timing
from ladder.campaign import Limits, Problem
from ladder.devices import Device, Launch, Refused
from ladder.kernels import Configuration
from ladder.verify import Verdict, judge

ENERGY_SECONDS = 0.4
"""How long launches follow each other to measure their energy."""


def open_device(kind: str, uuid: str, support: Path) -> Device:
    """The device of a kind, together with its baselines."""
    if kind == "cuda":
        from ladder.baselines.cublas import Cublas
        from ladder.devices.cuda import Cuda

        return Cuda(uuid, support.read_bytes(), Cublas)
    from ladder.baselines import blas
    from ladder.devices.cpu import Cpu

    return Cpu(support, blas.launch)


class Worker:
    """Holds a device and the launches made on its present operands."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.device: Device
        self.launches: dict[int, Launch] = {}
        self.tf32: dict[int, bool] = {}

    def open(self, kind: str, uuid: str, support: str) -> None:
        self.device = open_device(kind, uuid, Path(support))

    def problem(self, problem: Mapping[str, Any], reference: str) -> None:
        """Make operands and reference result, and see that the reference launch itself is right."""
        self.launches = {}
        self.given = Problem(**problem)
        self.device.problem(self.given)
        self.reference = self.device.baseline(reference)
        verdict = judge(self.device.check(self.reference), self.given)
        if verdict.status != "correct":
            raise RuntimeError(f"the reference {reference} is {verdict.status} on {self.given.label}: {verdict.reason}")

    def verify(self, index: int, name: str, path: str | None, parameters: list[tuple[str, int]], binary: str) -> None:
        """Load a contestant and check its result; sends the verdict."""
        if path is None:
            launch = self.device.baseline(name)
        else:
            kernel = kernels.parse(Path(path))
            chosen = Configuration(self.given.element_type, tuple((name, value) for name, value in parameters))
            need = kernel.unmet_need(chosen, self.given.names())
            if need:
                raise Refused("not_supported", need)
            launch = self.device.kernel(kernel, chosen, Path(binary).read_bytes())
        self.launches[index], self.tf32[index] = launch, name == "cublas_tf32"
        self.connection.send(("verdict", vars(self._verdict(index))))

    def _verdict(self, index: int) -> Verdict:
        return judge(self.device.check(self.launches[index]), self.given, self.tf32[index])

    def time(self, indices: list[int], state: str, limits: Mapping[str, Any], seed: int, best: float) -> None:
        """Time verified contestants side by side; sends each one's samples as soon as they suffice."""
        chosen = {index: self.launches[index] for index in indices}
        before = self.device.other_processes()
        for done in timing.measure(self.device, chosen, self.reference, state, Limits(**limits), seed, best):
            if done is None:
                self.connection.send(("alive",))
            else:
                index, series = done
                others = [count for count in (before, self.device.other_processes()) if count is not None]
                verdict = self._verdict(index)  # a kernel may have become wrong since it was verified
                self.connection.send(("series", index, vars(series), max(others, default=None), vars(verdict)))

    def energy(self, index: int, repeats: int, sample_us: float) -> None:
        """Measure the energy of a verified contestant, of which `repeats` launches take `sample_us`; sends the joules of one or None."""
        calls = math.ceil(ENERGY_SECONDS * 1e6 / sample_us)
        joules = self.device.energy(self.device.repeated(self.launches[index], repeats), calls)
        self.connection.send(("energy", joules and joules / repeats))

    def serve(self) -> None:
        """Answer requests, each ended by `done` (with the microseconds the device has been busy) or `refused`, until told to stop."""
        while (request := self.connection.recv()) is not None:
            try:
                getattr(self, request[0])(*request[1:])
            except Refused as refusal:
                self.connection.send(("refused", refusal.status, refusal.reason, refusal.fatal))
                if refusal.fatal:
                    return
                continue
            self.connection.send(("done", self.device.busy_us))
        self.device.close()


if __name__ == "__main__":
    # it dies with the job (prctl(2), PR_SET_PDEATHSIG): an endless kernel would go on for ever. Ctrl-C is for the job, which ends the child
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Worker(Connection(int(sys.argv[1]))).serve()
