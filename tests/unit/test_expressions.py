import pytest
from ladder.core.errors import InputError
from ladder.core.expressions import evaluate, evaluate_int, names_in


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ceil_div(M, BM)", 8),
        ("M * N * (1 / BM + 1 / 2)", 100 * 3 * (1 / 13 + 0.5)),
        ("BM % 4 == 1 and N < BM <= M", True),
        ("-N + 2 ** 10", 1021),
        ("max(N, BM, 2) // 2", 6),
        ("1 if N > BM else 7", 7),
        ("not N", False),
        (42, 42),
    ],
)
def test_values(text, value):
    assert evaluate(text, {"M": 100, "N": 3, "BM": 13}) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch /tmp/pwned')",
        "().__class__",
        "M.real",
        "[1, 2]",
        "lambda: 1",
        "f'{M}'",
        "M if",
        "",
        "'a' * 9",
        "2 ** 2 ** 2 ** 2 ** 2 ** 2",
        "9 ** 64 * 9 ** 64",
        "1 / 0",
        "M % 0",
        "unknown",
        "ceil_div(1)",
        "min(1)",
        "M := 3",
        "1e400",
        "-" * 500 + "1",
        "1" * 2000,
        "\0",
        "M\nN",
        "ceil_div(M, *N)",
        "True + 1j",
        "M @ N",
        "0 ** -1",
    ],
)
def test_anything_else_is_an_error_of_ours(text):
    with pytest.raises(InputError):
        evaluate(text, {"M": 100, "N": 3})


@pytest.mark.parametrize(
    "text", ["2 ** 63", "-(2 ** 32) * 2 ** 32", "1012369762596 ** 51.0", "1e308 * 10"]
)
def test_what_is_too_large_is_said_so(text):
    with pytest.raises(InputError, match="is outside the range of 64-bit integers"):
        evaluate(text, {})


def test_counts_are_whole():
    assert evaluate_int("BN / TN", {"BN": 64, "TN": 8}) == 8
    with pytest.raises(InputError, match="whole number"):
        evaluate_int("BN / TN", {"BN": 63, "TN": 8})


def test_names():
    assert names_in("ceil_div(M, BM) + min(K, 3)") == {"M", "BM", "K"}
