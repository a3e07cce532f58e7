"""The line of a kernel's source to look at first: the compiler's, or a guess by the mistake that a
result looks like.
"""

import re

from ladder.measuring.verdict import Line
from ladder.model.kernel import Kernel

REFUSED = re.compile(r"^(?:\S*/)?([\w.]+)[:(](\d+)[):].*\berror\b", re.MULTILINE)
"""Where a compiler says that an error is: `mine.c:15:7: error: …`, `mine.cu(9): error: …`."""
STORES = r"\bC\b[^=]*\][^=]*=[^=]"
"""What a line has that writes C."""
PLACES = {
    r"(\w+) is used instead of ld([abc])": r"\b{1}\b.*\b{0}\b",
    r"^(alpha)": rf"\b{{0}}\b|{STORES}",
    r"^beta|^nothing is written|^it is computed": rf"\bbeta\b|{STORES}",
    r"of K are left out": r"\bfor\b.*\bK\b",
    r"^an edge": r"\b(if|for|while)\b.*\b[MN]\b",
    r"leading dimensions are left out|column-major": r"\b[AB]\b.*\[|\[.*\b[AB]\b",
}
"""For the words of a mistake, what the line has that is to blame, if the author's names are those
of the arguments.
"""


def line_of(kernel: Kernel, reason: str, guess: str) -> Line | None:
    """Return the line of a kernel's source that a compiler's message names, or the first one in
    `gemm` that may be to blame for the mistake of a `guess`; None if no line stands out.
    """
    texts = {path.name: path.read_text(errors="replace") for path in kernel.includes}
    texts[kernel.path.name] = kernel.text
    for file, number in REFUSED.findall(reason):
        found = texts.get(file, "").splitlines()
        if 0 < int(number) <= len(found):
            return Line(file, int(number), found[int(number) - 1])
    body = re.search(r"\bgemm\s*\([^{]*\{", kernel.text)
    begins = body.end() if body else 0
    for words, pattern in PLACES.items():
        if match := re.search(words, guess):
            wanted = pattern.format(
                *(group.upper() if len(group) == 1 else group for group in match.groups())
            )
            for number, text in enumerate(
                kernel.text[begins:].splitlines(), kernel.text.count("\n", 0, begins) + 1
            ):
                if re.search(wanted, text.partition("//")[0]):
                    return Line(kernel.path.name, number, text)
    return None
