"""Kernels that misbehave, and what becomes of them. The tests plant them; docs/faults.md lists
them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ladder.pipeline.final_table import KERNELS_FAILED
from planted import C_RIGHT, CU_RIGHT, Project, c_kernel, cuda_kernel


@dataclass(frozen=True)
class Fault:
    """What is planted, and the status and the piece of a reason that its rows get."""

    what: str
    body: str
    status: str
    reason: str = ""


def one_kernel(table: Mapping[str, Fault]) -> str:
    """A C kernel's body whose configuration F = n has the n-th fault of a table."""
    return "".join(
        f"if (F == {n}) {{ {fault.body} return; }}\n" for n, fault in enumerate(table.values())
    )


def while_timing(body: str) -> str:
    """C that strikes at the 20th call on the problem that is timed: the gauntlet, and one launch on
    whole numbers, find it right.
    """
    return "static int calls = 0; if (M == 48 && ++calls == 20) {" + body + "}" + C_RIGHT


ENDLESS = "for (;;) pause();"
INCLUDES = "\n".join(
    f"#include <{name}.h>" for name in ("signal", "stdio", "string", "unistd", "xmmintrin")
)
CPU = {
    "900_right": Fault("nothing: the control", C_RIGHT, "correct"),
    "901_wrong": Fault(
        "a wrong result",
        C_RIGHT.replace("k < K", "k < K - 1"),
        "incorrect",
        "on M=1 N=1 K=1 exact: .* is not exact",
    ),
    "902_nan": Fault(
        "NaN in a row of C",
        C_RIGHT.replace("Acc sum = 0", "Acc sum = m == 3 ? 0.0 / 0.0 : 0"),
        "incorrect",
        "NaN",
    ),
    "903_unwritten": Fault(
        "a column of C not written", C_RIGHT.replace("n < N", "n < N - 1"), "incorrect", "NaN"
    ),
    "904_stray": Fault("a write before C", C_RIGHT + "C[-1] = 1;", "incorrect", "outside C"),
    "905_segfault": Fault(
        "an illegal address",
        "*(volatile int *)8 = 1;" + C_RIGHT,
        "launch_error",
        "killed by signal 11",
    ),
    "906_exit": Fault("the host process ends", "exit(3);", "launch_error", "exit code 3"),
    "907_abort": Fault("the host process aborts", "abort();", "launch_error", "killed by signal 6"),
    "908_endless": Fault("an infinite loop", ENDLESS, "timeout", "no answer within 10 s"),
    "910_late_segfault": Fault(
        "an illegal address at the 20th call",
        while_timing("*(volatile int *)8 = 1;"),
        "launch_error",
        "while timed: the child process was killed by signal 11",
    ),
    "911_late_endless": Fault(
        "an infinite loop at the 20th call",
        while_timing(ENDLESS),
        "timeout",
        "while timed: no answer within 10 s",
    ),
    "912_late_exit": Fault(
        "the host process ends at the 20th call",
        while_timing("exit(3);"),
        "launch_error",
        "while timed: the child process ended with exit code 3",
    ),
    "915_late_wrong": Fault(
        "a wrong result from the 20th call on",
        "static int calls = 0; if (M == 48 && ++calls >= 20) K -= 1;" + C_RIGHT,
        "incorrect",
        "while timed: sample",
    ),
    "913_killed": Fault(
        "the host process kills itself, again and again",
        "raise(9);",
        "launch_error",
        "killed by signal 9",
    ),
    "914_killed_once": Fault(
        "the host process is killed once, as from outside",
        'FILE *f = fopen("killed-once", "wx"); if (f) { fclose(f); raise(9); }' + C_RIGHT,
        "correct",
    ),
    "916_modes": Fault(
        "rounding and flush to zero left as nobody else wants them",
        C_RIGHT + "_mm_setcsr(_mm_getcsr() | 0xe040);",
        "correct",
    ),
    "917_pipe": Fault(
        "bytes written to every descriptor",
        while_timing(r'for (int fd = 3; fd < 99; ++fd) if (write(fd, "\0\0\0\4gone", 8)) {}'),
        "launch_error",
        "while timed: something wrote to the pipe of the child process",
    ),
    "918_length": Fault(
        "two gigabytes promised to every descriptor",
        while_timing(r'for (int fd = 3; fd < 99; ++fd) if (write(fd, "\x7f\xff\xff\xff", 4)) {}'),
        "launch_error",
        "while timed: something wrote to the pipe of the child process",
    ),
    "919_group": Fault(
        "its process group ended",
        "kill(0, SIGTERM);" + C_RIGHT,
        "launch_error",
        "killed by signal 15",
    ),
    "920_behind": Fault(
        "a process left behind, a session of its own",
        "static int left; if (!left++ && fork() == 0) { setsid(); for (;;) sleep(1000); }"
        + C_RIGHT,
        "correct",
    ),
    "921_flood": Fault(
        "escape characters printed, 300 MB of them",
        "static char much[1 << 20]; memset(much, 27, sizeof much); much[sizeof much - 2] = 'm'; "
        "for (int i = 0; i < 300; ++i) if (write(1, much, sizeof much)) {} abort();",
        "launch_error",
        "killed by signal 6: .*x1b",
    ),
    "922_elsewhere": Fault(
        "the working folder is changed", 'if (chdir("/")) abort();' + C_RIGHT, "correct"
    ),
}
"""Of the CPU: configurations of one kernel."""
SYNTAX = Fault("source that does not compile", "this does not compile;", "compile_error", "error:")


