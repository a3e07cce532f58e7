"""Simulated GPUs, behind `ladder.devices.simulation`: NumPy results, times by a cost model with
seeded noise, and faults by name. For tests alone.

`$SIMULATED_GPUS` names a JSON file with the `name`, `uuids`, `driver`, perhaps `memory_bytes`, the
`compiler`'s version and the `others` that compute there (how many processes, for each time of
asking). It may have `found`, the algorithm that a search finds, else `ID=1`, and what a launch of a
baseline does, by its name and the version of the library: `cublas 13.1.0`. A kernel's file says
behind `// python: ` what a launch does, else it is `right()`. Of a batch it does that for each
product `z`. That code has the matrices `a`, `b` and `c`, the problem `p`, the kernel's parameters, `timed` (whether
this is a timed round), `call` (how many launches of the configuration this is on the present
problem), `right` (`right(lda=p.k)` computes with that stride instead, likewise `ldb`, `ldc`,
`alpha`, `beta` and the depth `k`), `outside` (writes before C), and the faults `fail(message)` (the
driver reports an error, and the context is lost), `lose()` (the device is lost, too), `hang`,
`die(signal)`, `slow(factor)` (this launch takes longer) and
`stop()` (the process is stopped meanwhile, and continued).
"""

import json
import os
import re
import signal
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from ladder.compiling.compile import compile_support
from ladder.core import clock
from ladder.core.files import digest, write_whole
from ladder.core.types import ELEMENT_TYPES
from ladder.devices.algorithm_search import Algorithm
from ladder.devices.base import Call, Device, Launch, Refused, Sample, Timed
from ladder.devices.cpu import C_TYPES, Cpu
from ladder.devices.detect import DetectedDevice, slugify
from ladder.devices.operands import reference, scalars
from ladder.model.kernel import ARGUMENTS
from ladder.storage.dataset_layout import PUBLISHED
from ladder.storage.published_index import HEADLINE, featured
from threadpoolctl import threadpool_limits

VARIABLE = "SIMULATED_GPUS"
VARIABLES = (VARIABLE, "RENDEZVOUS")
ATTRIBUTES = (
    featured(Path(__file__).resolve().parents[2] / PUBLISHED)[HEADLINE] / "environment.json"
)
"""What a simulated GPU describes itself as."""
LAUNCH_US, TFLOPS, NOISE = 2.0, 20.0, 0.002
"""The cost model: microseconds a launch, the rate of `right()`, and the standard deviation of the
logarithm of a time.
"""
USAGE = {"function": "gemm", "registers": 32, "static_shared": 0}
SIGNATURE = re.compile(
    r"__global__\s+void\s+(?:__\w+__\s*\((?:[^()]|\([^()]*\))*\)\s*)*(\w+)\s*\(([^)]*)\)"
)
"""A `__global__` function: its name, and the text of its parameters."""
PYTHON = b"\0python\0"
"""Stands in a simulated cubin before what a launch does, behind all sections."""


class Failed(Exception):
    """An error of the driver's."""


class Hang(BaseException):
    """A launch that never ends, where it runs in the test's own process."""


class Died(BaseException):
    """A launch that ends its process by a signal, likewise."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


in_process = False
"""Whether launches run in a test's own process. What ends or blocks a whole process does so where
kernels have a process of their own; a test's gets an exception.
"""


def hang() -> None:
    """Never return."""
    if in_process:
        raise Hang
    while True:
        signal.pause()


def die(number: int) -> None:
    """End this process by a signal."""
    if in_process:
        raise Died(number)
    os.kill(os.getpid(), number)


def lose() -> None:
    """Lose the device: this launch fails, and no process can open the device again until
    `gpus.json` says otherwise.
    """
    path = Path(os.environ[VARIABLE])
    path.write_text(json.dumps(settings() | {"lost": True}))
    raise Failed("unspecified launch failure")


def fail(message: str) -> None:
    """Report an error as the driver does."""
    raise Failed(message)


def settings() -> dict[str, Any]:
    """What `$SIMULATED_GPUS` says."""
    values: dict[str, Any] = json.loads(Path(os.environ[VARIABLE]).read_text())
    return values


def detect() -> list[DetectedDevice]:
    """The simulated GPUs: one model."""
    gpu = settings()
    return [
        DetectedDevice(
            slugify(gpu["name"]),
            "cuda",
            gpu["name"],
            "sm_90",
            gpu.get("memory_bytes", 2**30),
            tuple(gpu["uuids"]),
            gpu["driver"],
        )
    ]


def visible(slug: str) -> list[str]:
    """Their UUIDs."""
    return list(settings()["uuids"])


def compiler_version(compiler: str) -> str:
    """The version of nvcc and NVRTC alike."""
    return str(settings()["compiler"])


def compile(source: str) -> tuple[bytes, dict[str, Any]]:
    """A cubin with what the source says behind `// python: `; different for different sources, as a
    compiler's is, whatever their name.
    """
    match = re.search(r"^// python: (.*)$", source, re.MULTILINE)
    unnamed = re.sub(r"^#line .*$", "", source, flags=re.MULTILINE)
    size = 4
    if "using T = double;" in source:
        size = 8
    elif re.search("using T = __(half|nv_bfloat16);", source):
        size = 2
    batch = ", Batch batch" if "#define BATCH 1" in source else ""
    functions = {
        name: parameters(text + batch, size)
        for name, text in SIGNATURE.findall(source) or [("gemm", ARGUMENTS)]
    }
    code = match[1] if match else "right()"
    return cubin(f"{code}  # {digest(unnamed)}", functions), dict(USAGE)


def parameters(text: str, size: int) -> bytes:
    """What ptxas writes down of a function's parameters; T has `size` bytes."""
    attributes, at = b"", 0
    for number, parameter in enumerate(filter(str.strip, text.split(","))):
        kind = parameter.split()[0]
        sizes = {"T": size, "Acc": max(4, size)}
        width = boundary = 8 if "*" in parameter else sizes.get(kind, 4)
        if "TensorMap" in parameter:
            width, boundary = 128, 64
        elif "Batch" in parameter:
            width, boundary = 32, 8
        at += -at % boundary
        attributes += struct.pack("<BBHIHHI", 4, 0x17, 12, 0, number, at, width << 18)
        at += width
    return attributes


