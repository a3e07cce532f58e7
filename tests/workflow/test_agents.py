"""What the pages for programs say."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from ladder.cli.main import parser
from ladder.core import yaml_schema
from planted import HOME
from trying import PLAIN

PAGE = (HOME / "docs" / "agents.md").read_text()
BRIEF = (HOME / "AGENTS.md").read_text()
SCHEMA = json.loads((yaml_schema.SCHEMAS / "verdict.schema.json").read_text())


BEGUN = (HOME / "workflow/ladder/cli/init/kernels/cpu/mine.c").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("right", "mistakes"), [(PLAIN, 2), (BEGUN, 1)], ids=["plain", "begun"])
def test_the_program_of_the_page_mends_a_kernel_by_its_verdicts(tmp_path, right, mistakes):
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    wrong = right.replace("k * ldb", "k * N")
    if mistakes == 2:
        wrong = wrong.replace("beta == 0 ? 0 : ", "")
    (tmp_path / "mine.c").write_text(wrong)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", program, "mine.c"],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    told = [line.split()[0] for line in done.stdout.splitlines()]
    assert (told, done.returncode) == (["incorrect"] * mistakes + ["correct"], 0), done.stdout
    old = "beta == 0 ? 0 : beta * C[(size_t)i * ldc + j]"
    assert (tmp_path / "mine.c").read_text() == right.replace(old, f"({old})")


def test_the_example_of_a_verdict_has_the_names_of_the_schema():
    (text,) = re.findall(r"^```json\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    verdict, forms = json.loads(text), SCHEMA["$defs"]
    (result,) = verdict["problems"]
    (outcome,) = result["outcomes"]
    for part, form in (
        (verdict, SCHEMA),
        (result, forms["on_problem"]),
        (outcome, forms["outcome"]),
    ):
        assert part.keys() <= form["properties"].keys()
    for name in ("wrong", "line"):
        assert outcome[name].keys() <= forms[name]["properties"].keys()
    statuses = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)))
    assert set(statuses) == set(SCHEMA["properties"]["status"]["enum"])


def test_the_brief_is_short_and_its_commands_and_names_exist():
    assert len(BRIEF.splitlines()) <= 60
    commands = re.findall(r"^    (ladder .*)|`(ladder (?:try|new|check) .*?)`", BRIEF, re.MULTILINE)
    for command in [one or other for one, other in commands]:
        assert parser().parse_args(shlex.split(command)[1:]).run
    options = re.findall(r"`(--\w+)[^`]*`", BRIEF.partition("## Judge")[2])
    helped = parser().parse_args(["try", "x"])
    assert all(hasattr(helped, option.removeprefix("--")) for option in options)
    known = {name for form in (SCHEMA, *SCHEMA["$defs"].values()) for name in form["properties"]}
    reading = BRIEF.partition("## Read the verdict")[2].partition("## Rules")[0]
    named = re.findall(r"`(\w+(?:\.\w+)?)(?:\[\].*)?`", reading)
    assert {part for name in named for part in name.split(".")} <= known | {
        *("correct", "low", "high", "faster", "slower")
    }
