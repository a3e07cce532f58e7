"""Fill the generated parts of the README and the documents from the published data.

Such a part is between `<!-- table: NAME ARGUMENTS -->`, or `<!-- cell: … -->` within a line, and
`<!-- end -->`. All other text is written by hand and has no measured number of ours, so it cannot
contradict the data.
"""

import re

from ladder.core.errors import InputError
from ladder.core.files import ROOT
from ladder.core.types import KINDS

from book.cells import CELLS
from book.data import Story
from book.tables import TABLES

LADDER = ROOT / "docs" / "ladder"
DOCUMENTS = (
    *sorted(LADDER.glob("*.md")),
    ROOT / "README.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in (
            "claims",
            "evidence",
            "workstation",
            "float32-from-tensor-cores",
            "compilers",
            "languages",
            "results",
        )
    ),
)
MEASURED = re.compile(
    r"(?<![\dA-Z])(?<![\dA-Z]\s)[×≈~]\s?\d[\d.,]*(?!\s?[×x]\s?\d)"
    r"|(?<![\^\d.])\b\d[\d.,]*(?:\s?%|\s?[TG]FLOP(?:/s|s\b)|\s?[TG]B/s|\s(?:[µu]s|ms|s|J|W)\b|x\b(?!\s?\d)|\s?times\b)"
    r"|(?i:\b(?:two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|thirty|forty|fifty|a "
    r"hundred|a thousand)\s+times\b)"
    r"|(?i:\btwice\s+(?:as|the\s+(?:rate|speed|time))\b)"
    r"|\b\d[\d.,]*\s?(?:[MG]B\b(?!/s)|minutes?\b|seconds?\b|hours?\b)"
    r"|(?i:\b(?:half\s+a\s+second|(?:an?|half\s+an?)\s+(?:minute|hour)|(?:two|three|four|five|six|ten|some|several)\s+(?:seconds|minutes|hours))\b)"
    r"|(?i:\b(?:a|one)\s+(?:third|quarter|half|fifth|tenth)\s+(?:faster|slower|more|less|of\s+the\s+time)\b)"
)
"""A measured number, also in words: a rate, share, time, energy, size or speedup."""
CITED = re.compile(r"<!-- from: [^>]+? -->")
"""The marker after a measured number that names its source, if it is not ours."""
UNENDED = re.compile(
    r"<!-- (?:table|cell): ([^>]+?) -->(?=(?:(?!<!-- end -->).)*(?:<!-- (?:table|cell): |\Z))",
    re.DOTALL,
)
"""A marker without an end before the next marker or the end of the text."""
PART = re.compile(r"<!-- (table|cell): ([^>]+?) -->.*?<!-- end -->", re.DOTALL)


def unsaid(text: str) -> list[str]:
    """Return the measured numbers in the hand-written text of a page, which no claim and no table
    carries.

    These are numbers with a unit of rate, share, time or energy, or with `×`, `x` or `times`, also
    in words. Code and the generated parts do not count, nor does a number with `<!-- from: WHOSE
    -->` after it in the same paragraph or table row.
    """
    text = PART.sub("", re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL))
    numbers = []
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:\||- |\d+\. ))", text):
        numbers += [
            match[0] for match in MEASURED.finditer(block) if not CITED.search(block, match.end())
        ]
    return numbers


def fill(text: str, story: Story, document: str = "page") -> str:
    """Return the document with every generated part made again. Raises `InputError` for a marker
    with an unknown name or without an end.
    """

    def part(match: re.Match[str]) -> str:
        form, call = match.group(1), match.group(2)
        name, *arguments = call.split()
        makers = TABLES if form == "table" else CELLS
        if name not in makers:
            raise InputError(f"{document}: {form}: got {name}; expected {', '.join(makers)}")
        try:
            made = makers[name](story, *arguments)
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise InputError(
                f"{document}: {call}: {error}; kinds are {', '.join(KINDS)}"
            ) from error
        made = f"\n\n{made}\n\n" if form == "table" else made
        return f"<!-- {form}: {call} -->{made}<!-- end -->"

    if unended := UNENDED.search(text):
        raise InputError(
            f"{document}: {unended[1]}: has no end; expected <!-- end --> behind it, before the "
            "next marker"
        )
    return PART.sub(part, text)
