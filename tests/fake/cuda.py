"""A GPU that is not there, behind `devices.Device`: the host's memory and audits, kernels in NumPy, and failures as a real one has them.

A kernel's "binary" is Python that is run at each launch, with the matrices `a`, `b` and `c`, `timed` (whether the launch is that of a timed
round), `call` (how many launches of that configuration this is on the present problem), `right()`, which computes the product, and
`outside()`, which writes before C. What it raises as `Failed` is what PyCUDA raises as `cuda.Error`.
"""

import ctypes
import json
import os
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from ladder.compile import compile_support
from ladder.devices import Call, Launch, Refused, Sample, Timed, scalars
from ladder.devices.cpu import C_TYPES, Cpu
from ladder.jobs import write_whole
from threadpoolctl import threadpool_limits

REAL = Path(__file__).resolve().parents[2] / "results" / "published" / "nvidia-h200" / "environment.json"
"""What the fake describes itself as."""


class Failed(Exception):
    """An error of the driver's."""


@lru_cache
def support(beside: Path) -> Path:
    """What is run on the host, compiled once for all the processes that are given one file `$FAKE_GPU`."""
    path = beside.with_suffix(".so")
    if not path.exists():
        write_whole(path, compile_support("cpu", ""))
    return path


class Cuda(Cpu):
    """The fake GPU; the file `$FAKE_GPU` says what else goes on there."""

    kind = "cuda"
    timing = False

    def __init__(self, uuid: str, binary: bytes, baselines: Any) -> None:
        self.state = Path(os.environ["FAKE_GPU"])
        assert uuid in visible("")
        assert os.environ.get("CUDA_VISIBLE_DEVICES", uuid) == uuid  # the probe's own process sees all
        super().__init__(support(self.state), lambda device, name: self.launch("right()", {}))
        self.blas = baselines(self)
        threadpool_limits(1)  # several threads for small matrices wait for each other where other tests run beside them

    def launch(self, code: Any, parameters: Any) -> Launch:
        """A launch that runs Python."""
        p, calls = self.given, [0]
        shapes = (p.m, p.k, p.lda), (p.k, p.n, p.ldb), (p.m, p.n, p.ldc)
        kind = C_TYPES[p.element_type]

        def bind(*addresses: int) -> Call:
            a, b, c = (_matrix(address, *shape, kind) for address, shape in zip(addresses, shapes, strict=True))

            def right() -> None:
                alpha, beta = (float(factor) for factor in scalars(p))
                with np.errstate(all="ignore"):
                    product = alpha * (a.astype(np.float64) @ b.astype(np.float64))
                    c[:] = product + beta * c if beta else product

            def outside() -> None:
                kind.from_address(addresses[2] - c.itemsize).value = 1

            def call() -> None:
                calls[0] += 1
                names = {"a": a, "b": b, "c": c, "call": calls[0], "timed": self.timing, "right": right, "outside": outside}
                exec(code, {**names, **parameters, "Failed": Failed, "Refused": Refused, "os": os, "time": time})

            return call

        return Launch(bind)

    def kernel(self, kernel: Any, configuration: Any, binary: bytes) -> Launch:
        return self.launch(compile(binary, kernel.name, "exec"), dict(configuration.parameters))

    def _time(self, call: Call) -> float:
        start = time.perf_counter_ns()
        try:
            call()
        except Failed as error:  # the context is lost with it
            raise Refused("launch_error", str(error), fatal=True) from None
        return (time.perf_counter_ns() - start) / 1e3

    def time_round(self, samples: Any, cold: bool, seed: int, compare: bool = False) -> list[Timed]:
        self.timing = True
        try:
            return super().time_round(samples, cold, seed, compare)
        finally:
            self.timing = False

    def energy(self, sample: Sample, seconds: float) -> tuple[float, float] | None:
        return 0.5, 1000.0

    def monitor(self) -> dict[str, float | int | None]:
        return {"sm_clock_mhz": 1000}

    def other_processes(self) -> int | None:
        state = json.loads(self.state.read_text())
        counts = state["others"]
        self.state.write_text(json.dumps(state | {"others": counts[1:] or counts}))
        return counts[0]

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = json.loads(REAL.read_text())["attributes"]
        return described

    def peaks(self) -> dict[str, float]:
        return {"fp32_tflops": 60.0, "copy_tb_s": 4.0}

    def launch_us(self, times: int) -> float:
        return 1.0


def _matrix(address: int, rows: int, cols: int, ld: int, kind: Any) -> Any:
    elements = np.ctypeslib.as_array((kind * ((rows - 1) * ld + cols)).from_address(address))
    return np.lib.stride_tricks.as_strided(elements, (rows, cols), (ld * ctypes.sizeof(kind), ctypes.sizeof(kind)))


def visible(slug: str) -> list[str]:
    """The UUIDs of the GPU in `$FAKE_GPU`."""
    uuids: list[str] = json.loads(Path(os.environ["FAKE_GPU"]).read_text())["uuids"]
    return uuids
