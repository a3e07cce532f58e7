"""The supervised child process: what is the machine's fault is not a kernel's."""

import errno
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from drivers import compile_library
from host import host
from inprocess import use_simulated_gpus
from ladder.compiling import toolchain
from ladder.compiling.compile import compile_support
from ladder.core import clock, errors, surroundings
from ladder.core.errors import InputError
from ladder.devices import blas, cpu
from ladder.measuring import supervisor, worker
from ladder.measuring.protocol import Alive, Candidate, Check, Done, encode
from ladder.measuring.session import Session
from ladder.measuring.supervisor import Child, Failure
from planted import written
from simulated import support
from waiting import wait_until

CHECK = Check(Candidate("unknown"))


@pytest.fixture
def start(tmp_path):
    """Starts a child on the CPU, given what its support library holds."""
    children = []
    lock = os.open("/dev/null", os.O_RDONLY)

    def run(support=None):
        library = compile_support("cpu", "") if support is None else support
        (tmp_path / "support.so").write_bytes(library)
        children.append(Child("cpu", "cpu-x", lock))
        children[-1].open(tmp_path / "support.so")
        return children[-1]

    yield run
    for child in children:
        child.close()
    os.close(lock)


@pytest.fixture
def silent(monkeypatch, virtual_clock):
    """A child that says nothing by itself, and the other end of its pipe."""
    monkeypatch.setattr(supervisor, "ANSWER_SECONDS", 1)
    child = Child.__new__(Child)
    child.connection, other_end = supervisor.pipe()
    child.process = subprocess.Popen(["sleep", "600"])
    child.errors = tempfile.TemporaryFile()
    yield child, other_end
    child.kill()


def failed(child, message=None):
    """The failure of a request, with that in its reason."""
    with pytest.raises(Failure, match=message) as failure:
        list(child.ask(CHECK, 10))
    return failure.value


@pytest.mark.parametrize(
    ("support", "executable", "message"),
    [
        (b"", sys.executable, r"support\.so: cannot be loaded from .*: .*file too short.*"),
        (
            None,
            "/bin/false",
            "cpu-x: the device cannot be opened: the child process ended with exit code 1",
        ),
    ],
)
def test_a_worker_that_does_not_start_is_the_machines_fault(
    start, monkeypatch, support, executable, message
):
    monkeypatch.setattr(sys, "executable", executable)
    with pytest.raises(InputError, match=f"{message}; no kernel is at fault"):
        start(support)


def test_where_code_may_not_be_run_from_is_told_before_any_kernel(tmp_path, monkeypatch):
    def refuse(path):
        raise OSError(f"{path}: failed to map segment from shared object")

    host()  # compiles the support library with the loader still there
    (tmp_path / "support.so").write_bytes(b"")
    monkeypatch.setattr(cpu.ctypes, "CDLL", refuse)
    with pytest.raises(
        OSError,
        match=r"failed to map segment.*; expected .* TMPDIR to be .* \(not mounted noexec\)",
    ):
        cpu._load_from(tmp_path / "..", tmp_path / "support.so")


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (b"x" * 99_999 + b"\n\x1b[31mred\x07", r"\x1b[31mred\x07"),
        # PyCUDA ends a process in which something was raised with a banner
        (b"RuntimeError: the reason\n  ----------\n\n", "RuntimeError: the reason"),
    ],
)
def test_a_worker_is_told_by_its_last_words_alone(start, output, reason):
    child = start()
    child.errors.write(output)
    child.errors.flush()
    child.process.kill()
    failure = failed(child)
    assert failure.reason == f"the child process was killed by signal 9: {reason}"
    assert failure.killed


def test_an_error_that_nobody_foresaw_is_a_workers_last_word(start):
    failed(start(), r"ended with exit code 1: KeyError: Candidate\(name='unknown'.*")


@pytest.mark.parametrize(
    "sent", [b"\0\0\0\4gone", b"\0\0\0\2[]", b"\0\0\0\2{}", b"\x7f\xff\xff\xff", b"\0\0\1\0half"]
)
@pytest.mark.parametrize("stopped", [False, True])
def test_what_is_no_answer_ends_the_child_and_half_of_one_is_not_waited_for(silent, sent, stopped):
    """If somebody had stopped it by a signal, it is tried again."""
    child, other_end = silent
    os.write(other_end.fileno(), sent)
    if stopped:
        stop(child)
    failure = failed(child, "something wrote to the pipe")
    assert (failure.status, failure.alive, failure.killed) == ("launch_error", False, stopped)
    assert child.process.returncode == -9


def stop(child):
    os.kill(child.process.pid, signal.SIGSTOP)
    os.waitpid(child.process.pid, os.WUNTRACED)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_worker_that_somebody_stopped_is_tried_again(silent, virtual_clock, stopped):
    """And one that does not answer in time is killed."""
    child, _ = silent
    if stopped:
        stop(child)
    failure = failed(child, "no answer within 10 s(: it had been stopped by a signal)?$")
    assert (failure.status, failure.alive, failure.killed) == ("timeout", False, stopped)
    assert failure.reason.endswith("stopped by a signal") == stopped
    assert virtual_clock.now() == 1010
    assert child.process.returncode == -9


