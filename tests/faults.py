"""Kernels that misbehave, and what becomes of them: planted by the tests, told in docs/faults.md, which `python tests/faults.py` writes."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from ladder.measure import GROUP
from planted import C_RIGHT, CU_RIGHT


@dataclass(frozen=True)
class Fault:
    """What is planted, and the status and the piece of a reason that its rows get."""

    what: str
    body: str
    status: str
    reason: str = ""


def one_kernel(table: Mapping[str, Fault]) -> str:
    """A C kernel's body whose configuration F = n has the n-th fault of a table."""
    return "".join(f"if (F == {n}) {{ {fault.body} return; }}\n" for n, fault in enumerate(table.values()))


def while_timing(body: str) -> str:
    """C that strikes at the 20th call: the first ones verify the kernel, and find it right."""
    return "static int calls = 0; if (++calls == 20) {" + body + "}" + C_RIGHT


ENDLESS = "for (volatile int i = 0; i >= 0;) i = 1;"
CPU = {
    "900_right": Fault("nothing: the control", C_RIGHT, "correct"),
    "901_wrong": Fault("a wrong result", C_RIGHT.replace("k < K", "k < K - 1"), "incorrect", "off by"),
    "902_nan": Fault("NaN in a row of C", C_RIGHT.replace("Acc sum = 0", "Acc sum = m == 3 ? 0.0 / 0.0 : 0"), "incorrect", "NaN"),
    "903_unwritten": Fault("a column of C not written", C_RIGHT.replace("n < N", "n < N - 1"), "incorrect", "never written"),
    "904_stray": Fault("a write before C", C_RIGHT + "C[-1] = 1;", "incorrect", "outside C"),
    "905_segfault": Fault("an illegal address", "*(volatile int *)8 = 1;" + C_RIGHT, "launch_error", "killed by signal 11"),
    "906_exit": Fault("the host process ends", "exit(3);", "launch_error", "exit code 3"),
    "907_abort": Fault("the host process aborts", "abort();", "launch_error", "killed by signal 6"),
    "908_endless": Fault("an infinite loop", ENDLESS, "timeout", "no answer within 3 s"),
    "910_late_segfault": Fault(
        "an illegal address at the 20th call",
        while_timing("*(volatile int *)8 = 1;"),
        "launch_error",
        "while timed: the child process was killed by signal 11",
    ),
    "911_late_endless": Fault(
        "an infinite loop at the 20th call", while_timing(ENDLESS), "timeout", "while timed: no answer within 3 s"
    ),
    "912_late_exit": Fault(
        "the host process ends at the 20th call",
        while_timing("exit(3);"),
        "launch_error",
        "while timed: the child process ended with exit code 3",
    ),
    "915_late_wrong": Fault(
        "a wrong result from the 20th call on",
        "static int calls = 0; if (++calls >= 20) K -= 1;" + C_RIGHT,
        "incorrect",
        "after it was timed: an element is off by",
    ),
    "913_killed": Fault("the host process kills itself, again and again", "raise(9);", "launch_error", "killed by signal 9"),
    "914_killed_once": Fault(
        "the host process is killed once, as from outside",
        'FILE *f = fopen("killed-once", "wx"); if (f) { fclose(f); raise(9); }' + C_RIGHT,
        "correct",
    ),
}
"""Of the CPU: configurations of one kernel."""
SYNTAX = Fault("source that does not compile", "this does not compile;", "compile_error", "error:")

CULPRIT = 4
"""Of ten configurations, the one that misbehaves."""


FAKE = {
    "illegal": Fault(
        "an illegal address",
        "raise Failed('an illegal memory access was encountered')",
        "launch_error",
        "an illegal memory access",
    ),
    "misaligned": Fault("a misaligned access", "raise Failed('misaligned address')", "launch_error", "misaligned address"),
    "launch": Fault(
        "a launch failure", "raise Failed('too many resources requested for launch')", "launch_error", "too many resources"
    ),
    "refused": Fault(
        "too large for the device", "raise Refused('not_supported', 'no memory left')", "not_supported", "no memory left"
    ),
    "hang": Fault("an infinite loop", "time.sleep(99)", "timeout", "no answer within 2 s"),
    "abort": Fault("a crash of the driver in the host process", "os.abort()", "launch_error", "killed by signal 6"),
    "python": Fault(
        "an error that nobody foresaw", "1 / 0", "launch_error", "ended with exit code 1: ZeroDivisionError: division by zero"
    ),
}
"""Of a fake GPU, configurations among others, at their verification and while they are timed."""