FAKE = {
    "illegal": Fault(
        "an illegal address",
        "fail('an illegal memory access was encountered')",
        "launch_error",
        "an illegal memory access",
    ),
    "misaligned": Fault(
        "a misaligned access", "fail('misaligned address')", "launch_error", "misaligned address"
    ),
    "launch": Fault(
        "a launch failure",
        "fail('too many resources requested for launch')",
        "launch_error",
        "too many resources",
    ),
    "refused": Fault(
        "too large for the device",
        "raise Refused('not_supported', 'no memory left')",
        "not_supported",
        "no memory left",
    ),
    "hang": Fault("an infinite loop", "hang()", "timeout", "no answer within 6 s"),
    "abort": Fault(
        "a crash of the driver in the host process", "die(6)", "launch_error", "killed by signal 6"
    ),
    "python": Fault(
        "an error that nobody foresaw",
        "1 / 0",
        "launch_error",
        "ended with exit code 1: ZeroDivisionError: division by zero",
    ),
}
"""Of a fake GPU, configurations among others, at their verification and while they are timed."""

CU_LATE = "  const bool late = M % 2 == 0 && M > 100 && float(A[0]) != truncf(float(A[0]));\n"
"""On even M above 100 the gauntlet and the launch at the problem's size have whole numbers, and
timed rounds have not.
"""
GPU = {
    "900_right": Fault("nothing: the control", CU_RIGHT, "correct"),
    "901_wrong": Fault(
        "a wrong result",
        CU_RIGHT.replace("k < K", "k < K - (K > 100)"),
        "incorrect",
        "is not exact on whole numbers",
    ),
    "902_nan": Fault(
        "NaN in a row of C",
        CU_RIGHT.replace("Acc sum = 0", 'Acc sum = row == 3 ? Acc(nanf("")) : Acc(0)'),
        "incorrect",
        "NaN",
    ),
    "903_unwritten": Fault(
        "a column of C not written",
        CU_RIGHT.replace("col >= N", "col >= N - 1"),
        "incorrect",
        "NaN",
    ),
    "904_stray": Fault(
        "a write before C",
        CU_RIGHT + "  if (row == 0 && col == 0) C[-1] = 1;\n",
        "incorrect",
        "outside C",
    ),
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
    "907_endless": Fault(
        "an infinite loop",
        "  for (volatile int i = 0; i >= 0;) i = 1;\n" + CU_RIGHT,
        "timeout",
        "no answer",
    ),
    "908_trap": Fault(
        "a launch failure (`__trap()`)", "  if (row == 0) __trap();\n" + CU_RIGHT, "launch_error"
    ),
    "909_syntax": Fault(
        "source that does not compile",
        "  this does not compile;\n" + CU_RIGHT,
        "compile_error",
        "error",
    ),
    "910_late_illegal": Fault(
        "an illegal address at a timed launch",
        CU_LATE + "  if (late) *(volatile float*)(1ull << 60) = 1;\n" + CU_RIGHT,
        "launch_error",
        "while timed: .*illegal",
    ),
    "911_late_endless": Fault(
        "an infinite loop at a timed launch",
        CU_LATE + "  if (late) for (volatile int i = 0; i >= 0;) i = 1;\n" + CU_RIGHT,
        "timeout",
        "while timed: no answer",
    ),
    "912_late_wrong": Fault(
        "a wrong result at timed launches",
        CU_LATE + "  const int depth = K - late;\n" + CU_RIGHT.replace("k < K", "k < depth"),
        "incorrect",
        "while timed: sample 1: a row of C is off by",
    ),
    "913_memory": Fault(
        "a variable that outlives a launch",
        "  static int calls;\n  if (row == 0 && col == 0) atomicAdd(&calls, 1);\n" + CU_RIGHT,
        "incorrect",
        "calls: state on the device that outlives a launch",
    ),
    "914_operand": Fault(
        "a write to A",
        CU_LATE + CU_RIGHT + "  if (late && row == 0 && col == 0) const_cast<T*>(A)[1] = 0;\n",
        "incorrect",
        r"while timed: sample 1: \d+ elements of A and B were overwritten",
    ),
}
"""Of a real GPU, by the name of the kernel."""