def test_each_answer_has_that_time(silent, virtual_clock):
    child, other_end = silent
    for seconds, answer in ((9.9, Alive()), (19.8, Done(5.0))):
        virtual_clock.after(seconds, partial(other_end.send_bytes, encode(answer)))
    assert list(child.ask(CHECK, 10)) == [Alive()]
    assert (child.busy_us, virtual_clock.now()) == (5.0, pytest.approx(1019.8))


def test_time_in_which_the_machine_stood_still_does_not_count(silent, virtual_clock):
    """As where the job was stopped by a signal, or a virtual machine suspended; an answer that is
    late by as much is one.
    """
    child, other_end = silent
    virtual_clock.after(3, partial(virtual_clock.stand_still, 1000))
    virtual_clock.after(9, partial(other_end.send_bytes, encode(Done(5.0))))
    assert list(child.ask(CHECK, 10)) == []
    virtual_clock.after(3, partial(virtual_clock.stand_still, 1000))
    start = virtual_clock.now()
    failed(child, "no answer within 10 s")
    assert 1008 < virtual_clock.now() - start < 1012  # and what hangs is found all the same


@pytest.mark.parametrize(
    ("counted", "number", "starved"), [(1, 9, True), (0, 9, False), (1, 15, False)]
)
def test_a_worker_that_was_killed_for_want_of_memory_is_told_apart(
    silent, monkeypatch, counted, number, starved
):
    monkeypatch.setattr(supervisor, "oom_kills", lambda: counted)
    child, other_end = silent
    other_end.close()
    child.process.send_signal(number)
    failure = failed(child)
    assert (failure.killed, failure.starved) == (True, starved)
    assert failure.during("on M=1").starved == starved


