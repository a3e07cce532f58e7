"""Whether the GPU's tests pass: every rung through the gauntlet, the planted frauds, and every rung under compute-sanitizer.

    .venv/bin/python studies/checks.py [OPTION...]     on a GPU, with compute-sanitizer on the PATH; about 9 minutes

Runs `pytest -m gpu`, and keeps how every test ended, why one failed, and what the sanitizer's tools counted. Exit status 1 where one failed.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import answer
from answer import command_line, first_gpu
from ladder.core.places import HOME
from ladder.model.kernel_file import discover

MESSAGE = 500
"""Characters that are kept of why a test failed."""


def read(report: Path) -> dict[str, Any]:
    """Of a JUnit report of pytest: tests' outcomes, the messages of failed ones, the sanitizer's
    counts by tool, and the seconds of all.
    """
    tests, messages, seconds = {}, {}, 0.0
    sanitizer: dict[str, Counter[str]] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        tests[name] = "passed"
        for end in case:
            if end.tag == "skipped":
                tests[name] = "skipped"
            elif end.tag in ("failure", "error"):
                tests[name] = "failed"
                # the file is published: where the project lies says nothing to others
                message = (end.get("message") or end.text or "").replace(str(HOME), ".")
                messages[name] = message[:MESSAGE]
        properties = {each.get("name"): each.get("value") for each in case.iter("property")}
        if "tool" in properties:
            # each test of a tool watched a share of the rungs
            counts = {key: int(properties[key] or 0) for key in ("errors", "launches")}
            sanitizer.setdefault(str(properties["tool"]), Counter()).update(counts)
        seconds += float(case.get("time") or 0)
    return {
        "tests": tests,
        "messages": messages,
        "sanitizer": sanitizer,
        "seconds": round(seconds, 1),
    }


def short(measured: Mapping[str, Any]) -> str:
    """Return whether all tests passed and the sanitizer found nothing."""
    outcomes = list(measured["tests"].values())
    errors = sum(counts["errors"] for counts in measured["sanitizer"].values())
    if wrong := outcomes.count("failed") + errors:
        return f"No: {wrong} failed tests or sanitizer errors"
    return f"Yes: {outcomes.count('passed')} tests passed, and compute-sanitizer found no error"


def long(measured: Mapping[str, Any]) -> str:
    """Return how many tests passed, failed and were skipped, and the sanitizer's counts."""
    outcomes = list(measured["tests"].values())
    clean = "; ".join(
        f"{tool}: {counts['errors']} errors in {counts['launches']} launches"
        for tool, counts in measured["sanitizer"].items()
    )
    failed = ", ".join(f"`{name.split('.')[-1]}`" for name in measured["messages"])
    return (
        f"{outcomes.count('passed')} GPU tests passed, {outcomes.count('failed')} "
        f"failed{failed and f' ({failed})'}, "
        f"{outcomes.count('skipped')} skipped; compute-sanitizer on every rung: "
        f"{clean or 'not run'}"
    )


def main() -> None:
    """Run the tests, and write how they ended."""
    _, options = command_line(__doc__).parse_known_args()
    gpu = first_gpu()
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = f"-m pytest -m gpu -q --junit-xml={report} tests/gpu tests/frauds".split()
        subprocess.run([sys.executable, *command, *options], cwd=HOME, check=False)
        measured = read(report)
    rungs = [
        kernel for kernel in discover(HOME).values() if kernel.kind == "cuda" and not kernel.rival
    ]
    question = "Are the kernels correct, and free of stray accesses and races?"
    answer.write(
        "checks",
        question,
        short(measured),
        long(measured),
        gpu,
        measured,
        rungs,
        uuids=[gpu.uuids[0]],
    )
    sys.exit("failed" in measured["tests"].values() or "passed" not in measured["tests"].values())


if __name__ == "__main__":
    main()
