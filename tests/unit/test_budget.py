"""The project stays within its budgets of tokens and words."""

import budget
import pytest
from documented import FILES


@pytest.mark.parametrize("part", budget.BUDGET)
def test_a_part_keeps_to_its_budget(part):
    most, folders = budget.BUDGET[part]
    assert budget.count(folders)[0] <= most


def test_all_pages_have_at_most_55_000_words():
    """Generated ones are counted."""
    assert sum(len(page.read_text().split()) for page in FILES) <= 55_000


def test_text_that_does_nothing_is_free():
    code = "def f(x: int) -> int:\n    return x\n"
    assert budget.tokens(code) == 12
    assert (
        budget.tokens('"""Doc."""\n# why\n' + code.replace("\n    ", '\n    """Return x."""\n    '))
        == 12
    )
    assert budget.tokens('x = """not a docstring"""\n') == 3
