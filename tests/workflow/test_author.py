"""docs/author.md shows what somebody who writes a kernel sees: the session in it is that of `studies/author.py`."""

import json

import author
import pytest
import saves
from ladder.kernels import parse


def test_the_session_on_the_page_is_what_the_commands_say(project):
    log = author.session(project)
    text = author.PAGE.read_text()
    assert text.startswith(author.HEAD)
    assert text.endswith(author.tail())
    shown = text.partition("```\n")[2].partition("```\n")[0]
    assert author.without_numbers(shown) == author.without_numbers(log)
    assert [line.split(";")[0] for line in log.splitlines() if line.startswith(("right;", "wrong;"))] == [
        "right",
        "right",
        "wrong",
    ]
    assert "it looks like this: the last 1 of K are left out\n" in log
    assert "since the last right try: " in log


def test_saves_are_timed(project):
    seconds = saves.saves(project, "cpu", 1)
    assert min(seconds["watch_s"], seconds["again_s"]) > 0
    assert max(seconds["watch_s"], seconds["again_s"]) < seconds["campaign_s"]
    assert (len(seconds["each_again_s"]), len(seconds["each_watch_s"])) == (1, 1)
    tries = (project.folder / "results" / "try" / "history.jsonl").read_text().splitlines()
    assert len({json.loads(line)["sha256"] for line in tries}) == 2  # every edit gives other machine code


@pytest.mark.parametrize("kind", saves.KERNELS)
def test_what_is_edited_is_there_and_of_one_configuration(kind, tmp_path):
    name, text, (old, new), one = saves.KERNELS[kind]
    assert text.count(old) == 1
    assert old != new
    (tmp_path / name).write_text(text)
    lists = {key: [int(value)] for key, _, value in (pair.partition("=") for pair in one[1::2])}
    assert len(list(parse(tmp_path / name).expand(lists, ["float32"]))) == 1