def cubin(code: str, functions: dict[str, bytes] | None = None) -> bytes:
    """An ELF file as `ladder.compiling.cubin` reads it: a function without instructions, no
    variables, and Python.

    Where it stands for a shared object, it exports `gemm`.
    """
    parts = [("", 0, b""), (".text.gemm", 1, b""), (".symtab", 2, b""), (".strtab", 3, b"\0gemm\0")]
    parts.append((".dynsym", 11, struct.pack("<IBBHQQ", 1, 0, 0, 1, 0, 0)))
    parts += [(f".nv.info.{name}", 1, attributes) for name, attributes in (functions or {}).items()]
    names = b"".join(f"{name}\0".encode() for name, _, _ in [*parts, (".shstrtab", 3, b"")])
    parts.append((".shstrtab", 3, names))
    at, headers, body, name_at = 64, b"", b"", 0
    for name, kind, data in parts:
        link = 3 if kind in (2, 11) else 0  # .strtab
        headers += struct.pack(
            "<IIQQQQIIQQ", name_at, kind, 0, 0, at + len(body), len(data), link, 0, 1, 0
        )
        body, name_at = body + data, name_at + len(name) + 1
    head = b"\x7fELF\x02\x01\x01" + bytes(33) + struct.pack("<Q", at + len(body)) + bytes(10)
    head += struct.pack("<3H", 64, len(parts), len(parts) - 1)
    return head + body + headers + PYTHON + code.encode()


def code_of(binary: bytes) -> str:
    """The Python in a simulated cubin."""
    return binary.rpartition(PYTHON)[2].decode()


@lru_cache
def support(beside: Path) -> Path:
    """What runs on the host, compiled once for all the processes that have one file
    `$SIMULATED_GPUS`.
    """
    path = beside.with_suffix(".so")
    if not path.exists():
        write_whole(path, compile_support("cpu", ""))
    return path


def environment() -> dict[str, Any]:
    """The `environment.json` of a simulated GPU."""
    known: dict[str, Any] = json.loads(ATTRIBUTES.read_text())
    own = {"library": "cuBLAS simulated"}
    return known | {"attributes": {"clusters_of_4": 30, **known["attributes"], **own}}


