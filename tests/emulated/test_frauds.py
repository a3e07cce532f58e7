"""Those of the planted frauds that need no GPU to be seen: by their result, or by the race."""

from pathlib import Path

import emulator
import planted_frauds
from ladder.model.kernel import Configuration
from ladder.model.problem import Problem
from problems import complaint, launch, lower_kernel

PROBLEMS = [
    Problem(1, 1, 1),
    Problem(17, 33, 40, beta=0.5, padding=3),
    Problem(24, 20, 1300, alpha=-2.0),
    Problem(330, 312, 3),
    Problem(16, 16, 16, offset=1),
]
"""What the gauntlet and a campaign's problems have between them, on numbers that are not whole."""
FRAUDS = [
    "large_k",
    "large_c",
    "one_product",
    "multiples_of_4",
    "unwritten",
    "ldb_for_ldc",
    "reads_c",
    "before_c",
    "low_bits",
    "whole_only",
    "zeroed_workspace",
]
RIGHT = ["right_slices", "unless_poisoned"]


def outcome(
    names: list[str], folder: Path, tool: emulator.Tool, problems: list[Problem]
) -> emulator.Outcome:
    kernels, configuration = planted_frauds.assemble(folder), Configuration("float32", ())
    launches = []
    for name in names:
        kernel = kernels[f"cuda/{name}"]
        given = (kernel, configuration, kernel.source(configuration), planted_frauds.INCLUDE)
        programs = lower_kernel("pocl", *given, folder / name)
        launches += [launch(problem, kernel, configuration, programs) for problem in problems]
    return emulator.run(tool, launches)


def test_frauds_are_seen_by_their_results_and_controls_are_not(tmp_path):
    names = [*FRAUDS, *RIGHT]
    arrays, each = outcome(names, tmp_path, "pocl", PROBLEMS).arrays, len(PROBLEMS)
    told = [complaint(*pair) for pair in zip(PROBLEMS * len(names), arrays, strict=True)]
    seen = [name for at, name in enumerate(names) if any(told[at * each :][:each])]
    assert seen == FRAUDS


def test_the_race_is_seen(tmp_path):
    findings = outcome(["race"], tmp_path, "oclgrind", PROBLEMS[1:2]).findings
    assert any("data race" in finding for finding in findings)
