"""The session in docs/first-kernel.md."""

import re
import shlex

import author
import pytest
from trying import Trials

STEPS = [step for _, step in author.BLOCK.findall(author.PAGE.read_text())]
SESSION = "\n".join(STEPS)
VERDICT = re.compile(r"^(correct|incorrect)(?=; )|^  it looks like this: (.*)", re.MULTILINE)


def verdicts(text):
    """What the tries of a session ended with, and the guesses."""
    return ["".join(groups) for groups in VERDICT.findall(text)]


def test_a_session_fills_the_page_step_by_step():
    assert (
        author.page(author.PAGE.read_text(), STEPS).partition("## 1")[2]
        == author.PAGE.read_text().partition("## 1")[2]
    )
    with pytest.raises(AssertionError):
        author.page(author.PAGE.read_text(), [*STEPS, "one more"])


@pytest.mark.slow
def test_the_session_on_the_page_comes_out_as_it_says(tmp_path, monkeypatch, capsys):
    """Its commands and its edits, one after another."""
    trials = Trials(tmp_path / "root", monkeypatch, capsys)
    path, output, seen = trials.root / author.FILE, [], 0
    for step in STEPS[:-1]:
        first = step.partition("\n")[0]
        if first.startswith("$ ladder "):
            code = int((re.findall(r"^\(exit code (\d)\)$", step, re.MULTILINE) or ["0"])[0])
            output.append(trials.ladder(*shlex.split(first)[2:], code=code))
            seen += 1
        else:
            old, new = (
                "".join(f"{line[1:]}\n" for line in step.splitlines()[3:] if line[0] in kept)
                for kept in (" -", " +")
            )
            assert path.read_text().count(old) == 1, old
            path.write_text(path.read_text().replace(old, new))
    assert seen == 4
    assert (
        verdicts("".join(output))
        == verdicts(SESSION)
        == ["correct", "correct", "the last 1 of K are left out", "incorrect"]
    )
    assert re.search("^  since the last correct try: (?!the same)", output[2], re.MULTILINE)
