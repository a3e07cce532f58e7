"""The session in docs/first-kernel.md, and how `tests/support/saves.py` times the same loop."""

import hashlib
import re
import shlex
from statistics import median

import author
import pytest
import saves
from ladder.claims.answers import STUDIES
from ladder.compiling.compile import compile_kernel
from ladder.devices.detect import detect_cpu
from ladder.model.kernel_file import parse
from planted import Project, written
from trying import Trials

STEPS = [step for _, step in author.BLOCK.findall(author.PAGE.read_text())]
SESSION = "\n".join(STEPS)
VERDICT = re.compile(r"^(correct|incorrect)(?=; )|^  it looks like this: (.*)", re.MULTILINE)


def verdicts(text):
    """What the tries of a session ended with, and the guesses."""
    return ["".join(groups) for groups in VERDICT.findall(text)]


def test_a_session_fills_the_page_step_by_step():
    assert author.page(author.PAGE.read_text(), STEPS).partition("## 1")[2] == author.PAGE.read_text().partition("## 1")[2]
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
            old, new = ("".join(f"{line[1:]}\n" for line in step.splitlines()[3:] if line[0] in kept) for kept in (" -", " +"))
            assert path.read_text().count(old) == 1, old
            path.write_text(path.read_text().replace(old, new))
    assert seen == 4
    assert verdicts("".join(output)) == verdicts(SESSION) == ["correct", "correct", "the last 1 of K are left out", "incorrect"]
    assert re.search("^  since the last correct try: (?!the same)", output[2], re.MULTILINE)


ANSWERS = """#!/bin/sh
# in place of `python -m ladder try FILE [--watch]`: answers at once, and notes to which text
before=
while :; do
  now=$(cat "$4")
  if [ "$now" != "$before" ]; then
    before=$now
    echo "${{*##* }} $(printf '%s\\n' "$now" | sha256sum)" >> log
    printf 'mine: 1 GFLOP/s\\n{}; 0.0 s\\n'
  fi
  case "$*" in *--watch) sleep 0.02 ;; *) exit ;; esac
done
"""


class Fake(Project):
    """A project whose tries and campaigns are over at once; `log` has what each was of."""

    def __init__(self, folder, verdict):
        self.folder, self.python = folder, str(folder / "python")
        self.write("python", ANSWERS.format(verdict)).chmod(0o755)

    def ok(self, *arguments, **given):
        digest = hashlib.sha256((self.folder / author.FILE).read_bytes()).hexdigest()
        with (self.folder / "log").open("a") as log:
            log.write(f"campaign {digest}  -\n")
        return ""

    def log(self):
        """Pairs of what was run and the number of the text that it was of."""
        pairs = [line.split()[:2] for line in (self.folder / "log").read_text().splitlines()]
        texts = list(dict.fromkeys(text for _, text in pairs))
        return [(what, texts.index(text)) for what, text in pairs]


def test_every_save_is_answered_and_timed(tmp_path):
    fake = Fake(tmp_path, "correct")
    measured = saves.saves(fake, "cpu", 2)
    tried, watched = [(author.FILE, 0), (author.FILE, 1), (author.FILE, 0)], [("--watch", 0), ("--watch", 1), ("--watch", 0)]
    assert fake.log() == [*tried, *watched, ("campaign", 0), ("campaign", 1)]
    assert set(measured) == {"kind", "first_s", "again_s", "watch_s", "campaign_s", "each_again_s", "each_watch_s"}
    for way in ("again", "watch"):
        assert len(measured[f"each_{way}_s"]) == 2
        assert measured[f"{way}_s"] == median(measured[f"each_{way}_s"])
    assert "`ladder try` of a CPU kernel takes " in STUDIES["saves"].answer(measured)


def test_a_wrong_kernel_is_not_timed(tmp_path):
    with pytest.raises(AssertionError, match="incorrect; "):
        saves.saves(Fake(tmp_path, "incorrect"), "cpu", 1)


@pytest.mark.machine
def test_a_save_is_answered_sooner_than_by_a_campaign(project):
    seconds = saves.saves(project, "cpu", 1)
    assert max(seconds["watch_s"], seconds["again_s"]) < seconds["campaign_s"]


@pytest.mark.parametrize("kind", saves.KERNELS)
def test_what_is_edited_is_there_and_of_one_configuration(kind, tmp_path):
    name, text, (old, new), settings = saves.KERNELS[kind]
    assert text.count(old) == 1
    digests = []
    for version in (text, text.replace(old, new)):
        path = written(tmp_path / "kernels" / kind / name, version)
        lists = {key: [int(value)] for key, _, value in (pair.partition("=") for pair in settings[1::2])}
        kernel = parse(path)
        (configuration,) = kernel.expand(lists, ["float32"])
        if kind == "cpu":
            (row,) = compile_kernel(kernel, [configuration], detect_cpu().arch, tmp_path / "build", 1)
            digests.append(row.sha256)
    assert len(set(digests)) == len(digests)  # every edit gives other machine code
