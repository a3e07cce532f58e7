"""Whether hostile input does harm to what reads the user's: `.venv/bin/python studies/fuzz.py 100000 [SEED]`, some milliseconds each.

Expressions, kernel headers and campaigns, a third each: made by grammar, by mutation of good ones, and picked from a list of known
tricks. Each must give an `InputError` or a right answer: an expression has the value that Python's own arithmetic gives it, a campaign the
problems and limits it asks for, and whatever was accepted can be planned and launched. Nothing may be executed, opened for
writing, imported or started meanwhile: an audit hook sees to it.
"""

import contextlib
import json
import math
import random
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from ladder.claims.answers import STUDIES
from ladder.claims.study import command_line
from ladder.core import expressions, yaml_schema
from ladder.core.errors import InputError
from ladder.core.types import KINDS
from ladder.devices.detect import detect_cpu
from ladder.model import campaign_file, kernel_file
from ladder.model.kernel import MAX_THREADS, Kernel

NAMES = {"M": 1000, "N": 33, "K": 7, "BM": 64, "BN": 0, "element_size": 4}
TRICKS = [
    "__import__('os').system('true')", "().__class__.__mro__", "M.__class__", "[x for x in (1,)]", "lambda: 1", "f'{M}'",
    "M := 3", "", "9 ** 9 ** 9", "2 ** 63", "-2 ** 63", "1e308 * 10", "(-8) ** 0.5", "0 ** -1", "M if", "\0", "M\n+1",
    "1 / 0", "M % 0", "0.0 // 0", "print(1)", "open('x', 'w')", "eval('1')", "exec('1')", "min(1)", "max()",
    "ceil_div(1, 0)", "ceil_div(*M)", "min(M, key=N)", "True", "1j", "'a' * 9", "b'x'", "...", "None", "M and", "not", "~M",
    "M @ N", "M << 99", "M is N", "M in N", "yield", "await M", "*M", "#", "\\", "१ + 1", "ℳ", "\ud800", "0x", "1_0", "0777",
    "1" * 900, "9" * 999, "(" * 300, "-" * 990, "not " * 200, "[" * 150, "lambda:" * 140, "1+" * 499 + "1", "M if " * 150,
    "{" * 100, "1e400", "nan", "inf",
]  # fmt: skip
YAML_TRICKS = [
    "!!python/object/apply:os.system ['true']", "!!int x", "!!bool x", "!!float ''", "!!timestamp x", "!!binary x",
    "!!set {a}", "&a [*a]", ".nan", "-.inf", "1.0e+999", "0x" + "f" * 5000, "9" * 5000, "2001-99-99", "2001-01-01", "{1: 2}",
    "{[1]: 2}", "{null: 1}", "{true: 1}", "<<: 3", "=", "[" * 300, "{a: " * 200, "a: b: c", "\t", "\0", "- - -", "? x",
    "|\n x", "!x y", "%YAML 9.9", "---\n---", "1:30", "~", "''", "\ud800", "é", "\ufeff",
]  # fmt: skip
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
measure: {states: [warm, cold], target: 0.01, min_samples: 10, max_samples: 60, sample_us: 500, max_seconds: 4, energy: [8]}
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


STUDY = STUDIES["fuzz"]


