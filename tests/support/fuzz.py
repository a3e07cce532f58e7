"""Hostile input: tricks, a good kernel header and campaign to damage, and what must hold of
whatever the readers of user's input accept.

Each input must give an `InputError` or a right answer: an expression has the value that Python's
own arithmetic gives it, a campaign the problems and limits it asks for, and whatever was accepted
can be planned and launched. Nothing may be executed, opened for writing, imported or started
meanwhile: an audit hook sees to it.
"""

import json
import math
import re
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

from ladder.core import expressions, yaml_schema
from ladder.core.errors import InputError
from ladder.core.types import KINDS
from ladder.model import campaign_file, kernel_file
from ladder.model.kernel import MAX_THREADS, Kernel
from ladder.model.problem import Problem

NAMES = {"M": 1000, "N": 33, "K": 7, "BM": 64, "BN": 0, "element_size": 4}
TRICKS = [
    "__import__('os').system('true')",
    "().__class__.__mro__",
    "M.__class__",
    "[x for x in (1,)]",
    "lambda: 1",
    "f'{M}'",
    "M := 3",
    "",
    "9 ** 9 ** 9",
    "2 ** 63",
    "-2 ** 63",
    "1e308 * 10",
    "(-8) ** 0.5",
    "0 ** -1",
    "M if",
    "\0",
    "M\n+1",
    "1 / 0",
    "M % 0",
    "0.0 // 0",
    "print(1)",
    "open('x', 'w')",
    "eval('1')",
    "exec('1')",
    "min(1)",
    "max()",
    "ceil_div(1, 0)",
    "ceil_div(*M)",
    "min(M, key=N)",
    "True",
    "1j",
    "'a' * 9",
    "b'x'",
    "...",
    "None",
    "M and",
    "not",
    "~M",
    "M @ N",
    "M << 99",
    "M is N",
    "M in N",
    "yield",
    "await M",
    "*M",
    "#",
    "\\",
    "१ + 1",
    "ℳ",
    "\ud800",
    "0x",
    "1_0",
    "0777",
    "1" * 900,
    "9" * 999,
    "(" * 300,
    "-" * 990,
    "not " * 200,
    "[" * 150,
    "lambda:" * 140,
    "1+" * 499 + "1",
    "M if " * 150,
    "{" * 100,
    "1e400",
    "nan",
    "inf",
]
YAML_TRICKS = [
    "!!python/object/apply:os.system ['true']",
    "!!int x",
    "!!bool x",
    "!!float ''",
    "!!timestamp x",
    "!!binary x",
    "!!set {a}",
    "&a [*a]",
    ".nan",
    "-.inf",
    "1.0e+999",
    "0x" + "f" * 5000,
    "9" * 5000,
    "2001-99-99",
    "2001-01-01",
    "{1: 2}",
    "{[1]: 2}",
    "{null: 1}",
    "{true: 1}",
    "<<: 3",
    "=",
    "[" * 300,
    "{a: " * 200,
    "a: b: c",
    "\t",
    "\0",
    "- - -",
    "? x",
    "|\n x",
    "!x y",
    "%YAML 9.9",
    "---\n---",
    "1:30",
    "~",
    "''",
    "\ud800",
    "é",
    "\ufeff",
]
HEADER = """title: A kernel
idea: an idea
parameters: {BM: 32, BN: 16}
sweep: {BM: [16, 32, 64], BN: [16, 32]}
element_types: [float32, float16]
block: [BN, BM]
grid: ["ceil_div(N, BN)", "ceil_div(M, BM)"]
dynamic_shared: min(BM * K * element_size, shared_memory_per_block)
configurations: [{BM: 8, BN: 8}, {BN: 32}]
then: [{function: reduce, grid: [sm_count], block: [32], when: K > M, accesses: [{global_read: thread, per_k: 1 / K}]}]
architecture: sm_90a
workspace: sm_count * M * N
requires: [BM >= BN]
needs: [N % 4 == 0]
compute_capability: 8.0
global_reads: M * N * K * (1 / BM + 1 / BN)
global_writes: M * N"""
CAMPAIGN = """campaign: fuzz
devices: [cpu]
architectures: [sm_80]
kernels: ["cuda/*", "cpu/*"]
problems: {cuda: [{square: [256, 512]}], cpu: [{M: [1, 2], N: 3, K: [4, 5]}, [6, 7, 8]]}
element_types: [float32]
alpha: 1.5
beta: 0
padding: 0
distribution: uniform
seed: 0
parameters: {cuda/20_fuzz: {BM: [16, 32], BN: [8]}}
baselines: {cuda: [cublas], cpu: [blas_1, blas_all]}
measure: {states: [warm, cold], target: 0.01, min_samples: 10, max_samples: 60, sample_us: 500, max_seconds: 4, sustained: [8]}
confirm: {processes: 3, rounds: 8, within: 0.02, finalists: 3, seconds: 0.3}"""

