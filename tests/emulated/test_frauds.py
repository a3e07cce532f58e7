"""Those of the planted frauds that need no GPU to be seen: by their result, or by the race."""

from pathlib import Path

import emulator
import planted_frauds
import pytest
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
    name: str, folder: Path, tool: emulator.Tool, problems: list[Problem]
) -> emulator.Outcome:
    kernel = planted_frauds.assemble(folder)[f"cuda/{name}"]
    configuration = Configuration("float32", ())
    programs = lower_kernel(
        "pocl", kernel, configuration, kernel.source(configuration), planted_frauds.INCLUDE, folder
    )
    return emulator.run(
        tool, [launch(problem, kernel, configuration, programs) for problem in problems]
    )


@pytest.mark.parametrize("name", [*FRAUDS, *RIGHT])
def test_a_fraud_is_seen_by_its_result_and_a_control_is_not(name, tmp_path):
    results = outcome(name, tmp_path, "pocl", PROBLEMS).arrays
    complaints = [
        complaint(problem, result) for problem, result in zip(PROBLEMS, results, strict=True)
    ]
    assert any(complaints) == (name in FRAUDS), complaints


def test_the_race_is_seen(tmp_path):
    assert any(
        "data race" in finding
        for finding in outcome("race", tmp_path, "oclgrind", PROBLEMS[1:2]).findings
    )
