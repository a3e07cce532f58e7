"""What reads the user's input gives a right answer or an error of ours, whatever it is given.

`EXAMPLES=30000 pytest tests/unit/test_properties.py` tries more of each kind.
"""

import contextlib
import gc
import json
import os
from pathlib import Path

import fuzz
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from ladder.core.errors import InputError
from ladder.model import campaign_file, kernel_file
from ladder.model.kernel_file import discover
from planted import written

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
    st.integers(-5, 2**40).map(lambda n: f"({n})"), st.sampled_from([*fuzz.NAMES, "0.5", "3.25"])
)
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda part: st.one_of(
        st.builds(
            "({} {} {})".format,
            part,
            st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", ">"]),
            part,
        ),
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


def damaged(text):
    """A text with up to four of its pieces cut, or replaced by noise or a trick."""
    noise = st.one_of(
        st.text(max_size=4),
        st.integers(-(2**70), 2**70).map(str),
        st.sampled_from([*fuzz.YAML_TRICKS, *fuzz.TRICKS, *text.split()]),
    )
    cuts = st.lists(
        st.tuples(st.integers(0, len(text)), st.sampled_from([0, 1, 2, 5, 20]), noise),
        min_size=1,
        max_size=4,
    )

    def cut(text, pieces):
        for at, length, piece in pieces:
            text = text[:at] + piece + text[at + length :]
        return text

    return cuts.map(lambda pieces: cut(text, pieces))


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("fuzz") / "kernels" / "cuda" / "20_fuzz.cu"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """The kernels that a campaign may name: a CUDA kernel with a good header, and a CPU kernel."""
    folder = tmp_path_factory.mktemp("known")
    for name, header in (("cuda/20_fuzz.cu", fuzz.HEADER), ("cpu/01_plain.c", "title: t\nidea: i")):
        written(folder / "kernels" / name, f"/*---\n{header}\n---*/\n")
    return discover(folder)


@pytest.fixture(scope="module", autouse=True)
def imported(path, known):
    """Have everything imported that Python imports late, and collected what earlier tests have
    left: no input is to blame for either.
    """
    gc.collect()
    for read, text, *more in (
        (fuzz.right_expression, "M + 1", False),
        (fuzz.right_header, fuzz.HEADER, path),
        (fuzz.right_campaign, fuzz.CAMPAIGN, known),
        (fuzz.right_campaign, "x: [&a 1, *a]", known),
    ):
        with contextlib.suppress(InputError, AssertionError):
            read(text, *more)


@QUICK
@given(EXPRESSIONS)
def test_an_expression_has_the_value_that_python_gives_it(text):
    with contextlib.suppress(InputError):
        fuzz.right_expression(text, True)


@QUICK
@given(
    st.one_of(
        st.text(max_size=60),
        st.text("MNK()[]{}.,+-*/%<>=!'\"_:@ 0123456789eE", max_size=60),
        st.sampled_from(fuzz.TRICKS),
    )
)
def test_any_text_is_an_expression_or_an_error_of_ours(text):
    with contextlib.suppress(InputError):
        fuzz.right_expression(text, False)


@QUICK
@given(st.one_of(st.text(max_size=80), st.sampled_from(fuzz.YAML_TRICKS)))
@example("title: t\nidea: i\nblock: [1]\ngrid: [1]\nparameters: {1: 2}")
@example("title: t\nidea: i\nblock: [1]\ngrid: [1]\ncompute_capability: .nan")
@example(
    "title: t\nidea: i\nblock: [BM]\ngrid: [1]\nparameters: {BM: 1}\nrequires: [8 % BM == "
    "0]\nsweep: {BM: [0, 1]}"
)
def test_any_header_is_a_kernel_or_an_error_of_ours(path, text):
    with contextlib.suppress(InputError):
        fuzz.right_header(text, path)


@QUICK
@given(st.sampled_from(["", *fuzz.HEADER.splitlines()]), PLAIN)
def test_any_value_of_a_header_is_used_or_refused(path, line, value):
    """Every key of a good header with another value."""
    key = line.split(":")[0] or "x"
    text = "\n".join(other for other in fuzz.HEADER.splitlines() if other != line)
    with contextlib.suppress(InputError):
        fuzz.right_header(f"{text}\n{key}: {json.dumps(value)}", path)


@QUICK
@given(damaged(fuzz.HEADER))
def test_a_damaged_header_is_a_kernel_or_an_error_of_ours(path, text):
    with contextlib.suppress(InputError):
        fuzz.right_header(text, path)


@pytest.mark.slow
@QUICK
@given(damaged(fuzz.CAMPAIGN))
def test_a_damaged_campaign_is_one_or_an_error_of_ours(known, text):
    with contextlib.suppress(InputError):
        fuzz.right_campaign(text, known)


@pytest.mark.slow
@QUICK
@given(st.sampled_from(["", *fuzz.CAMPAIGN.splitlines()]), PLAIN)
def test_any_value_of_a_campaign_is_used_or_refused(known, line, value):
    good = [other.replace('["cuda/*", "cpu/*"]', "all") for other in fuzz.CAMPAIGN.splitlines()]
    text = "\n".join(other for other in good if other.split(":")[0] != line.split(":")[0])
    with contextlib.suppress(InputError):
        fuzz.right_campaign(f"{text}\n{line.split(':')[0] or 'x'}: {json.dumps(value)}", known)


def test_the_good_ones_are_accepted(path, known):
    """Else all of the above would be true of a reader that refuses everything."""
    fuzz.right_header(fuzz.HEADER, path)
    fuzz.right_campaign(fuzz.CAMPAIGN, known)
    fuzz.right_expression("ceil_div(M, BM)", True)


MANY = list(range(1, 200))
BOMB = "\n".join(
    ["a0: &a0 [1, 1]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12))]
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, r"not valid YAML: aliases \(\*\) are not allowed"),
        ("alpha: .nan", "alpha: got NaN; expected a number"),
        ("seed: 0x" + "f" * 5000, 'seed: got "0xff.*; expected a whole number'),
        ("1: 2", "the key 1 is not text"),
        ("alpha: 1.0e+9", r"alpha: got 1000000000\.0; expected a number from -1000 to 1000"),
        (
            f"parameters: {{cuda/20_fuzz: {{BM: {MANY}, BN: {MANY}}}}}",
            "cuda/20_fuzz: .* make 19900 configurations",
        ),
        (
            f"problems: {{cpu: [{{M: {MANY}, N: {MANY}, K: 1}}]}}",
            r"problems.cpu\[0\]: got more than 10000 problems",
        ),
    ],
)
def test_what_would_take_for_ever_or_mean_nothing_is_refused_by_name(known, text, message):
    good = [
        line
        for line in fuzz.CAMPAIGN.splitlines()
        if line.split(":")[0] not in (text.split(":")[0], "kernels")
    ]
    with pytest.raises(InputError, match=message):
        campaign_file.load(
            fuzz.yaml_schema.load("\n".join([*good, text]), "config/x.yaml"), "config/x.yaml", known
        )


def test_what_an_input_makes_the_interpreter_do_is_noticed(tmp_path):
    with pytest.raises(AssertionError, match="open"), fuzz.WATCH:
        (tmp_path / "x").write_text("x")
    with pytest.raises(AssertionError, match="exec"), fuzz.WATCH:
        eval("1")


def test_a_file_that_is_no_text_or_has_a_bad_name_is_named(path):
    path.write_bytes(b"/*---\n\xff\xfe\n---*/\n")
    with pytest.raises(
        InputError, match=r"20_fuzz\.cu: cannot be read: .*; expected text in UTF-8"
    ):
        kernel_file.parse(path)
    for name in ("2 0.cu", "20-x.cu", "baselines.cu", "cublas.cu", "blas_1.cu"):
        bad = path.with_name(name)
        bad.write_text(f"/*---\n{fuzz.HEADER}\n---*/\n")
        with pytest.raises(
            InputError, match=r"expected letters, digits and _ only, and none of baselines, cublas,"
        ):
            kernel_file.parse(bad)