def test_where_no_process_can_be_started_that_is_told(start, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    library = compile_support("cpu", "")
    monkeypatch.setattr(supervisor.subprocess, "Popen", refuse)
    with pytest.raises(
        InputError, match="no process can be started: Cannot allocate memory; no kernel is at fault"
    ):
        start(library)


def test_a_process_counts_how_often_it_was_stopped():
    """The signal with which it continues says so; tests have nothing to be stopped for."""
    before = signal.getsignal(signal.SIGCONT)
    try:
        clock.count_stops()
        count = clock.stops()
        os.kill(os.getpid(), signal.SIGCONT)
        assert clock.stops() == count + 1
    finally:
        signal.signal(signal.SIGCONT, before)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_the_next_gpu_worker_is_ready_before_its_turn_and_touches_no_gpu(
    kind, tmp_path, monkeypatch
):
    """On a CPU it would disturb what is measured."""
    session = Session(
        kind, "GPU-1", support(use_simulated_gpus(monkeypatch, tmp_path)), {}, 9, None
    )
    session.ahead, before = True, set(psutil.Process().children())

    def is_ready(pid):  # a worker sets the limit last of all
        return resource.prlimit(pid, resource.RLIMIT_FSIZE)[0] == worker.MOST_WRITTEN

    def uses_device(pid):
        return "/support.so" in Path(f"/proc/{pid}/maps").read_text()

    try:
        first = session.worker().process.pid
        waiting = {each.pid for each in set(psutil.Process().children()) - before} - {first}
        assert len(waiting) == (kind == "cuda")
        wait_until(lambda: all(map(is_ready, waiting)), "the next worker")
        for pid in waiting:
            assert (uses_device(first), uses_device(pid)) == (True, False)
            session.renew()
            assert not psutil.pid_exists(first) and not uses_device(pid)
            assert session.worker().process.pid == pid and uses_device(pid)
    finally:
        session.end()
    assert set(psutil.Process().children()) <= before


def test_a_text_from_outside_is_printable_and_bounded():
    assert errors.plain("fine: é\n2") == "fine: é\n2"
    assert errors.plain("\x1b[2J\a\0\r") == r"\x1b[2J\x07\x00\r"
    assert errors.plain("x" * 3000) == "x" * (errors.REASON_CHARACTERS - 1) + "…"
    assert len(errors.plain("\0" * 3000)) == errors.REASON_CHARACTERS


BENDING = """
OPENBLAS_CORETYPE=Prescott OPENBLAS_NUM_THREADS=1 MKL_CBWR=COMPATIBLE BLIS_ARCH_TYPE=generic
OMP_PROC_BIND=true OMP_NUM_THREADS=1 GOMP_CPU_AFFINITY=0 KMP_AFFINITY=compact
NVIDIA_TF32_OVERRIDE=0 CUBLAS_WORKSPACE_CONFIG=:0:0 CUBLASLT_LOG_LEVEL=5 CUDA_LAUNCH_BLOCKING=1
CUDA_FORCE_PTX_JIT=1 CUDA_MODULE_LOADING=EAGER CUDA_DEVICE_MAX_CONNECTIONS=1 MALLOC_ARENA_MAX=1
GLIBC_TUNABLES=glibc.malloc.check=3 LD_AUDIT= LD_BIND_NOW=1 PYTHONOPTIMIZE=2
PYTHONPATH=/nowhere LC_ALL=C
"""
"""Variables of each kind that docs/method.md lists, LD_PRELOAD apart."""
FLUSHES = """#include <xmmintrin.h>
__attribute__((constructor)) static void set(void) { _mm_setcsr(_mm_getcsr() | 0x8040); }
"""


def test_no_variable_reaches_what_measures(start, monkeypatch, tmp_path):
    plain = start().attributes
    compile_library(FLUSHES, tmp_path / "flush.so")
    for setting in [*BENDING.split(), f"LD_PRELOAD={tmp_path / 'flush.so'}"]:
        monkeypatch.setenv(*setting.split("=", 1))
    child = start()
    assert child.attributes == plain  # the library's kernels, the cores
    assert "flush.so" not in Path(f"/proc/{child.process.pid}/maps").read_text()
    lines = Path(f"/proc/{child.process.pid}/environ").read_text().split("\0")[:-1]
    names = {line.split("=", 1)[0] for line in lines}
    assert names <= {*toolchain.PASSED, *supervisor.IDLE, supervisor.MARK}


@pytest.mark.parametrize(
    ("files", "quota", "cores", "memory"),
    [
        ({}, None, 8, 2**40),
        ({"cpu.max": "max 100000", "memory.max": "max"}, None, 8, 2**40),
        (
            {
                "cpu.max": "150000 100000",
                "a/b/cpu.max": "max 100000",
                "a/b/memory.max": "1024",
                "a/memory.max": "512",
            },
            1.5,
            1,
            512,
        ),
        ({"cpu.max": "1600000 100000"}, 16.0, 8, 2**40),
        (
            {
                "cpu,cpuacct/cpu.cfs_quota_us": "400000",
                "cpu,cpuacct/cpu.cfs_period_us": "100000",
                "memory/memory.limit_in_bytes": "9",
            },
            4.0,
            4,
            9,
        ),
        (
            {"cpu,cpuacct/cpu.cfs_quota_us": "-1", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            None,
            8,
            2**40,
        ),
    ],
)
def test_the_cores_and_the_memory_are_those_that_a_container_grants(
    monkeypatch, tmp_path, files, quota, cores, memory
):
    written(tmp_path / "proc" / "cgroup", "5:cpu,cpuacct:/docker/c\n4:memory:/docker/c\n0::/a/b\n")
    for name, text in files.items():
        written(tmp_path / "groups" / name, text)
    monkeypatch.setattr(surroundings, "PROC", tmp_path / "proc")
    monkeypatch.setattr(surroundings, "CGROUPS", tmp_path / "groups")
    monkeypatch.setattr(surroundings.os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(surroundings.psutil, "virtual_memory", lambda: SimpleNamespace(total=2**40))
    assert (surroundings.cpu_quota(), surroundings.cores.__wrapped__(), surroundings.memory()) == (
        quota,
        cores,
        memory,
    )


def test_what_cannot_be_taken_away_is_described_and_told(monkeypatch, tmp_path):
    host()  # NumPy's BLAS is loaded, and the C library of the support library's OpenMP
    plain = surroundings.described("cpu")
    ((name, identity),) = plain.pop("libraries").items()
    assert "blas" in name and re.fullmatch(r"build [0-9a-f]{40}|sha256 [0-9a-f]{64}", identity)
    assert surroundings.remarks(plain) == []
    loaded = [
        Path(path)
        for path in re.findall(r" (/.*)$", Path("/proc/self/maps").read_text(), re.MULTILINE)
    ]
    (openmp,) = {path for path in loaded if path.name.startswith("libgomp")}
    monkeypatch.setattr(
        surroundings, "PRELOAD", written(tmp_path / "ld.so.preload", f"{openmp}\n/not/loaded.so")
    )
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{openmp.parent}")
    bent = surroundings.described("cpu")
    assert list(bent["preloaded"]) == [openmp.name]
    assert openmp.name in bent["from_ld_library_path"]
    remarks = surroundings.remarks({**bent, "cpu_quota": 1.5, "cores_in_mask": 8})
    assert remarks[0] == f"{tmp_path}/ld.so.preload loads {openmp.name} into every process"
    assert remarks[1].startswith("LD_LIBRARY_PATH provides ")
    assert remarks[2] == "a control group grants the time of 1.5 cores; the mask has 8"


@pytest.mark.parametrize(
    ("kernels", "version"),
    [("Katmai", "openblas 0.3 (Katmai, which leave AVX2 unused)"), ("Zen", "openblas 0.3 (Zen)")],
)
def test_kernels_for_an_older_processor_are_told(monkeypatch, tmp_path, kernels, version):
    loaded = {"internal_api": "openblas", "version": "0.3", "architecture": kernels}
    monkeypatch.setattr(blas, "controller", lambda: SimpleNamespace(info=lambda: [loaded]))
    monkeypatch.setattr(
        blas, "CPUINFO", written(tmp_path / "cpuinfo", "flags\t\t: fpu avx avx2 fma\n")
    )
    assert blas.version() == version