class Watch:
    """Notes whatever an input makes the interpreter do while our code reads it, which is within `with watch`."""

    def __init__(self) -> None:
        self.on, self.seen = False, Counter[str]()
        sys.addaudithook(self.hook)

    def __enter__(self) -> None:
        self.on = True

    def __exit__(self, *_: object) -> None:
        self.on = False

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Count an event that no input should cause; opening a file to read it is one that a header may."""
        if self.on and not event.startswith(HARMLESS) and not (event == "open" and arguments[1] in ("r", "rb", None)):
            self.seen[f"{event} {arguments[:1]}"] += 1


def expression(pick: random.Random, depth: int = 0) -> str:
    """An expression of the language, with every operator it has; BOOL( is what `and` and `or` mean in it, unlike in Python."""
    if depth > 4 or pick.random() < 0.25:
        return pick.choice([*NAMES, "0", "1", "2", "3", "1.5", "0.25", "64", "1000000", str(pick.randint(0, 2**40))])

    def part() -> str:
        return expression(pick, depth + 1)

    kind = pick.randrange(6)
    if kind <= 1:
        return f"({part()} {pick.choice(['+', '-', '*', '/', '//', '%', '**'])} {part()})"
    if kind == 2:
        return f"({part()} {pick.choice(['<', '<=', '==', '!=', '>', '>='])} {part()} {pick.choice(['', '< ' + part()])})"
    if kind == 3:
        return f"BOOL({part()} {pick.choice(['and', 'or'])} {part()})"
    if kind == 4:
        return f"({pick.choice(['-', '+', 'not '])}{part()})"
    return pick.choice(
        [
            f"({part()} if {part()} else {part()})",
            f"min({part()}, {part()})",
            f"max({part()}, {part()}, 3)",
            f"ceil_div({part()}, {part()})",
        ]
    )


def mutate(text: str, pick: random.Random, tricks: list[str]) -> str:
    """A text with up to four of its pieces cut, doubled, swapped, or replaced by noise or a trick."""
    for _ in range(pick.randint(1, 4)):
        at, length = pick.randrange(len(text) + 1), pick.choice([0, 1, 1, 2, 5, 20])
        noise = pick.choice(
            ["\t", "\n", " ", "\0", "\x7f", "é", "\U0001f600", chr(pick.randrange(33, 127)), chr(pick.randrange(33, 127))]
        )
        number, word = (
            str(pick.randint(-(2**70), 2**70)),
            pick.choice(["true", "null", "[]", "{}", "-1", "0", "*", "&a", "- ", ": "]),
        )
        piece = pick.choice(["", text[at : at + length] * 2, pick.choice(tricks), noise, noise, number, word])
        text = text[:at] + piece + text[at + length :]
    return text


def varied(text: str, pick: random.Random) -> str:
    """A text with other numbers and words of its own in some places: often still right."""
    words = sorted(set(re.findall(r"[a-zA-Z_]+|\d+", text)))
    return re.sub(
        r"[a-zA-Z_]+|\d+",
        lambda found: (
            found[0]
            if pick.random() < 0.985
            else str(pick.choice([0, 1, 2, 16, 48, 1024, 10**6]) if found[0].isdigit() else pick.choice(words))
        ),
        text,
    )


def retyped(text: str, pick: random.Random) -> str:
    """A YAML mapping in which a value, at any depth, is of another type, or a key another."""
    data = yaml.safe_load(text)
    strange: list[Any] = [
        None,
        True,
        -1,
        0,
        1.5,
        "",
        "x",
        "cpu",
        [],
        {},
        [[]],
        {"x": 1},
        [None],
        10**18,
        float("nan"),
        float("inf"),
        "all",
        ["*"],
        "M",
        [1, 1],
        -0.0,
    ]
    for _ in range(pick.randint(1, 2)):
        where: Any = data
        while True:
            key = pick.choice(list(where) if isinstance(where, dict) else range(len(where)))
            if isinstance(where[key], (dict, list)) and where[key] and pick.random() < 0.7:
                where = where[key]
                continue
            break
        change = pick.randrange(4)
        if change == 0 and isinstance(where, dict):
            where[pick.choice(["x", "", 1, None, "kernels", "problems", "block"])] = where.pop(key)
        elif change == 1:
            del where[key]
        else:
            where[key] = pick.choice(strange)
        if not data:
            break
    return yaml.safe_dump(data)


WHY = re.compile("outside the range|exponent|zero|modulo|complex|nested more than|too large")
"""Why an expression that is one may have no value."""


def right_expression(text: str, made: bool, watch: contextlib.AbstractContextManager[Any]) -> None:
    """Evaluate; an expression made by the grammar has the value that Python's own arithmetic gives it."""
    ours = text.replace("BOOL", "") if made else text
    try:
        with watch:
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


def right_header(text: str, path: Path, watch: contextlib.AbstractContextManager[Any]) -> None:
    """Parse; what was accepted has configurations, and launches or an error of ours for each."""
    path.write_bytes(f"/*---\n{text}\n---*/\n".encode("utf-8", "surrogatepass"))
    with watch:
        try_header(path)


def try_header(path: Path) -> None:
    """All that is done with a kernel file before it is compiled."""
    kernel = kernel_file.parse(path)
    for configuration, objection in kernel.expand({}, ["float32", "float16"]):
        if not objection:
            problem = {
                "M": 100,
                "N": 36,
                "K": 5,
                "lda": 5,
                "ldb": 36,
                "ldc": 36,
                "alignment": 4,
                **dict.fromkeys(kernel_file.DEVICE_NAMES, 9),
            }
            try:
                shapes = kernel.launches(configuration, problem)
                kernel.unmet_need(configuration, problem), kernel.workspace_of(configuration, problem)
            except InputError:
                continue
            assert all(1 <= math.prod(shape.block) <= MAX_THREADS for shape in shapes)
        json.dumps(kernel.geometry, allow_nan=False), kernel.source(configuration), kernel.digest


def right_campaign(text: str, known: dict[str, Kernel], watch: contextlib.AbstractContextManager[Any]) -> None:
    """Load; what was accepted has the problems and limits it asks for, and a plan for every job."""
    with watch:
        data = yaml_schema.load(text, "config/fuzz.yaml")
        loaded = campaign_file.load(data, "config/fuzz.yaml", known)
    for name, value in data.get("measure", {}).items():
        assert loaded.energy == [str(label) for label in value] if name == "energy" else getattr(loaded.limits, name) == value
    asked_for = data.get("confirm", {})
    for kind, confirm in loaded.confirm.items():
        for name, value in (
            {name: value for name, value in asked_for.items() if name not in KINDS} | asked_for.get(kind, {})
        ).items():
            assert getattr(confirm, name) == value
    for kind, entries in data["problems"].items():
        asked = set()
        for entry in entries:
            if isinstance(entry, list):
                asked.add(tuple(entry))
            elif "square" in entry:
                asked |= {(size,) * 3 for size in (entry["square"] if isinstance(entry["square"], list) else [entry["square"]])}
            else:
                asked |= set(product(*(entry[axis] if isinstance(entry[axis], list) else [entry[axis]] for axis in "MNK")))
        for element_type in loaded.element_types:
            assert {(p.m, p.n, p.k) for p in loaded.problems(kind, element_type)} == asked
    for kind in data["problems"]:
        for job in loaded.jobs(kind):
            json.dumps(loaded.plan(kind, job), allow_nan=False)
        json.dumps(loaded.confirmation(kind), allow_nan=False)


def fuzz(count: int, seed: int) -> dict[str, Any]:
    """Try `count` inputs; returns what was counted. Raises `AssertionError` with the first input that gives anything else."""
    pick, watch, start = random.Random(seed), Watch(), time.monotonic()
    warnings.simplefilter("ignore", SyntaxWarning)  # Python's own, of expressions such as `1 is 1`
    warnings.simplefilter("ignore", DeprecationWarning)
    counted: dict[str, Counter[str]] = {"expressions": Counter(), "headers": Counter(), "campaigns": Counter()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels" / "cuda" / "20_fuzz.cu"
        path.parent.mkdir(parents=True)
        path.write_text(f"/*---\n{HEADER}\n---*/\n")
        plain = Path(folder) / "kernels" / "cpu" / "01_plain.c"
        plain.parent.mkdir()
        plain.write_text("/*---\ntitle: t\nidea: i\n---*/\n")
        known = {kernel.id: kernel for kernel in map(kernel_file.parse, (path, plain))}

        def read(what: str, text: str, made: bool) -> None:
            if what == "expressions":
                right_expression(text, made, watch)
            elif what == "headers":
                right_header(text, path, watch)
            else:
                right_campaign(text, known, watch)

        sources: dict[str, tuple[Callable[[], str], list[str]]] = {
            "expressions": (lambda: expression(pick), TRICKS),
            "headers": (lambda: HEADER, YAML_TRICKS + TRICKS),
            "campaigns": (lambda: CAMPAIGN, YAML_TRICKS),
        }
        for what, text in (
            ("expressions", "M + 1"),
            ("headers", HEADER),
            ("campaigns", CAMPAIGN),
            ("campaigns", "x: [&a 1, *a]"),
        ):
            with contextlib.suppress(InputError):  # loads what Python imports late
                read(what, text, False)
        watch.seen.clear()
        for number in range(count):
            what = ("expressions", "headers", "campaigns")[number % 3]
            good, tricks = sources[what]
            text, way = good(), pick.random()
            made = what == "expressions" and way < 0.4
            if what != "expressions" and way < 0.6:
                text = (varied if way < 0.3 else retyped)(text, pick)
            elif what == "expressions" and way > 0.97:
                text = pick.choice(tricks)
            elif not made:
                text = mutate(text, pick, tricks)
            result = "answered"
            try:
                read(what, text, made)
            except InputError as error:
                result = "refused"
                assert str(error).strip()
            except Exception as error:
                raise AssertionError(f"seed {seed}, input {number}, {what}: {type(error).__name__}: {error}\n{text!r}") from error
            counted[what][result] += 1
            assert not watch.seen, f"seed {seed}, input {number}, {what}: {dict(watch.seen)}\n{text!r}"
    return {
        "inputs": count,
        "seed": seed,
        **{what: dict(sorted(c.items())) for what, c in counted.items()},
        "seconds": round(time.monotonic() - start),
    }


def main() -> None:
    """Try them, and write how they were answered."""
    parser = command_line(__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    given = parser.parse_args()
    STUDY.write(detect_cpu(), fuzz(given.count, given.seed))


if __name__ == "__main__":
    main()
