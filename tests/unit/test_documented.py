"""Every command and code block on a page is run by a test or by `.ci/run`, or says why not
(`tests/support/documented.py`).
"""

import re
import shlex

import documented
import yaml
from documented import CI
from ladder.cli.main import parser
from planted import HOME
from rungs import ALL as KERNELS

NAMES = [*documented.commands(), *(block.name for block in documented.blocks())]
PATTERNS = [
    *(pattern for _, patterns in documented.IN_A_CLONE for pattern in patterns),
    *(pattern for patterns in documented.ELSEWHERE.values() for pattern in patterns),
]


def test_every_command_and_block_has_a_way_and_no_row_is_left_over():
    """Add a new one to the tables of `tests/support/documented.py`."""

    def any_named(names, patterns):
        return any(documented.named(name, pattern) for name in names for pattern in patterns)

    assert [name for name in NAMES if not any_named([name], PATTERNS)] == []
    assert [pattern for pattern in PATTERNS if not any_named(NAMES, [pattern])] == []


def test_the_front_page_says_what_cannot_cheat():
    assert "No host code of a CUDA kernel runs" in documented.PAGES["README.md"]


def test_what_is_said_to_run_a_command_is_there():
    ways = {way.where for way, _ in documented.IN_A_CLONE} | documented.ELSEWHERE.keys()
    for file, _, test in (where.partition("::") for where in ways if "::" in where):
        assert f"\ndef {test}(" in (HOME / file).read_text(), test


def made_by_ci():
    """What `.ci/run` makes, and what that depends on."""
    script, makefile = (HOME / ".ci" / "run").read_text(), (HOME / "Makefile").read_text()
    loops = " ".join(re.findall(r"^for target in (.*); do$", script, re.MULTILINE))
    made = [*loops.split(), *re.findall(r"^make ?(\S*)", script, re.MULTILINE)]
    for target in made:
        made += [
            it
            for line in re.findall(rf"^{target}: (.*)$", makefile, re.MULTILINE)
            for it in line.split()
            if it not in made
        ]
    return {f"make {target}".strip() for target in made}


def test_what_ci_is_said_to_run_it_runs():
    texts = [(HOME / name).read_text() for name in (".ci/run", "Makefile")]
    made = made_by_ci()
    for command in documented.commands():
        if documented.way(command) is None and any(
            documented.named(command, pattern) for pattern in documented.ELSEWHERE[CI]
        ):
            assert command in made or any(command in text for text in texts), command


def test_a_submit_command_has_the_keys_of_its_profile():
    known = yaml.safe_load((HOME / "profiles" / "cluster-generic" / "config.yaml").read_text())
    shown = [
        yaml.safe_load(block.text)
        for block in documented.blocks()
        if block.name == "docs/clusters.md: yaml" and "submit-cmd" in block.text
    ]
    assert len(shown) == 3
    assert all(it.keys() <= known.keys() for it in shown)


def test_every_value_that_a_chapter_lets_try_is_legal():
    """What is not is left out of a try. A GPU runs these commands."""
    tried = 0
    for command in documented.commands():
        match = re.match(r"ladder try kernels/(\w+/\d\d_\w+)", command)
        kernel = KERNELS.get(match[1]) if match else None
        if kernel:  # not one that the reader writes
            given = parser().parse_args(shlex.split(command)[1:])
            lists = {
                name: list(map(int, values.split(",")))
                for name, _, values in (it.partition("=") for it in given.set)
            }
            legal = [
                dict(configuration.parameters)
                for configuration, wrong in kernel.expand(lists, [given.type or "float32"])
                if not wrong
            ]
            assert {(name, it[name]) for it in legal for name in lists} == {
                (name, v) for name in lists for v in lists[name]
            }, command
            tried += bool(legal)
    assert tried > 30