CU_CALLS = (
    "  static int calls = 0;\n  const int earlier = row == 0 && col == 0 ? atomicAdd(&calls, 1) : 0;\n"
    "  const bool late = earlier == 30;\n"
)
GPU = {
    "900_right": Fault("nothing: the control", CU_RIGHT, "correct"),
    "901_wrong": Fault("a wrong result", CU_RIGHT.replace("k < K", "k < K - (K > 100)"), "incorrect", "off by"),
    "902_nan": Fault(
        "NaN in a row of C", CU_RIGHT.replace("Acc sum = 0", 'Acc sum = row == 3 ? Acc(nanf("")) : Acc(0)'), "incorrect", "NaN"
    ),
    "903_unwritten": Fault(
        "a column of C not written", CU_RIGHT.replace("col >= N", "col >= N - 1"), "incorrect", "never written"
    ),
    "904_stray": Fault("a write before C", CU_RIGHT + "  if (row == 0 && col == 0) C[-1] = 1;\n", "incorrect", "outside C"),
    "905_illegal": Fault(
        "an illegal address",
        "  if (row == 0 && col == 0) *(volatile float*)(1ull << 60) = 1;\n" + CU_RIGHT,
        "launch_error",
        "illegal",
    ),
    "906_misaligned": Fault(
        "a misaligned access",
        "  if (row == 0) *(float4*)(C + 1) = make_float4(1, 2, 3, 4);\n" + CU_RIGHT,
        "launch_error",
        "misaligned",
    ),
    "907_endless": Fault("an infinite loop", "  for (volatile int i = 0; i >= 0;) i = 1;\n" + CU_RIGHT, "timeout", "no answer"),
    "908_trap": Fault("a launch failure (`__trap()`)", "  if (row == 0) __trap();\n" + CU_RIGHT, "launch_error"),
    "909_syntax": Fault("source that does not compile", "  this does not compile;\n" + CU_RIGHT, "compile_error", "error"),
    "910_late_illegal": Fault(
        "an illegal address at a later launch",
        CU_CALLS + "  if (late) *(volatile float*)(1ull << 60) = 1;\n" + CU_RIGHT,
        "launch_error",
        "while timed: .*illegal",
    ),
    "911_late_endless": Fault(
        "an infinite loop at a later launch",
        CU_CALLS + "  if (late) for (volatile int i = 0; i >= 0;) i = 1;\n" + CU_RIGHT,
        "timeout",
        "while timed: no answer",
    ),
    "912_late_wrong": Fault(
        "a wrong result from a later launch on",
        "  static int calls[2];  // each of the two problems' own: the first must not spoil the second's first launch\n"
        "  if (row == 0 && col == 0) atomicAdd(&calls[K == 127], 1);\n"
        "  const int depth = K - (calls[K == 127] > 30);\n" + CU_RIGHT.replace("k < K", "k < depth"),
        "incorrect",
        "after it was timed: .*off by",
    ),
}
"""Of a real GPU, by the name of the kernel."""

MACHINE = {
    "full": Fault(
        "a disk that fills while a journal is written",
        "test_a_full_disk_is_one_clear_message_and_nothing_is_lost",
        "error",
        "cannot be written: No space left on device; what was finished before is kept, run again once it can be",
    ),
    "read_only": Fault(
        "a results folder that cannot be written",
        "test_a_folder_that_cannot_be_written_is_one_clear_message",
        "error",
        "Failed to create output directory results/smoke/build/",
    ),
    "damaged": Fault(
        "a journal with a line that is not one of ours",
        "test_a_damaged_journal_stops_its_job_with_a_clear_message",
        "error",
        "line 1: damaged; expected a checksum and a record. Remove that line to keep the others and measure it again",
    ),
    "cut": Fault(
        "a journal whose last line was cut short by a kill",
        "test_every_cut_through_the_last_line_loses_that_line_only",
        "mended",
    ),
    "rotten": Fault(
        "a sample file that was changed after it was written",
        "test_a_parquet_file_that_rotted_is_told",
        "error",
        "Remove it and run again: what a journal beside it has is kept",
    ),
    "held": Fault(
        "a device that another run measures on, of this or another user",
        "test_a_device_has_one_timer_whoever_asks",
        "waits",
        "in use by another run; waiting until it is free",
    ),
    "beside": Fault(
        "another process that computes on the GPU",
        "test_what_was_timed_beside_another_process_is_marked",
        "marked",
        "timed while 2 other process(es) computed on the device",
    ),
}
"""Of the machine; `body` is the test that plants it and looks for the message."""

