"""Tests of the tests: a fault planted in a real kernel is found, by the means that ought to find
it.
"""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import emulator
import pytest
import yaml
from ladder.measuring.gauntlet import problems
from ladder.model.kernel import Configuration
from ladder.model.problem import Problem
from problems import complaint, few, launch, lower_kernel
from rungs import ALL
from test_emulated import ROOT

FINDINGS = {"race": "data race", "outside": "Invalid", "divergence": "divergence"}
"""What Oclgrind's complaint contains: of a data race, an access outside a buffer, a barrier that not
all threads reach. PoCL finds a wrong `result`.
"""

FAULTS = yaml.safe_load((Path(__file__).parent / "planted_faults.yaml").read_text())


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault["why"])
def test_planted_fault_is_found(fault: dict[str, Any], tmp_path: Path) -> None:
    kernel, layout = ALL[f"cuda/{fault['kernel']}"], fault.get("layout", "nn")
    symptom, header, right = fault["symptom"], fault.get("header", ""), fault["right"]
    configuration = Configuration("float32", tuple(kernel.parameters.items()), layout=layout)
    source = kernel.source(configuration)
    include = tmp_path / "include"
    shutil.copytree(ROOT / "kernels/include", include)
    text = (include / header).read_text() if header else source
    assert right in text, "the kernel has changed: plant the fault anew"
    text = text.replace(right, fault["wrong"], 1)
    if header:
        (include / header).write_text(text)
    else:
        source = text
    tool: emulator.Tool = "pocl" if symptom == "result" else "oclgrind"
    programs = lower_kernel(tool, kernel, configuration, source, include, tmp_path)

    def run(given: Sequence[Problem]) -> emulator.Outcome:
        launches = [launch(problem, kernel, configuration, programs) for problem in given]
        return emulator.run(tool, launches)

    if symptom == "result":
        given = problems("float32", "", layout)
        assert any(map(complaint, given, run(given).arrays))
        return
    every = few("float32", "", layout)
    parts = [every[:2], every[2:]]  # small ones first: Oclgrind is slow
    if symptom == "race":
        # every single one counts: the problem with most tiles along K is enough, or three of them
        deep = max(every, key=lambda problem: problem.k)
        whole = {"STAGES", "SLICES"} & kernel.parameters.keys()
        parts = [[deep if whole else replace(deep, k=min(deep.k, 3 * kernel.parameters["BK"]))]]
    findings: list[str] = []
    for given in parts:
        findings += run(given).findings
        if any(FINDINGS[symptom] in finding for finding in findings):
            return
    pytest.fail(f"not found; instead: {findings}")