MACHINE = {
    "full": Fault(
        "a disk that fills while a journal is written",
        "test_a_full_disk_is_one_clear_message_and_nothing_is_lost",
        "error",
        "cannot be written: No space left on device; what is finished is kept; make "
        "room or change its rights, and run again",
    ),
    "read_only": Fault(
        "a results folder that cannot be written",
        "test_a_folder_that_cannot_be_written_is_one_clear_message",
        "error",
        "cannot be written: Operation not permitted; what is finished is kept",
    ),
    "damaged": Fault(
        "a journal with a line that is not one of ours",
        "test_a_damaged_journal_stops_its_job_with_a_clear_message",
        "error",
        "line 1: damaged; expected a checksum and a record. Remove that line to keep the others "
        "and measure it again",
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
        "Where it is committed, restore it: git checkout. Else remove it and run again: what a "
        "journal beside it has is kept",
    ),
    "misnamed": Fault(
        "a sample file under the name of another",
        "test_a_file_under_another_name_is_refused",
        "error",
        "has the measurements of b.float32; expected those of a.float32",
    ),
    "mixed": Fault(
        "sample files that two versions of the measuring code made",
        "test_files_that_do_not_belong_together_are_refused",
        "error",
        "measured by version v2 of the measuring code; expected v1",
    ),
    "missing": Fault(
        "a sample file that is missing, or differs from the one whose finalists were confirmed",
        "test_files_that_do_not_belong_together_are_refused",
        "error",
        "confirms other samples than those in samples/: b.float32 is missing",
    ),
    "held": Fault(
        "a device that another run measures on, of this or another user",
        "test_a_device_has_one_timer_whoever_asks",
        "waits",
        "in use by another run",
    ),
    "beside": Fault(
        "another process that computes on the GPU",
        "test_another_process_on_the_gpu_is_noticed_and_marked",
        "marked",
        "timed while 2 other process(es) computed on the device",
    ),
    "occupied": Fault(
        "a GPU whose memory another process holds",
        "test_what_would_fit_but_for_another_process_is_the_machines_fault",
        "error",
        "something else holds its memory",
    ),
    "stood": Fault(
        "a job or a machine that stands still for a while, and goes on",
        "test_time_in_which_the_machine_stood_still_does_not_count",
        "goes on",
    ),
    "stopped": Fault(
        "a worker that somebody stopped by a signal",
        "test_a_worker_that_somebody_stopped_is_tried_again",
        "tried again in a fresh one",
    ),
    "round": Fault(
        "rounds in which the worker was stopped and continued",
        "test_rounds_in_which_the_process_was_stopped_do_not_count",
        "measured again",
    ),
    "lost": Fault(
        "a GPU that is lost while a kernel runs",
        "test_a_device_that_was_lost_is_no_kernels_fault",
        "error",
        "the device cannot be opened",
    ),
    "hardware": Fault(
        "an error of the GPU's hardware, such as of its memory",
        "test_an_error_of_the_hardware_is_no_kernels_fault",
        "error",
        "the device failed",
    ),
    "short": Fault(
        "a machine that runs out of memory",
        "test_a_machine_without_memory_is_no_kernels_fault",
        "error",
        "the system ran out of memory and killed the worker",
    ),
    "noexec": Fault(
        "a TMPDIR from which code may not be run",
        "test_where_code_may_not_be_run_from_is_told_before_any_kernel",
        "error",
        "TMPDIR to be a folder from which code may be run (not mounted noexec)",
    ),
    "unopened": Fault(
        "a device that cannot be opened, in a second process either",
        "test_a_worker_that_does_not_start_is_the_machines_fault",
        "error",
        "the device cannot be opened",
    ),
    "starved": Fault(
        "a compiler out of memory or disk, or killed",
        "test_what_the_machine_did_to_the_compiler_is_no_fault_of_the_kernel",
        "error",
        "the compiler could not finish, which is not the kernel's fault; run again",
    ),
    "hungry": Fault(
        "a kernel for which a compiler wants more memory than 4 GiB",
        "test_a_compiler_that_is_too_hungry_is_stopped",
        "`compile_error`",
        "GiB of memory, and needed more",
    ),
    "compiler": Fault(
        "a compiler that compiles nothing",
        "test_a_compiler_that_refuses_everything_is_not_the_kernels_fault",
        "error",
        "the compiler refuses an empty kernel too",
    ),
    "set_up": Fault(
        "a reference that fails in the process in which kernels have run",
        "test_a_problem_is_set_up_again_in_a_fresh_process",
        "tried again in a fresh one",
    ),
}
"""Of the machine; `body` is the test that plants it and looks for the message."""


