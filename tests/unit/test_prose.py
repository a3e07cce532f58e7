"""`make lint` finds words that the project does not use, long sentences and wide tables, and nothing in code."""

import re
import subprocess
import sys

import pytest
from ladder.publishing import pages
from planted import ROOT

LONG = "Here is " + "a word and " * 12 + "an end."
WIDE = "| a | b | c | d | e | f | g |\n|---|---|---|---|---|---|---|\n"


def lint(folder, text, name="page.md"):
    """What the check prints for a page, without the page's name, and its exit code."""
    path = folder / name
    path.write_text(text)
    command = [sys.executable, ROOT / "envs" / "prose.py", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return re.findall(r":(\d+: got .*?);", done.stdout), done.returncode


def test_what_it_finds_fails_with_its_line(tmp_path):
    text = (
        f"# A page\n\nIt is told\nanew, and held\nagainst ours.\n\n{LONG}\n\n- For who reads it.\n\n| a cell of whole numbers |\n"
    )
    problems = [
        "3: got 'told'", "4: got 'anew'", "4: got 'held against'", "7: got a sentence of 40 words (Here is a word and a …)",
        "9: got 'For who'",
    ]  # fmt: skip
    lines, code = lint(tmp_path, text)
    assert (sorted(lines), code) == (sorted([*problems, "11: got 'whole numbers'"]), 1)


def test_prose_of_plain_words_and_code_passes(tmp_path):
    text = (
        f"# A page\n\n```\n{LONG} told\n```\n\n    told\n\nA `{LONG}`, and [a link](told.md)<!-- told -->. {LONG[:80]}.\n\n{WIDE}"
    )
    assert lint(tmp_path, text) == ([], 0)


@pytest.mark.parametrize("marker", ["table: told", "value: told"])
def test_the_words_that_a_program_fills_in_count(tmp_path, marker):
    assert pages.PART.search(f"<!-- {marker} -->x<!-- end -->")
    assert lint(tmp_path, f"<!-- {marker} -->\n\nIt is told.\n\n<!-- end -->\n") == (["3: got 'told'"], 1)


def test_the_help_of_every_command_and_every_claim_are_checked(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "envs")
    import prose

    monkeypatch.setattr(prose, "BANNED", {"the|help": "a"})
    places = {place for place, *_ in prose.everything()}
    assert {"ladder --help", "ladder try --help", "ladder compare --help", "claim great-gains"} <= places


def test_only_the_readme_and_the_ladder_need_narrow_tables(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "envs")
    import prose

    assert list(prose.check(WIDE)) == []
    assert list(prose.check(WIDE, wide=False)) == [(2, "got a table of 7 columns; expected at most 6")]
