"""A GPU that is not there, behind `devices.Device`: computes by NumPy, and fails as a real one does.

A kernel's "binary" is Python that is run at each launch, with `device`, `c` (a view of C), `call` (1 for the check, more while timing) and
`right()`, which computes the product. What it raises as `Failed` is what PyCUDA raises as `cuda.Error`.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from ladder.devices import CANARY, Device, Errors, Launch, Refused, buffer_elements, host_operands
from ladder.devices.cpu import compare, inside

REAL = Path(__file__).resolve().parents[2] / "results" / "published" / "nvidia-h200" / "environment.json"
"""What the fake describes itself as."""


class Failed(Exception):
    """An error of the driver's."""


class Cuda(Device):
    """The fake GPU; the file `$FAKE_GPU` says what else goes on there."""

    kind = "cuda"

    def __init__(self, uuid: str, support: bytes, baselines: Any) -> None:
        self.state = Path(os.environ["FAKE_GPU"])
        assert uuid in visible("")
        assert os.environ.get("CUDA_VISIBLE_DEVICES", uuid) == uuid  # the probe's own process sees all
        self.blas = baselines(self)

    def problem(self, problem: Any) -> None:
        self.given = problem
        self.a, self.b, _ = host_operands(problem)
        self.reference = self.a.astype(np.float64) @ self.b.astype(np.float64)
        self.scale = np.abs(self.a).astype(np.float64) @ np.abs(self.b)
        self.c_buffer = np.empty(buffer_elements(problem), problem.element_type)

    def right(self) -> None:
        """Compute C."""
        inside(self.c_buffer, self.given)[:] = self.reference

    def kernel(self, kernel: Any, configuration: Any, binary: bytes) -> Launch:
        code, calls = compile(binary, kernel.name, "exec"), [0]
        parameters = dict(configuration.parameters)

        def call() -> None:
            calls[0] += 1
            names = {
                "device": self,
                "c": self.c_buffer,
                "call": calls[0],
                "right": self.right,
                "Failed": Failed,
                "os": os,
                "time": time,
            }
            exec(code, names | parameters | {"Refused": Refused})

        return Launch(call)

    def baseline(self, name: str) -> Launch:
        return Launch(self.right)

    def check(self, launch: Launch) -> Errors:
        self.c_buffer.view(np.uint32)[:] = CANARY
        self.time_round([launch], cold=False)
        return compare(self.c_buffer, self.given, self.reference, self.scale)

    def repeated(self, launch: Launch, times: int, cold: bool = False) -> Launch:
        return launch

    def time_round(self, launches: Any, cold: bool) -> list[float]:
        times = []
        for launch in launches:
            start = time.perf_counter_ns()
            try:
                launch.call()
            except Failed as error:  # the context is lost with it
                raise Refused("launch_error", str(error), fatal=True) from None
            times.append((time.perf_counter_ns() - start) / 1e3)
        return times

    def monitor(self) -> dict[str, float | int | None]:
        return {"sm_clock_mhz": 1000}

    def other_processes(self) -> int | None:
        state = json.loads(self.state.read_text())
        counts = state["others"]
        self.state.write_text(json.dumps(state | {"others": counts[1:] or counts}))
        return counts[0]

    def close(self) -> None:
        pass

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = json.loads(REAL.read_text())["attributes"]
        return described

    def peaks(self) -> dict[str, float]:
        return {"fp32_tflops": 60.0, "copy_tb_s": 4.0}

    def launch_us(self, times: int) -> float:
        return 1.0


def visible(slug: str) -> list[str]:
    """The UUIDs of the GPU in `$FAKE_GPU`."""
    uuids: list[str] = json.loads(Path(os.environ["FAKE_GPU"]).read_text())["uuids"]
    return uuids
