"""What reads the user's input gives a right answer or an error of ours, whatever it is given.

Nothing may be executed, opened for writing, imported or started meanwhile: an audit hook sees to
that. `EXAMPLES=30000 pytest tests/unit/test_properties.py` tries more of each kind.
"""

import contextlib
import gc
import json
import math
import os
import re
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from ladder.core import store, yaml_schema
from ladder.core.errors import InputError
from ladder.core.expressions import evaluate
from ladder.model import campaign_file, kernel_file
from ladder.model.kernel import MAX_THREADS
from ladder.model.problem import Problem
from planted import written

NAMES = {"M": 1000, "N": 33, "K": 7, "BM": 64, "BN": 0, "element_size": 4}
TRICKS = [
    "__import__('os').system('true')",
    "M.__class__",
    "[x for x in (1,)]",
    "lambda: 1",
    "f'{M}'",
    "M := 3",
    "9 ** 9 ** 9",
    "-2 ** 63",
    "1e308 * 10",
    "(-8) ** 0.5",
    "0 ** -1",
    "M if",
    "\0",
    "M % 0",
    "0.0 // 0",
    "open('x', 'w')",
    "eval('1')",
    "max()",
    "ceil_div(1, 0)",
    "ceil_div(*M)",
    "min(M, key=N)",
    "min",
    "True",
    "1j",
    "'a' * 9",
    "...",
    "~M",
    "M << 99",
    "M is N",
    "yield",
    "*M",
    "#",
    "\\",
    "१ + 1",
    "\ud800",
    "0777",
    "9" * 999,
    "(" * 300,
    "-" * 990,
    "lambda:" * 140,
    "1+" * 499 + "1",
    "1e400",
]
YAML_TRICKS = [
    "!!python/object/apply:os.system ['true']",
    "!!int x",
    "!!timestamp x",
    "!!set {a}",
    "&a [*a]",
    ".nan",
    "-.inf",
    "1.0e+999",
    "0x" + "f" * 5000,
    "9" * 5000,
    "2001-99-99",
    "{1: 2}",
    "{[1]: 2}",
    "{null: 1}",
    "<<: 3",
    "=",
    "[" * 300,
    "{a: " * 200,
    "a: b: c",
    "\t",
    "- - -",
    "? x",
    "|\n x",
    "%YAML 9.9",
    "---\n---",
    "1:30",
    "~",
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
    """Fails where an input makes the interpreter do more than read within `with WATCH`."""

    def __init__(self) -> None:
        self.on, self.seen = False, set[str]()
        sys.addaudithook(self.hook)

    def __enter__(self) -> None:
        self.on = True

    def __exit__(self, *_: object) -> None:
        self.on = False
        seen, self.seen = self.seen, set()
        assert not seen

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note an event that no input should cause; a header may have files opened to read."""
        reads = event == "open" and arguments[1] in ("r", "rb", None)
        if self.on and not event.startswith(HARMLESS) and not reads:
            self.seen.add(f"{event} {arguments[:1]}")


WATCH = Watch()
WHY = re.compile("outside the range|exponent|zero|modulo|complex|nested more than|too large")
"""Why an expression that is one may have no value."""


def read_expression(text: str, made: bool) -> None:
    """Evaluate; an expression made by the grammar has the value that Python's own arithmetic gives
    it.
    """
    try:
        with WATCH:
            value = evaluate(text.replace("BOOL", "") if made else text, NAMES)
    except InputError as error:
        assert WHY.search(str(error)) or not made, error
        return
    assert isinstance(value, (int, float))
    assert abs(value) < 2**63, value
    if made:
        functions = {"min": min, "max": max, "ceil_div": lambda a, b: -(-a // b), "BOOL": bool}
        assert value == eval(text, {"__builtins__": {}, **functions, **NAMES})


@pytest.fixture(scope="module", autouse=True)
def nothing_is_kept():
    """What is read is neither kept in the store nor taken from it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "take", lambda key: None)
        patch.setattr(store, "keep", lambda key, data: None)
        yield


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    """By kind of file: a function that does all that is done with a text before compiling and
    measuring. It returns whether the text was accepted.
    """
    folder = tmp_path_factory.mktemp("fuzz")
    path = written(folder / "kernels/cuda/20_fuzz.cu", f"/*---\n{HEADER}\n---*/\n")
    written(folder / "kernels/cpu/01_plain.c", "/*---\ntitle: t\nidea: i\n---*/\n")
    known = kernel_file.discover(folder)

    def header(_: str) -> None:
        kernel = kernel_file.parse(path)
        device = dict.fromkeys(kernel_file.DEVICE_NAMES, 9)
        for configuration, objection in kernel.expand({}, ["float32", "float16"]):
            kernel.source(configuration)
            if not objection:
                problem = Problem(100, 36, 5, offset=1).names() | device
                with contextlib.suppress(InputError):
                    for shape in kernel.launches(configuration, problem):
                        assert 1 <= math.prod(shape.block) <= MAX_THREADS
                    kernel.unmet_need(configuration, problem)
                    kernel.workspace_of(configuration, problem)
        json.dumps([kernel.geometry, kernel.digest], allow_nan=False)

    def campaign(text: str) -> None:
        data = yaml_schema.load(text, "config/fuzz.yaml")
        loaded = campaign_file.load(data, "config/fuzz.yaml", known)
        for kind in data["problems"]:
            plans = [loaded.plan(kind, part.items) for part in loaded.parts[kind].values()]
            plans += [
                loaded.confirmation(kind, block.items) for block in loaded.blocks[kind].values()
            ]
            json.dumps(plans, allow_nan=False)

    def watched(read):
        def accepts(text: str) -> bool:
            path.write_bytes(f"/*---\n{text}\n---*/\n".encode("utf-8", "surrogatepass"))
            with contextlib.suppress(InputError), WATCH:
                read(text)
                return True
            return False

        # what Python imports late and what earlier tests left: no input is to blame
        gc.collect()
        for text in ("x: [&a 1, *a]", FILES[read.__name__]):
            with contextlib.suppress(AssertionError):
                accepts(text)
        return accepts

    return {"header": watched(header), "campaign": watched(campaign)}