HARMLESS = (
    "compile",
    "object.__",
    "sys._getframe",
    "os.scandir",
    "os.listdir",
    "marshal",
    "code.__new__",
    "gc.",
    "builtins.id",
    "sys.unraisable",
)
"""Events of the interpreter's own work (parsing is `compile`)."""


class Watch:
    """Fails where an input makes the interpreter do more than read while our code has it, which is
    within `with WATCH`.
    """

    def __init__(self) -> None:
        self.on, self.seen = False, Counter[str]()
        sys.addaudithook(self.hook)

    def __enter__(self) -> None:
        self.on = True

    def __exit__(self, *_: object) -> None:
        self.on = False
        seen, self.seen = self.seen, Counter()
        assert not seen, dict(seen)

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Count an event that no input should cause; opening a file to read it is one that a header
        may.
        """
        if (
            self.on
            and not event.startswith(HARMLESS)
            and not (event == "open" and arguments[1] in ("r", "rb", None))
        ):
            self.seen[f"{event} {arguments[:1]}"] += 1


WATCH = Watch()


WHY = re.compile("outside the range|exponent|zero|modulo|complex|nested more than|too large")
"""Why an expression that is one may have no value."""


def right_expression(text: str, made: bool) -> None:
    """Evaluate; an expression made by the grammar has the value that Python's own arithmetic gives
    it.
    """
    ours = text.replace("BOOL", "") if made else text
    try:
        with WATCH:
            value = expressions.evaluate(ours, NAMES)
    except InputError as error:
        assert WHY.search(str(error)) or not made, error
        raise
    assert isinstance(value, (int, float))
    assert math.isfinite(value) and abs(value) < 2**63, value
    if made:
        functions = {"min": min, "max": max, "ceil_div": lambda a, b: -(-a // b), "BOOL": bool}
        expected = eval(text, {"__builtins__": {}, **functions, **NAMES})
        assert value == expected, (value, expected)


def right_header(text: str, path: Path) -> None:
    """Parse, and do all that is done before compiling; what was accepted has configurations, and
    launches or an error of ours for each.
    """
    path.write_bytes(f"/*---\n{text}\n---*/\n".encode("utf-8", "surrogatepass"))
    with WATCH:
        kernel = kernel_file.parse(path)
        for configuration, objection in kernel.expand({}, ["float32", "float16"]):
            if not objection:
                problem = Problem(100, 36, 5, offset=1).names() | dict.fromkeys(
                    kernel_file.DEVICE_NAMES, 9
                )
                try:
                    shapes = kernel.launches(configuration, problem)
                    (
                        kernel.unmet_need(configuration, problem),
                        kernel.workspace_of(configuration, problem),
                    )
                except InputError:
                    continue
                assert all(1 <= math.prod(shape.block) <= MAX_THREADS for shape in shapes)
            (
                json.dumps(kernel.geometry, allow_nan=False),
                kernel.source(configuration),
                kernel.digest,
            )


def right_campaign(text: str, known: dict[str, Kernel]) -> None:
    """Load; what was accepted has the problems and limits it asks for, and a plan for every job."""
    with WATCH:
        data = yaml_schema.load(text, "config/fuzz.yaml")
        loaded = campaign_file.load(data, "config/fuzz.yaml", known)
    for name, value in data.get("measure", {}).items():
        assert (
            loaded.sustained == [str(label) for label in value]
            if name == "sustained"
            else getattr(loaded.limits, name) == value
        )
    for kind, confirm in loaded.confirm.items():
        given = data.get("confirm", {})
        for name, value in (
            {name: value for name, value in given.items() if name not in KINDS}
            | given.get(kind, {})
        ).items():
            assert getattr(confirm, name) == value
    for kind, entries in data["problems"].items():
        asked = set()
        for entry in entries:
            if isinstance(entry, list):
                asked.add(tuple(entry))
            elif "square" in entry:
                asked |= {
                    (size,) * 3
                    for size in (
                        entry["square"] if isinstance(entry["square"], list) else [entry["square"]]
                    )
                }
            else:
                asked |= set(
                    product(
                        *(
                            entry[axis] if isinstance(entry[axis], list) else [entry[axis]]
                            for axis in "MNK"
                        )
                    )
                )
        for element_type in loaded.element_types:
            assert {(p.m, p.n, p.k) for p in loaded.problems(kind, element_type)} == asked
    for kind in data["problems"]:
        for job in loaded.jobs(kind):
            json.dumps(loaded.plan(kind, job), allow_nan=False)
        json.dumps(loaded.confirmation(kind), allow_nan=False)
