"""Count the tokens of the project's Python, without comments and docstrings, and compare them with the budget.

.venv/bin/python tests/support/budget.py
"""

import ast
import io
import token
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUDGET = {
    "package": (177_380, ("workflow",)),
    "tests": (215_600, ("tests",)),
    "book and studies": (27_100, ("book", "studies", "envs", "kernels")),
}
"""The most tokens of each part, and its folders. A new capability may raise a number; its commit
says by how much and why.
"""
COUNTED = {token.NAME, token.NUMBER, token.STRING, token.OP, getattr(token, "FSTRING_START", -1)}


def docstrings(text: str) -> set[tuple[int, int]]:
    """Return where the strings begin that are statements of their own."""
    return {
        (node.lineno, node.col_offset)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }


def tokens(text: str) -> int:
    """Return the tokens of a module. What stands within an f-string counts too where Python reads
    it as tokens (3.12).
    """
    left_out = docstrings(text)
    found = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(each.type in COUNTED and each.start not in left_out for each in found)


def count(folders: tuple[str, ...]) -> tuple[int, int]:
    """Return the tokens and the lines of all modules in folders."""
    texts = [path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sum(map(tokens, texts)), sum(len(text.splitlines()) for text in texts)


if __name__ == "__main__":
    for name, (most, folders) in BUDGET.items():
        counted, lines = count(folders)
        print(
            f"{name:17} {counted:8,} tokens of {most:8,}, {lines:7,} lines, "
            f"{counted / max(lines, 1):.1f} tokens a line"
        )
