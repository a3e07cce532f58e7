"""Fill the generated parts of the README and the documents from the published data.

Such a part is between `<!-- table: NAME ARGUMENTS -->`, or `<!-- cell: … -->` within a line, and
`<!-- end -->`. All other text is written by hand and has no measured number of ours, so it cannot
contradict the data.
"""

import re

from ladder.claims.definitions import NOTHING
from ladder.core.errors import InputError
from ladder.core.places import HOME
from ladder.core.types import KINDS

from book.cells import CELLS
from book.data import Story, Unmeasured
from book.tables import TABLES

LADDER = HOME / "docs" / "ladder"
DOCUMENTS = (
    *sorted(LADDER.glob("*.md")),
    HOME / "README.md",
    *(
        HOME / "docs" / f"{name}.md"
        for name in (
            "claims",
            "evidence",
            "gate",
            "workstation",
            "float32-from-tensor-cores",
            "languages",
            "results",
        )
    ),
)
UNENDED = re.compile(
    r"<!-- (?:table|cell): ([^>]+?) -->(?=(?:(?!<!-- end -->).)*(?:<!-- (?:table|cell): |\Z))",
    re.DOTALL,
)
"""A marker without an end before the next marker or the end of the text."""
PART = re.compile(r"<!-- (table|cell): ([^>]+?) -->.*?<!-- end -->", re.DOTALL)


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
        except Unmeasured:
            made = NOTHING if form == "cell" else f"{NOTHING.capitalize()}."
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
