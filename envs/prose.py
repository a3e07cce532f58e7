"""Check the prose of pages, help texts and claims. `make lint` runs it, and fails if it finds something.

It finds words that this project does not use, sentences that are too long, and wide tables in the README and the chapters of the ladder.
Code, links' targets and markers are no prose. Parts that a program fills are checked for words only.
"""

import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

import yaml
from ladder.cli.main import parser
from ladder.core.files import ROOT

BANNED = {
    r"told|tells?|retold": "states, shows or reports",
    r"anew": "again, regenerated, fresh",
    r"h(?:eld|olds?)(?: \w+){0,4} against": "compared with, tested against",
    r"thereby|therein|thereof|whereby|wherein|hitherto": "a new sentence",
    r"for whom?|of whom|to whom": "for those who",
    r"of which (?:all|none|each|every|one|two)": "a new sentence",
    r"as ever|so it is": "nothing",
    r"whole numbers?": "integers",
    r"frauds?": "cheating kernels",
    r"rungs? past": "faster than",
    r"null pairs|twins": "A/A pairs",
    r"for context": "for reference, not ranked",
    r"(?:is|are) to be seen": "is found",
    r"page to look around in": "results explorer",
    r"lost the race": "was eliminated",
    r"\w*(?:neighbour|licence|colour|behaviour|favour|optimis|initialis|recognis|summaris|normalis)\w*": "American spelling",
}
"""Words, as regular expressions, and what to write instead."""
MOST_WORDS, MOST_COLUMNS = 35, 6
MARKER = re.compile(r"<!--.*?-->", re.DOTALL)
FILLED = re.compile(r"<!-- (?:table|value): .*?<!-- end -->", re.DOTALL)
Problems = Iterator[tuple[int, str]]


def _lines(match: re.Match[str]) -> str:
    """Return the line breaks of what is taken out, so that everything else keeps its line."""
    return "\n" * match[0].count("\n")


def plain(text: str) -> str:
    """Return Markdown without code blocks, markers, tags and the targets of links. Code within a line is one word."""
    text = re.sub(r"^ *```.*?^ *```$", _lines, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(?: {4}|\t).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]+`", lambda match: f"CODE{_lines(match)}", text)
    text = re.sub(r"\{[^{}\n]*\}", "VALUE", MARKER.sub(_lines, text))
    text = re.sub(r"</?[a-z][^>]*>", _lines, text)
    return re.sub(r"\]\([^)]*\)", "]", text)


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield each paragraph, list item, heading and cell of a table, with the number of its first line."""
    first, block = 0, ""
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if not line.strip() or re.match(r"\s*(?:[-*>#|]|\d+\. )", line):
            if block:
                yield first, block
            block = ""
        first = first if block else number
        if line.lstrip().startswith("|"):
            yield from ((number, cell) for cell in re.split(r"(?<!\\)\|", line))
        else:
            block += f" {line.strip()}" if line.strip() else ""


def check(text: str, wide: bool = True) -> Problems:
    """Yield what is wrong with a text, line by line; tables may be wide, or not."""
    prose = plain(text)
    for banned, instead in BANNED.items():
        for match in re.finditer(rf"\b(?:{banned})\b".replace(" ", r"\s+"), prose, re.IGNORECASE):
            yield prose.count("\n", 0, match.start()) + 1, f"got {' '.join(match[0].split())!r}; expected {instead}"
    for number, line in enumerate([] if wide else prose.splitlines(), 1):
        columns = line.strip().strip("|").count("|") + 1
        if re.fullmatch(r"\|[\s:|-]+\|", line.strip()) and columns > MOST_COLUMNS:
            yield number, f"got a table of {columns} columns; expected at most {MOST_COLUMNS}"
    for number, block in blocks(plain(FILLED.sub(lambda match: f"VALUE{_lines(match)}", text))):
        for sentence in re.split(r"(?<=[.!?])[)*\"”]*\s+(?=[^a-z])", block):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if len(words) > MOST_WORDS:
                yield number, f"got a sentence of {len(words)} words ({' '.join(words[:6])} …); expected at most {MOST_WORDS}"


def page(path: Path) -> Problems:
    """Yield what is wrong with a page."""
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    return check(path.read_text(), wide=not re.match(r"README\.md|docs/ladder/(?!results|half)", name))


def help_texts() -> Iterator[tuple[str, str]]:
    """Yield the texts of `ladder --help` and of every sub-command's."""
    for words, command in {"": (whole := parser()), **whole._subparsers._group_actions[0].choices}.items():
        yield (
            f"ladder {words} --help".replace("  ", " "),
            "\n\n".join([command.description, *(it.help or "" for it in command._actions)]),
        )


def everything() -> Iterator[tuple[str, int, str]]:
    """Yield what is wrong in all pages, help texts and claims, with its place."""
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("config/*.md")]):
        yield from ((str(path.relative_to(ROOT)), *problem) for problem in page(path))
    claims = yaml.safe_load((ROOT / "config" / "claims.yaml").read_text())
    for name, text in [*help_texts(), *((f"claim {it['id']}", it["says"]) for it in claims)]:
        yield from ((name, *problem) for problem in check(text))


def main() -> None:
    """Check the pages given, or everything."""
    arguments = ArgumentParser(description=__doc__)
    arguments.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="everything if none is given")
    given = arguments.parse_args().pages
    problems = [(str(path), *problem) for path in given for problem in page(path.resolve())] if given else list(everything())
    for name, number, what in sorted(problems):
        print(f"{name}:{number}: {what}")
    sys.exit(f"Error: {len(problems)} places to rewrite" if problems else 0)


if __name__ == "__main__":
    main()