TABLES: list[tuple[str, str, Mapping[str, Fault]]] = [
    ("C kernels, run for real", "tests/workflow/test_faults.py, in a campaign with all of them", CPU | {"syntax": SYNTAX}),
    (
        "A fake GPU behind `devices.Device`",
        "tests/workflow/test_faults.py, among ten configurations, at their verification and while they are timed",
        FAKE,
    ),
    ("CUDA kernels on a real GPU", "tests/gpu/test_gpu.py (`pytest -m gpu`), in a campaign with all of them", GPU),
]


def document() -> str:
    """The page docs/faults.md."""
    lines = [
        "# Faults, and what becomes of them",
        "",
        "Every fault here is planted by a test, which fails unless what is told here comes of it and everything else is measured.",
        "`python tests/faults.py` writes this page from the tests' own tables and from the committed counts of two long runs.",
    ]
    for title, where, table in TABLES:
        lines += ["", f"## {title}", "", f"Planted in {where}.", "", "| fault | status | the reason says |", "|---|---|---|"]
        lines += [f"| {fault.what} | `{fault.status}` | {fault.reason.replace('.*', '…')} |" for fault in table.values()]
    lines += ["", "## The machine", "", "| fault | what happens | message | test |", "|---|---|---|---|"]
    lines += [f"| {fault.what} | {fault.status} | {fault.reason} | `{fault.body}` |" for fault in MACHINE.values()]
    lines += ["", "## Killed at random moments", "", *killed(json.loads((COUNTED / "kill.json").read_text()))]
    lines += ["", "## Hostile input", "", *fuzzed(json.loads((COUNTED / "fuzz.json").read_text()))]
    lines += ["", "## Stale results", ""]
    lines += [
        "What a change makes the next run do again, on a campaign with two CUDA kernels (on a fake GPU) and one of the CPU; each",
        "",
    ]
    lines[-1:] = ["line is a test of `tests/workflow/test_stale.py`.", "", "| what changes | what is run again |", "|---|---|"]
    lines += [f"| {what} | {', '.join(sorted(jobs)) or 'nothing'} |" for what, jobs in stale().items()]
    return "\n".join(lines) + "\n"


def killed(counts: Mapping[str, Any]) -> list[str]:
    """What `tests/kill.py` counted."""
    targets = ", ".join(f"{number} {target}" for target, number in counts["killed"].items())
    during = ", ".join(f"{number} during {rule}" for rule, number in counts["during"].items())
    return [
        f"`python tests/kill.py {counts['kills']} {counts['seed']}` sent {counts['kills']} SIGKILLs at random moments of a campaign of "
        f"{counts['measurements_a_campaign']} measurements",
        f"({targets}; {during}), and ran it again after each. {counts['campaigns_finished']} campaigns came to their end; each then had the",
        "measurements, tables and figures of an undisturbed one, and every sample that a journal had when a kill struck:",
        f"{counts['measurements_lost']} measurements lost. {counts['measurements_begun_again']} were begun a second time: those that "
        "were under way,",
        f"up to {GROUP} at a time, since configurations are timed side by side in the same rounds. "
        f"The counts: [kill.json](../results/published/robustness/kill.json).",
    ]


def fuzzed(counts: Mapping[str, Any]) -> list[str]:
    """What `tests/fuzz.py` counted."""
    each = [
        f"{name} ({counts[name]['answered']} answered, {counts[name]['refused']} refused)"
        for name in ("expressions", "headers", "campaigns")
    ]
    return [
        f"`python tests/fuzz.py {counts['inputs']} {counts['seed']}` read {counts['inputs']} random and hostile inputs: {', '.join(each)}.",
        "Every one had a right answer or an error of ours that names what is wrong: no traceback, nothing executed. The counts:",
        "[fuzz.json](../results/published/robustness/fuzz.json).",
    ]


def stale() -> dict[str, set[str]]:
    """What changes, and the jobs that are run again."""
    sys.path.insert(0, str(Path(__file__).resolve().parent / "workflow"))
    from test_stale import CASES

    return {what: jobs for what, (_, jobs, _) in CASES.items()}


COUNTED = Path(__file__).resolve().parents[1] / "results" / "published" / "robustness"
DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "faults.md"

if __name__ == "__main__":
    DOCUMENT.write_text(document())