FILES = {"header": HEADER, "campaign": CAMPAIGN}
KINDS = pytest.mark.parametrize(
    "kind", ["header", pytest.param("campaign", marks=pytest.mark.slow)]
)
QUICK = settings(
    max_examples=int(os.environ.get("EXAMPLES", "300")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
pytestmark = [
    pytest.mark.filterwarnings("ignore::SyntaxWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
NUMBERS = st.one_of(
    st.integers(-5, 2**40).map(lambda n: f"({n})"), st.sampled_from([*NAMES, "0.5", "3.25"])
)
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", ">"]
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda part: st.one_of(
        st.builds("({} {} {})".format, part, st.sampled_from(OPERATORS), part),
        st.builds("BOOL({} {} {})".format, part, st.sampled_from(["and", "or"]), part),
        st.builds("({} if {} else {})".format, part, part, part),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max", "ceil_div"]), part, part),
        st.builds("(not {})".format, part),
    ),
    max_leaves=12,
)
PLAIN = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["all", "cpu", "M", "BM"]),
    ),
    lambda part: st.one_of(
        st.lists(part, max_size=4), st.dictionaries(st.text(max_size=8), part, max_size=4)
    ),
    max_leaves=10,
)
ANY = st.one_of(st.text(max_size=60), st.text("MNK()[]{}.,+-*/%<>=!'\"_:@ 0123456789eE"))


@QUICK
@given(EXPRESSIONS)
def test_an_expression_has_the_value_that_python_gives_it(text):
    read_expression(text, True)


