"""`ladder gate` in a made-up git repository, on simulated GPUs; and how often it errs."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import documented
import jsonschema
import numpy as np
import pytest
import yaml
from ladder.cli import gate as command
from ladder.cli.main import main, parser
from ladder.core.places import HOME
from ladder.core.stats import student_t
from ladder.measuring import gate
from ladder.measuring.protocol import Candidate
from ladder.model.problem import Problem
from planted import C_RIGHT, c_kernel, written
from trying import Trials, stay_in_process

SCHEMA = json.loads((HOME / "workflow" / "schemas" / "gate.schema.json").read_text())
PROBLEMS = "campaign: default\nproblems: {cuda: [[16, 16, 16]]}\n"


@pytest.fixture
def repository(tmp_path, monkeypatch, capsys, gpus):
    """A git repository without kernels, and simulated GPUs."""
    stay_in_process(monkeypatch)
    monkeypatch.setattr(gate, "LIMITS", replace(gate.LIMITS, sample_us=0, max_samples=4))
    made = Trials(tmp_path / "root", monkeypatch, capsys)
    written(made.root / "config" / "config.yaml", PROBLEMS)
    written(made.root / "kernels" / "include" / "a.cuh", "// a\n")
    git("init", "--quiet")
    return made


def git(*arguments):
    own = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *own, *arguments], check=True, stdout=subprocess.DEVNULL)


def commit():
    git("add", "--all")
    git("commit", "--quiet", "--allow-empty", "-m", "a commit")


def gated(repository, *arguments, code=0):
    """Run a gate on the small problem; returns its report, which keeps to the schema."""
    repository.ladder("gate", *arguments, "--json", "report.json", code=code)
    report = json.loads((repository.root / "report.json").read_text())
    jsonschema.validate(report, SCHEMA)
    assert report["exit_code"] == code
    return report


def write(repository, does, header=""):
    """Write the kernel; without what it does, remove it."""
    path = repository.root / repository.write(does or "", header)
    if does is None:
        path.unlink()


def change(repository, base, head, *headers):
    """Commit the kernel of the base, and write that of the head to the working tree."""
    write(repository, base, *headers[:1])
    commit()
    write(repository, head, *headers[1:])


SAME = "not distinguishable"
NO = "not compared"
ODD = "needs: [M % 16 == 1]\n"
BAD = "hue: red\n"
BY_P = "parameters: {P: 1}\n"


@pytest.mark.parametrize(
    ("base", "head", "code", "verdict", "reason"),
    [
        ("right()", "right()  # otherwise", 0, SAME, ""),
        ("right()", "slow(1.1); right()", 3, "slower", ""),
        ("right()", "slow(1.03); right()", 0, "slower", ""),
        ("slow(1.05); right()", "right()", 0, "faster", ""),
        ("right()", "slow(1.006); right()", 0, "slower", ""),
        ("right()", "right(alpha=2)", 1, NO, "base correct; head incorrect: on M="),
        ("right(alpha=2)", "right()", 0, NO, "base incorrect: on M="),
        ("right()", "right(); c[0, 0] += 9 * timed", 1, NO, "head incorrect: while timed: "),
        ("right()", "hang() if timed else right()", 1, NO, "head timeout: while timed: no answer"),
        ("right(); c[0, 0] += 9 * timed", "right()", 0, NO, "base incorrect: while timed: "),
        (
            "right()",
            "right(); c[0, 0] += (p.m, p.n, p.k, p.distribution) == (16, 16, 16, 'exact')",
            1,
            NO,
            "base correct; head incorrect: C[0][0] is ",
        ),
        (None, "right()", 0, "new", "base absent; head correct"),
        (None, "right(alpha=2)", 1, "new", "base absent; head incorrect: "),
        ("right()", None, 0, "removed", "head absent"),
    ],
)
def test_what_a_gate_says(repository, base, head, code, verdict, reason):
    change(repository, base, head)
    report = gated(repository, "HEAD", code=code)
    (row,) = report["rows"]
    assert (verdict in (NO, "removed")) == (
        "Removed or not compared: cuda/mine.\n" in command.markdown(report)
    )
    assert (row["kernel"], row["element_type"]) == ("cuda/mine", "float32")
    assert row["verdict"] == verdict
    assert reason in row["reason"] and bool(reason) == bool(row["reason"])
    assert (row["ratio"] is None) == (verdict in (NO, "new", "removed")) == (row["times"] == [])


@pytest.mark.parametrize(
    ("base", "head", "code", "reason"),
    [
        (ODD, ODD + "label: odd\n", 0, "base not_supported: needs M % 16 == 1; head not_supported"),
        ("", ODD, 1, "base correct; head not_supported: needs M % 16 == 1"),
        (BAD, "", 0, "base absent; head correct"),
        (BY_P, BY_P + "requires: [P > 1]\n", 1, "base correct; head skipped: requires P > 1"),
    ],
)
def test_a_header_that_leaves_one_commit_without_times(repository, base, head, code, reason):
    change(repository, "right()", "right()", base, head)
    (row,) = gated(repository, "HEAD", code=code)["rows"]
    assert row["verdict"] == ("new" if base == BAD else NO)
    assert reason in row["reason"]


@pytest.mark.parametrize("options", [(), ("--kernels", "*/mine"), ("--kernels", "*/renamed")])
@pytest.mark.parametrize(
    ("does", "verdict", "code"), [("right()", SAME, 0), ("slow(1.1); right()", "slower", 3)]
)
def test_a_renamed_kernel_is_compared_with_itself(repository, options, does, verdict, code):
    change(repository, "right()", None)
    repository.write(does, name="renamed")
    report = gated(repository, "HEAD", *options, code=code)
    (row,) = report["rows"]
    assert (row["kernel"], row["was"], row["verdict"]) == ("cuda/renamed", "cuda/mine", verdict)
    assert "| cuda/renamed (was cuda/mine) |" in command.markdown(report)


def test_a_kernel_that_gave_way_to_another_is_removed(repository):
    change(repository, f"right()  # {'x' * 999}", None)
    repository.write("right()", name="other")
    report = gated(repository, "HEAD")
    verdicts = {row["kernel"]: row["verdict"] for row in report["rows"]}
    assert verdicts == {"cuda/mine": "removed", "cuda/other": "new"}


def test_an_element_type_that_the_head_lacks_is_removed(repository):
    types = "element_types: [float32, float64]\n"
    change(repository, "right()", "right()", types)
    text = PROBLEMS + types
    problems = str(written(repository.root / "both.yaml", text))
    rows = gated(repository, "HEAD", "--problems", problems)["rows"]
    verdicts = {row["element_type"]: row["verdict"] for row in rows}
    assert verdicts == {"float32": SAME, "float64": "removed"}


@pytest.mark.parametrize(("batch", "new"), [(1, 1), ([1, 2], 3)])
def test_a_kernel_is_gated_in_each_layout_and_batch_that_a_commit_has_it_in(repository, batch, new):
    headers = "layouts: [nn, nt]\n", "layouts: [nn, tn]\nbatch: true\n"
    change(repository, "right()", "right()", *headers)
    text = f"{PROBLEMS}layout: [nn, nt, tn, tt]\nbatch: {batch}\n"
    problems = str(written(repository.root / "all.yaml", text))
    rows = gated(repository, "HEAD", "--problems", problems)["rows"]
    found = sorted((row["problem"], row["verdict"]) for row in rows)
    assert found == [*[("", "new")] * new, ("", "removed"), ("16", SAME)]


def test_what_only_the_control_failed_at_is_measured_again():
    made = pair()
    made.sides[gate.CONTROL].status, made.sides[gate.CONTROL].reason = "timeout", "no answer"
    said = gate.judge(made, 1, 0.01)
    assert (said.result, said.reason) == (
        "measure again",
        "the base's own binary timeout: no answer",
    )


@pytest.mark.parametrize(("base", "code"), [("", 1), ("precision: tf32\n", 0)])
def test_a_head_may_not_ask_for_wider_bounds_than_the_base(repository, base, code):
    rounded = "right(); c *= 1 + 1e-5 * (p.distribution == 'uniform')"
    change(repository, "right()", rounded, base, "precision: tf32\n")
    (row,) = gated(repository, "HEAD", code=code)["rows"]
    assert row["head"]["status"] == ("incorrect" if code else "correct")


def test_only_what_differs_is_timed_unless_it_is_named(repository):
    header = repository.root / "kernels" / "include" / "a.cuh"
    write(repository, 'right()\n#include "a.cuh"')
    repository.write("right()", "element_types: [float64]\n", "other")
    commit()
    report = gated(repository, "HEAD")
    assert report["rows"] == [] and command.markdown(report).endswith("No kernel differs.")
    header.write_text("// b\n")
    (row,) = gated(repository, "HEAD")["rows"]
    assert (row["verdict"], row["reason"]) == (SAME, "the same machine code")
    assert row["times"] == [] and row["base"]["status"] == row["head"]["status"] == "compiled"
    report = gated(repository, "HEAD", "--kernels", "cuda/mine", "*/other")
    kernels = [(row["kernel"], row["element_type"]) for row in report["rows"]]
    assert kernels == [("cuda/mine", "float32"), ("cuda/other", "float64")]
    assert all(row["times"] for row in report["rows"])


def test_two_commits_are_measured_as_they_are_and_the_checkout_stays(repository):
    """Whatever lies in the working tree; which is the head only if none is named."""
    write(repository, "right()", BY_P)
    commit()
    write(repository, "slow(1.1); right()", "parameters: {P: 2}\n")
    commit()
    write(repository, "right(alpha=2)")

    def state():
        asked = ("status", "--porcelain"), ("worktree", "list"), ("stash", "list"), ("branch",)
        return [subprocess.check_output(["git", *words]) for words in asked]

    before = state()
    report = gated(repository, "HEAD~1..HEAD", code=3)
    (row,) = report["rows"]
    assert [row[side]["configuration"] for side in ("base", "head")] == ["P=1", "P=2"]
    assert (report["head"]["given"], report["head"]["dirty"]) == ("HEAD", False)
    (repository.root / "report.json").unlink()
    assert state() == before
    report = gated(repository, "HEAD~1", code=1)
    assert (report["head"]["given"], report["head"]["dirty"]) == ("", True)
    assert "head the working tree (" in command.markdown(report)
    assert ", with changes)" in command.markdown(report)


def test_a_commit_has_all_that_it_is_measured_with(repository):
    """An archive leaves some of a commit out, and the working tree has more than a commit."""
    write(repository, 'right()\n#include "new.cuh"')
    commit()
    kernels = repository.root / "kernels"
    written(kernels / "include" / "new.cuh", "// new\n")
    (kernels / "cuda" / ".#mine.cu").symlink_to("nobody@nowhere.1")  # as an editor does
    message = f"mine.cu: includes {kernels}/include/new.cuh, which its commit does not have"
    assert message in repository.ladder("gate", "HEAD", code=2)
    (kernels / "cuda" / ".#mine.cu").unlink()
    commit()
    assert gated(repository, "HEAD")["rows"] == []
    (kernels / "cuda" / "new.cu").symlink_to("mine.cu")
    assert "working tree: kernels/cuda/new.cu: a link" in repository.ladder("gate", "HEAD", code=2)
    (kernels / "cuda" / "new.cu").unlink()
    attributes = written(kernels / ".gitattributes", "cuda/mine.cu export-ignore\n")
    commit()
    message = "kernels/cuda/mine.cu: a link, a submodule, or excluded from archives; expected files"
    assert message in repository.ladder("gate", "HEAD~1..HEAD", code=2)
    attributes.unlink()
    (kernels / "cuda" / "mine.cu").rename(kernels / "other")
    (kernels / "cuda" / "mine.cu").symlink_to("../other")
    commit()
    assert message in repository.ladder("gate", "HEAD", code=2)


def test_a_gate_on_a_busy_gpu_or_without_time_knows_nothing(repository, gpus):
    change(repository, "right()", "slow(2); right()")
    (row,) = gated(repository, "HEAD", "--budget", "0", code=5)["rows"]
    assert row["reason"].startswith("1 of 6 undisturbed processes: try more --budget")
    gpus.write_text(json.dumps(json.loads(gpus.read_text()) | {"others": [1]}))
    (row,) = gated(repository, "HEAD", code=5)["rows"]
    assert (row["verdict"], row["times"]) == ("measure again", [])
    assert row["reason"].startswith("0 of 6 undisturbed processes")


def test_the_report_goes_where_it_is_asked_for(repository):
    change(repository, "right()", "fail('a | b\\n < c')")
    asked = ["gate", "HEAD", "--json", "-", "--markdown", "table.md"]
    with pytest.raises(SystemExit, match="1"):
        main(asked)
    printed = repository.capsys.readouterr()
    report = json.loads(printed.out)
    assert printed.err == f"{command.markdown(report)}\n"
    assert (repository.root / "table.md").read_text() == printed.err
    (row,) = (line for line in printed.err.splitlines() if line.startswith("| cuda/mine |"))
    assert row.count(" | ") == 4 and "a \\| b &lt; c" in row


def test_the_commands_of_the_page_run(repository):
    """Where `v1` and `v2` are tags, and a kernel of the CPU does not differ."""
    for tag, does in (("v1", "right()"), ("v2", "slow(0.9); right()")):
        write(repository, does)
        commit()
        git("tag", tag)
    git("branch", "-M", "main")
    run = [each for each in documented.commands() if each.startswith("ladder gate ")]
    assert len(run) > 4
    for text in (f"{gate.MOST} fresh processes", f"at least {gate.FEWEST}", "0.05/n"):
        assert text in documented.PAGES["docs/gate.md"]
    for each in run:
        printed = repository.ladder(
            *shlex.split(each.replace("cpu/", "cuda/").replace("BASE", "v1"))[1:]
        )
        assert "**Gate: passed.**" in printed


def action(folder, **inputs):
    """Run the one step of the action in a folder; returns its exit code and its summary."""
    about = yaml.safe_load((HOME / ".github" / "actions" / "gate" / "action.yml").read_text())
    (block,) = (block for block in documented.blocks() if block.name == "docs/gate.md: yaml")
    *_, used = yaml.safe_load(block.text)["jobs"]["gate"]["steps"]
    defaults = {name: given.get("default") for name, given in about["inputs"].items()}
    assert used["with"].keys() <= defaults.keys()
    (step,) = about["runs"]["steps"]
    assert "${{" not in step["run"]  # an input is never read as a command
    env = {name: text[len("${{ inputs.") : -len(" }}")] for name, text in step["env"].items()}
    given = defaults | used["with"] | inputs
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env=os.environ
        | {name: given[own] for name, own in env.items()}
        | {"GITHUB_STEP_SUMMARY": str(folder / "summary")},
        check=False,
    )
    return done.returncode, (folder / "summary").read_text()


def test_the_action_passes_its_inputs_on(tmp_path):
    """To a command that notes what it was given."""
    script = '#!/bin/sh\nprintf "%s\\n" "$@" > given\necho table > "$6"\nexit 3\n'
    ladder = written(tmp_path / "ladder", script, 0o755)
    written(tmp_path / "cuda" / "a_file_that_the_pattern_matches", "")
    found = action(tmp_path, base="a; b", kernels="cuda/* x", ladder=str(ladder))
    assert found == (3, "table\n")
    asked = parser().parse_args((tmp_path / "given").read_text().splitlines())
    assert (asked.commits, asked.fail_if_slower) == ("a; b..HEAD", 0.02)
    assert asked.kernels == ["cuda/*", "x"]


def test_the_action_in_a_repository(tmp_path, monkeypatch):
    """With the real command, which finds nothing to measure."""
    written(tmp_path / "kernels" / "cpu" / "mine.c", c_kernel("mine", C_RIGHT))
    monkeypatch.chdir(tmp_path)
    git("init", "--quiet")
    commit()
    ladder = str(Path(sys.executable).with_name("ladder"))
    for base, code, summary in (("HEAD", 0, "**Gate: passed.** base"), ("", 2, "")):
        found, table = action(tmp_path, base=base, kernels="", ladder=ladder)
        assert found == code and table.startswith(summary)
        (tmp_path / "summary").unlink()


@pytest.mark.slow
def test_a_gate_with_real_workers(tmp_path, monkeypatch):
    """On a machine that may be busy."""
    path = tmp_path / "kernels" / "cpu" / "mine.c"
    written(path, c_kernel("mine", C_RIGHT))
    problems = written(tmp_path / "my.yaml", PROBLEMS.replace("cuda", "cpu"))
    monkeypatch.chdir(tmp_path)
    git("init", "--quiet")
    commit()
    written(path, c_kernel("mine", f"for (volatile int wait = 0; wait < 99999; ++wait);{C_RIGHT}"))
    command = [sys.executable, "-m", "ladder", "gate", "HEAD", "--problems", str(problems)]
    done = subprocess.run([*command, "--json", "-"], stdout=subprocess.PIPE, check=False)
    report = json.loads(done.stdout)
    jsonschema.validate(report, SCHEMA)
    (row,) = report["rows"]
    assert row["base"]["status"] == row["head"]["status"] == "correct"
    assert row["result"] in ("slower", "measure again")
    assert done.returncode == report["exit_code"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "'nonsense^{commit}': fatal: Needed a single revision; expected BASE or "),
        (["HEAD..nonsense"], "'nonsense^{commit}': fatal: Needed a single revision; expected "),
        (["..HEAD"], "'^{commit}': fatal: Needed a single revision; expected BASE or BASE..HEAD"),
        (["--output=x"], "the following arguments are required: BASE"),
        (["HEAD", "--kernels", "cuda/mime"], "--kernels: got cuda/mime; did you mean `cuda/mine`?"),
        (["HEAD~1..HEAD"], "Error: kernels/cuda/mine.cu: header: unknown key 'hue'"),
        (["HEAD", "--fail-if-slower", "0.02"], "got '0.02'; expected per cent, such as 2%"),
        (["HEAD", "--problems", "cpu.yaml"], "problems.cuda: got none; expected some to measure"),
    ],
)
def test_what_a_gate_refuses(repository, arguments, message):
    write(repository, "right()")
    written(repository.root / "cpu.yaml", PROBLEMS.replace("cuda", "cpu"))
    commit()
    write(repository, "right()", BAD)
    commit()
    write(repository, "right() # changed")
    assert message in repository.ladder("gate", *arguments, code=2)


def test_a_gate_needs_a_repository_and_a_gpu(repository, monkeypatch):
    change(repository, "right()", "right() # changed")
    monkeypatch.setattr(command, "detect_gpus", list)
    output = repository.ladder("gate", "HEAD", code=2)
    assert "cannot time CUDA kernels: no usable GPU was found here" in output
    with monkeypatch.context() as without:
        without.setenv("PATH", "")
        output = repository.ladder("gate", "HEAD", code=2)
    assert output == "Error: git: No such file or directory; a gate needs it: install git\n"
    shutil.rmtree(repository.root / ".git")
    assert "not a git repository" in repository.ladder("gate", "HEAD", code=2)


def test_an_interrupt_ends_a_gate_at_once(repository, virtual_clock, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    # what an interrupted command leaves behind is for its own process
    monkeypatch.setattr(signal, "signal", lambda *handler: None)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    change(repository, "right()", "hang()")
    virtual_clock.after(5, interrupt)
    start = virtual_clock.now()
    repository.ladder("gate", "HEAD", code=130)
    assert virtual_clock.now() - start < 6


def pair(*processes):
    """A pair whose sides are correct, with the times of base, control and head of processes."""
    sides = {role: gate.Side("correct", "", Candidate(role)) for role in gate.ROLES}
    times = [dict(zip(gate.ROLES, each, strict=True)) for each in processes]
    return gate.Pair("cuda/mine", "float32", sides, Problem(16, 16, 16), times)


STEADY, NOISY = (0.999, 1.0, 1.001), (0.95, 1.0, 1.05)


@pytest.mark.parametrize(
    ("control", "head", "noise", "verdict", "result"),
    [
        (1.0, 1.0, STEADY, "not distinguishable", "passed"),
        (1.0, 1.005, STEADY, "slower", "passed"),
        (1.0, 1.02, STEADY, "slower", "slower"),
        (1.0, 0.98, STEADY, "faster", "passed"),
        (1.02, 1.02, STEADY, "measure again", "measure again"),
        (0.98, 1.0, STEADY, "measure again", "measure again"),
        (1.0, 1.0, NOISY, "measure again", "measure again"),
        (1.0, 1.2, NOISY, "slower", "slower"),
        (1.0, 0.9, NOISY, "faster", "passed"),
    ],
)
def test_the_verdict_on_times(control, head, noise, verdict, result):
    measured = pair(*([[1.0], [control * by], [head * by]] for by in noise * 3))
    said = gate.judge(measured, 1, 0.01)
    assert (said.verdict, said.result) == (verdict, result)


PROCESS, ROUND = 0.006, 0.004
"""Standard deviations of the logarithm of a time: of a binary in a process, and of a round."""
GATES, PAIRS = 200, 4
OUTCOME = {"status": "correct", "reference_us": [1.0], "repeats": 1, "other_processes": 0}


class Drawn:
    """A session whose times are drawn from the model of `stats.between_processes`; the head takes
    longer by a factor. Others may lengthen half of the times, each by up to as much again.
    """

    reference = "blas_1"

    def __init__(self, factor, disturbed):
        self.factor, self.disturbed, self.random = factor, disturbed, np.random.default_rng(1)

    def renew(self):
        """Begin another process: what a binary takes is drawn anew for each."""

    def time_group(self, problem, candidates, limits, seed, keep, *, together, known):
        random, rounds = self.random, limits.max_samples
        for candidate in candidates:
            us = self.factor if candidate.name == gate.HEAD else 1.0
            us *= np.exp(random.normal(0, PROCESS) + random.normal(0, ROUND, rounds))
            if self.disturbed:
                us *= 1 + np.maximum(0, random.uniform(-1, 1, rounds))
            keep(candidate, OUTCOME | {"samples_us": us})


def test_more_comparisons_need_and_get_more_processes():
    """So many that by chance, all of a pair seldom differ in the same direction."""
    session, pairs = Drawn(1.0, False), [pair() for _ in range(400)]
    gate.measure(session, pairs, 60, session.random, lambda text: None)
    (processes,) = {len(each.processes) for each in pairs}
    assert 400 * 0.5 ** (processes - 1) <= gate.ERROR_RATE
    pairs[0].processes.pop()
    assert gate.judge(pairs[0], 400, 0.01).verdict == "measure again"


class Repeating(Drawn):
    """Repeats the head more often in a sample than the base, unless it is told otherwise."""

    def time_group(self, problem, candidates, limits, seed, keep, *, together, known):
        def told(candidate, outcome):
            usual = 4 if candidate.name == gate.HEAD else 3
            keep(candidate, outcome | {"repeats": known[candidate][1] if known else usual})

        assert not known or known.keys() == {*candidates, Candidate(self.reference)}
        super().time_group(problem, candidates, limits, seed, told, together=together, known=known)


def test_samples_of_different_lengths_do_not_count_and_become_alike():
    (only,), begun = [pair()], []
    gate.measure(Repeating(1.0, False), [only], 60, np.random.default_rng(1), begun.append)
    assert (len(only.processes), len(begun)) == (gate.MOST, gate.MOST + 1)


class Ordered(Drawn):
    """What is loaded first takes longer; some processes are disturbed."""

    def __init__(self):
        super().__init__(1.0, False)
        self.firsts = []

    def time_group(self, problem, candidates, limits, seed, keep, *, together, known):
        others = int(self.random.random() < 0.3)
        first = next(iter(candidates)).name
        self.firsts += [] if others else [first]
        for candidate in candidates:
            us = 1.02 if candidate.name == first else 1.0
            keep(candidate, OUTCOME | {"samples_us": [us] * 4, "other_processes": others})


def test_each_side_is_loaded_first_as_often():
    session, only = Ordered(), pair()
    gate.measure(session, [only], 60, session.random, lambda text: None)
    assert len(only.processes) == gate.MOST
    half = gate.MOST // 2
    for firsts in (session.firsts[:half], session.firsts[half:]):
        assert sorted(firsts) == sorted([*gate.ROLES] * 2)
    assert gate.judge(only, 1, 0.01).ratio[0] == pytest.approx(1)


def judged(factor, disturbed=False):
    """The verdicts on the pairs of each of the gates of a head that takes longer by a factor."""
    session, made = Drawn(factor, disturbed), []
    for _ in range(GATES):
        pairs = [pair() for _ in range(PAIRS)]
        gate.measure(session, pairs, 60, session.random, lambda text: None)
        made.append([gate.judge(each, PAIRS, 0.01) for each in pairs])
    return made


@pytest.mark.parametrize("disturbed", [False, True])
def test_unchanged_code_is_called_different_in_no_more_gates_than_said(disturbed):
    made = judged(1.0, disturbed)
    wrong = sum(any(each.verdict in ("faster", "slower") for each in pairs) for pairs in made)
    assert wrong <= gate.ERROR_RATE * GATES
    ratios = np.log([each.ratio[0] for pairs in made for each in pairs])
    assert abs(ratios.mean()) < 3 * ratios.std() / np.sqrt(ratios.size)


@pytest.mark.parametrize(("factor", "least"), [(1.02, 0.2), (1.05, 0.99)])
def test_a_slowdown_is_found_as_often_as_computed(factor, least):
    """By the model alone: medians of so many ratios, and Student's t of the processes."""
    found = [each.result == "slower" for pairs in judged(factor) for each in pairs]
    random, rounds = np.random.default_rng(2), gate.LIMITS.max_samples
    base, head = np.exp(random.normal(0, PROCESS, (2, 5_000, gate.MOST, 1))) * np.exp(
        random.normal(0, ROUND, (2, 5_000, gate.MOST, rounds))
    )
    values = np.median(np.log(base / head), -1)
    half = student_t(gate.MOST - 1, 1 - gate.ERROR_RATE / PAIRS) * values.std(-1, ddof=1)
    most = values.mean(-1) + half / np.sqrt(gate.MOST) - np.log(factor)
    computed = float((most < -np.log(1.01)).mean())
    assert computed > least
    assert np.mean(found) == pytest.approx(computed, abs=3 * np.sqrt(0.25 / len(found)))
