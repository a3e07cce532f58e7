"""The session in docs/first-kernel.md."""

import re

import author
import pytest

VERDICT = re.compile(r"^(correct|incorrect)(?=; )|^  it looks like this: (.*)", re.MULTILINE)


def fixed(steps):
    """What every session has: its commands and its edits, wherever their lines are."""
    return [
        re.sub("@@.*@@", "", step) if step.startswith("--- ") else step.partition("\n")[0]
        for step in steps
    ]


@pytest.mark.slow
def test_the_session_on_the_page_comes_out_as_it_says(project):
    steps = author.session(project)
    shown = [step for _, step in author.BLOCK.findall(author.PAGE.read_text())]
    assert fixed(steps) == fixed(shown)
    for session in steps, shown:
        verdicts = ["".join(groups) for groups in VERDICT.findall("\n".join(session))]
        assert verdicts == ["correct", "correct", "the last 1 of K are left out", "incorrect"]
    assert re.search("^  since the last correct try: (?!the same)", steps[3], re.MULTILINE)
