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
    ("text", "message"),
    [
        ("2 ** 63", "is outside the range of 64-bit integers"),
        ("-(2 ** 32) * 2 ** 32", "is outside the range of 64-bit integers"),
        ("1012369762596 ** 51.0", "is outside the range of 64-bit integers"),
        ("1e308 * 10", "is outside the range of 64-bit integers"),
        ("-" * 500 + "1", "is nested more than 40 deep"),
        ("1" * 2000, "has 2000 characters; at most 1000"),
    ],
)
def test_what_is_too_large_is_said_so(text, message):
    with pytest.raises(InputError, match=message):
        evaluate(text, {})


def test_counts_are_whole():
    assert evaluate_int("BN / TN", {"BN": 64, "TN": 8}) == 8
    with pytest.raises(InputError, match=r"gives .*; expected a whole number"):
        evaluate_int("BN / TN", {"BN": 63, "TN": 8})


def test_an_unknown_name_is_told_even_where_its_value_is_not_needed():
    assert names_in("ceil_div(M, BM) + min(K, 3)") == {"M", "BM", "K"}
    with pytest.raises(InputError, match="`M > 1 and X`: unknown name X; known: M"):
        evaluate("M > 1 and X", {"M": 0})
