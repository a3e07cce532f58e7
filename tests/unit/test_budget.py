"""The project's Python stays within its budget of tokens."""

import budget
import pytest


@pytest.mark.parametrize("part", budget.BUDGET)
def test_a_part_keeps_to_its_budget(part):
    most, folders = budget.BUDGET[part]
    assert budget.count(folders)[0] <= most


def test_text_that_does_nothing_is_free():
    code = "def f(x: int) -> int:\n    return x\n"
    assert budget.tokens(code) == 12
    assert (
        budget.tokens('"""Doc."""\n# why\n' + code.replace("\n    ", '\n    """Return x."""\n    '))
        == 12
    )
    assert budget.tokens('x = """not a docstring"""\n') == 3