def row(fault: Fault, rows: Any) -> dict[str, Any]:
    """What became of a fault: its rows of `summary.csv`, and whether they are what is told of
    it.
    """
    statuses, reasons = rows["status"].tolist(), rows["reason"].fillna("").tolist()
    as_told = (
        len(rows) > 0
        and set(statuses) == {fault.status}
        and all(re.search(fault.reason, reason) for reason in reasons)
        and (rows["tflops"].notna() == (fault.status == "correct")).all()
    )
    return {"what": fault.what, "statuses": statuses, "reasons": reasons, "as_told": bool(as_told)}


def on_cpu(
    project: Project, faults: Mapping[str, Fault] = CPU, limit: int = 10
) -> list[dict[str, Any]]:
    """What becomes of the faults of C kernels: all are configurations of one kernel, timed side by
    side where they pass verification.

    `limit` are the seconds without an answer after which a launch is taken for endless.
    """
    sweep = f"parameters: {{F: 0}}\nsweep: {{F: {list(range(len(faults)))}}}\n---*/\n{INCLUDES}"
    project.write(
        "kernels/cpu/90_faults.c", c_kernel("faults", one_kernel(faults)).replace("---*/", sweep, 1)
    )
    project.write("kernels/cpu/91_syntax.c", c_kernel("syntax", SYNTAX.body))
    project.ok(
        "--configfile",
        project.campaign(f"""
campaign: faults
devices: [cpu]
architectures: [sm_80]
kernels: ["cpu/9*"]
problems: {{cpu: [{{square: 48}}]}}
measure: {{race: false, min_samples: 30, max_samples: 30, target: 0.000001, sample_us: 0, timeout_seconds: {limit}}}
confirm: {{processes: 3, rounds: 3}}
"""),
        "--until",
        "aggregate",
        code=KERNELS_FAILED,
    )
    summary = project.table("faults/*/summary.csv")
    summary = summary[summary["kernel"].str.match("9")]
    planted = {"-": SYNTAX, **{f"F={n}": fault for n, fault in enumerate(faults.values())}}
    assert len(summary) == len(planted)
    return [
        row(fault, summary[summary["configuration"] == configuration])
        for configuration, fault in planted.items()
    ]


def on_gpu(project: Project) -> list[dict[str, Any]]:
    """What becomes of the faults of CUDA kernels, each a kernel of its own."""
    for name, fault in GPU.items():
        project.write(f"kernels/cuda/{name}.cu", cuda_kernel(name, fault.body))
    project.ok(
        "--configfile",
        project.campaign("""
campaign: faults
devices: [cuda]
kernels: ["cuda/9*"]
problems: {cuda: [[130, 129, 127], {square: 256}]}
measure: {min_samples: 10, max_samples: 10, timeout_seconds: 10, target: 0.05}
confirm: {processes: 3, rounds: 3}
"""),
        "--until",
        "aggregate",
        code=KERNELS_FAILED,
    )
    summary = project.table("faults/*/summary.csv")
    assert (summary["kernel"].str.match("9")).sum() == 4 * len(GPU)
    return [row(fault, summary[summary["kernel"] == name]) for name, fault in GPU.items()]