@QUICK
@given(ANY)
def test_any_text_is_an_expression_or_an_error_of_ours(text):
    read_expression(text, False)


def test_a_trick_is_an_expression_or_an_error_of_ours():
    for text in TRICKS:
        read_expression(text, False)


@QUICK
@given(st.one_of(ANY, st.sampled_from(YAML_TRICKS)))
@example("title: t\nidea: i\nblock: [1]\ngrid: [1]\nparameters: {1: 2}")
@example(
    "title: t\nidea: i\nblock: [BM]\ngrid: [1]\nparameters: {BM: 1}\nrequires: [8 % BM == "
    "0]\nsweep: {BM: [0, 1]}"
)
def test_any_text_is_a_file_or_an_error_of_ours(readers, text):
    for accepts in readers.values():
        accepts(text)


@KINDS
@QUICK
@given(data=st.data(), value=PLAIN)
def test_any_value_of_a_key_is_used_or_refused(readers, kind, data, value):
    lines = FILES[kind].replace('["cuda/*", "cpu/*"]', "all").splitlines()
    line = data.draw(st.sampled_from(lines))
    text = "\n".join(other for other in lines if other != line)
    readers[kind](f"{text}\n{line.split(':')[0]}: {json.dumps(value)}")


@KINDS
@QUICK
@given(data=st.data())
def test_a_damaged_file_is_one_or_an_error_of_ours(readers, kind, data):
    """With up to four pieces cut, or replaced by noise or a trick."""
    text = FILES[kind]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        length = data.draw(st.sampled_from([0, 1, 2, 5, 20]))
        tricks = st.sampled_from([*YAML_TRICKS, *TRICKS, *text.split()])
        noise = data.draw(st.one_of(st.text(max_size=4), st.integers().map(str), tricks))
        text = text[:at] + noise + text[at + length :]
    readers[kind](text)


@pytest.mark.parametrize("kind", FILES)
def test_the_good_ones_are_accepted(readers, kind):
    """Else all of the above would be true of a reader that refuses everything."""
    assert readers[kind](FILES[kind])


MANY = list(range(1, 200))
BOMB = "\n".join(
    ["a0: &a0 [1, 1]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12))]
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, r"not valid YAML: aliases \(\*\) are not allowed"),
        ("seed: 0x" + "f" * 5000, 'seed: got "0xff.*; expected a whole number'),
        ("1: 2", "the key 1 is not text"),
        ("problems: {cpu: [[1, 1, 1]]}\nalpha: .inf", "alpha: got Infinity; expected a number"),
        (
            f"problems: {{cpu: [{{M: {MANY}, N: {MANY}, K: 1}}]}}",
            r"problems.cpu\[0\]: got more than 10000 problems",
        ),
    ],
)
def test_what_would_take_for_ever_or_mean_nothing_is_refused_by_name(text, message):
    text = f"campaign: t\nkernels: all\n{text}"
    with pytest.raises(InputError, match=message):
        campaign_file.load(yaml_schema.load(text, "t"), "t", {})


def test_what_an_input_makes_the_interpreter_do_is_noticed(tmp_path):
    with pytest.raises(AssertionError, match="open"), WATCH:
        (tmp_path / "x").write_text("x")
    with pytest.raises(AssertionError, match="exec"), WATCH:
        eval("1")


def test_a_file_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "20_fuzz.cu"
    path.write_bytes(b"/*---\n\xff\xfe\n---*/\n")
    message = r"20_fuzz\.cu: cannot be read: .*; expected text in UTF-8"
    with pytest.raises(InputError, match=message):
        kernel_file.parse(path)


@pytest.mark.parametrize("name", ["2 0", "20.x", "-x", "baselines", "cublas", "blas_1"])
def test_a_name_that_no_kernel_may_have_is_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"digits, _ and - only, and none of baselines, cub"):
        kernel_file.parse(written(tmp_path / f"{name}.cu", HEADER))