class Gpu(Cpu):
    """A simulated GPU: the host's memory, draws and audits; results and times are simulated."""

    kind = "cuda"
    warm_seconds = 0.0

    def __init__(self, uuid: str, library: str = "") -> None:
        self.library = (Path(library) / "version").read_text() if library else "simulated"
        self.settings = Path(os.environ[VARIABLE])
        assert uuid in visible("")
        assert os.environ.get("CUDA_VISIBLE_DEVICES", uuid) == uuid
        super().__init__(support(self.settings), None)
        self.timing, self.factor = False, 1.0
        self._noise = np.random.default_rng(int(digest(uuid), 16) % 2**32)
        # several threads for small matrices wait for each other where other tests run beside them
        threadpool_limits(1)

    def _launch(self, code: Any, parameters: dict[str, Any]) -> Launch:
        p, calls = self.given, 0
        shapes = dict(zip(("lda", "ldb", "ldc"), p.shapes, strict=True))
        alpha, beta = (float(factor) for factor in scalars(p))

        def names_of(z: int, addresses: Sequence[int]) -> dict[str, Any]:
            def matrices(**instead: int) -> list[Any]:
                every = (
                    matrix(address, *shape, instead.get(ld, getattr(p, ld)), p.element_type)
                    for address, (ld, shape) in zip(addresses, shapes.items(), strict=True)
                )
                return [
                    lying.T if turned else lying
                    for lying, turned in zip(every, p.transposed, strict=True)
                ]

            a, b, c = matrices()

            def right(**instead: Any) -> None:
                left, below, result = matrices(**instead) if instead else (a, b, c)
                factors = instead.get("alpha", alpha), instead.get("beta", beta)
                k = instead.get("k", p.k)
                with np.errstate(all="ignore"):
                    result[:] = reference(*factors, left[:, :k], below[:k], result)[0]

            def outside() -> None:
                C_TYPES[p.element_type].from_address(addresses[2] - c.itemsize).value = 1

            def slow(factor: float) -> None:
                self.factor = factor

            def stop() -> None:
                clock._clock.stops += 1
                self.factor = 1e6

            return {
                "a": a,
                "b": b,
                "c": c,
                "p": p,
                "z": z,
                "right": right,
                "outside": outside,
                "fail": fail,
                "hang": hang,
                "die": die,
                "slow": slow,
                "Refused": Refused,
                "os": os,
                "lose": lose,
                "stop": stop,
                **parameters,
            }

        def bind(*firsts: int) -> Call:
            size = ELEMENT_TYPES[p.element_type].size
            strides = [size * stride for stride in p.strides]
            products = [
                names_of(z, [at + z * stride for at, stride in zip(firsts, strides, strict=True)])
                for z in range(p.batch)
            ]

            def call() -> None:
                nonlocal calls
                calls += 1
                self.factor = 1.0
                for names in products:
                    exec(code, names | {"call": calls, "timed": self.timing})
                self.us += (LAUNCH_US + p.flops / TFLOPS * 1e-6) * self.factor

            return call

        return Launch(bind)

    def baseline(self, name: str, parameters: Mapping[str, int] = MappingProxyType({})) -> Launch:
        code = settings().get(f"{name} {self.library}", "right()")
        return self._launch(code, dict(parameters))

    def search(self) -> Algorithm | None:
        return tuple(settings().get("found", {"ID": 1}).items())

    def kernel(self, kernel: Any, configuration: Any, binary: bytes) -> Launch:
        return self._launch(code_of(binary), dict(configuration.parameters))

    def settle(self) -> bool:
        return False  # nothing is timed

    def _time(self, call: Call) -> float:
        self.us = 0.0
        try:
            call()
        except Failed as error:  # the context is lost with it
            raise Refused("launch_error", str(error), fatal=True) from None
        if in_process:
            clock.sleep(self.us * 1e-6)
        return self.us * float(np.exp(self._noise.normal(0, NOISE)))

    def time_round(self, samples: Any, cold: bool, seed: int, compare: bool = False) -> list[Timed]:
        self.timing = True
        try:
            return [
                replace(timed, cpu_ns=(0, 0))
                for timed in super().time_round(samples, cold, seed, compare)
            ]
        finally:
            self.timing = False

    def sustain(self, sample: Sample, us: float, seed: int, wait: float) -> Timed:
        (timed,) = self.time_round([sample], False, seed, compare=True)  # one call stands for all
        return replace(timed, sm_clock_mhz=900.0, power_w=500.0)

    def monitor(self) -> dict[str, float | int | None]:
        return {"sm_clock_mhz": 1000}

    watch = Device.watch

    def other_processes(self) -> int | None:
        state = json.loads(self.settings.read_text())
        counts: list[int | None] = state["others"]
        self.settings.write_text(json.dumps(state | {"others": counts[1:] or counts}))
        return counts[0]

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = environment()["attributes"]
        return described | {"library": f"cuBLAS {self.library}"}

    def peaks(self) -> dict[str, float]:
        return {"fp32_tflops": 60.0, "copy_tb_s": 4.0}

    def launch_us(self, times: int) -> float:
        return LAUNCH_US if times == 1 else 1.0


def open_device(uuid: str, support: Path, library: str) -> Device:
    """A simulated GPU."""
    if settings().get("lost"):
        raise RuntimeError("the GPU is lost")
    return Gpu(uuid, library)


def matrix(address: int, rows: int, cols: int, ld: int, element_type: str) -> Any:
    """The matrix at an address: an array that shares its memory."""
    elements = np.ctypeslib.as_array(
        (C_TYPES[element_type] * ((rows - 1) * ld + cols)).from_address(address)
    )
    return np.lib.stride_tricks.as_strided(
        elements, (rows, cols), (ld * elements.itemsize, elements.itemsize)
    )
