"""A kernel that misbehaves is a row and harms no other: on the CPU in a campaign, on a simulated
GPU in a measure job.
"""

import itertools
import json
import re
import resource

import faults
import psutil
import pytest
from jobs import Jobs, journaled
from ladder.core.errors import InputError
from ladder.measuring import session, supervisor
from ladder.storage import samples
from ladder.storage.journal import Journal
from planted import HOME


def test_every_fault_of_a_machine_is_on_the_page_and_planted_by_a_test():
    page = (HOME / "docs" / "faults.md").read_text()
    rows = re.findall(
        r"^\| ([^|]+) \| `?(\w[^|`]*)`? \|", page.partition("## Killed")[0], re.MULTILINE
    )
    of_kernels = [*faults.CPU.values(), faults.SYNTAX, *faults.FAKE.values(), *faults.GPU.values()]
    machine = {(fault.what, fault.status.strip("`")) for fault in faults.MACHINE.values()}
    known = {(fault.what, fault.status) for fault in of_kernels} | machine
    assert machine <= set(rows) - {row for row in rows if row[0] == "fault"} <= known
    tests = "".join(path.read_text() for path in (HOME / "tests").rglob("test_*.py"))
    assert all(f"def {fault.body}(" in tests for fault in faults.MACHINE.values())


@pytest.mark.slow
def test_on_the_cpu(project):
    # endless loops are planted in tests/frauds, so that no time limit needs to be short here
    ending = {name: fault for name, fault in faults.CPU.items() if fault.status != "timeout"}
    rows = faults.on_cpu(project, ending, limit=3600)
    assert len(rows) == len(ending) + 1 == len(faults.CPU) - 1
    assert [row for row in rows if not row["as_told"]] == []
    reasons = [reason for row in rows for reason in row["reasons"]]
    assert all(reason.replace("\n", "").isprintable() and len(reason) < 2100 for reason in reasons)
    (log,) = project.folder.glob("results/faults/logs/measure-*.log")
    pids = re.findall(
        r"a kernel left processes running \((\d+)\); they were killed", log.read_text()
    )
    assert pids
    assert not [pid for pid in map(int, pids) if psutil.pid_exists(pid)]


@pytest.fixture
def run(tmp_path, monkeypatch, gpus):
    """A measure job of ten configurations on a simulated GPU, given what each launch does; returns
    the rows that it wrote.
    """
    jobs = Jobs(tmp_path, monkeypatch, {"fake": 10})

    def run(body: str, others: tuple[int | None, ...] = (0,)) -> list[dict[str, object]]:
        gpus.write_text(json.dumps(json.loads(gpus.read_text()) | {"others": others}))
        jobs.does["fake"] = body
        return samples.read(jobs.sweep("fake.float32", "fake"))[0]

    return run


def strikes(names, when):
    """What the fake GPU does at a launch: configuration U = n has the n-th of some faults, in the
    gauntlet or while it is timed.
    """
    lines = [
        f"if U == {n} and timed == {when == 'timed'}: {faults.FAKE[name].body}"
        for n, name in enumerate(names, 1)
    ]
    return "\n".join(["right()", *lines])


@pytest.mark.parametrize("when", ["verified", "timed"])
@pytest.mark.parametrize("names", [list(faults.FAKE), ["illegal"]], ids=["all", "one"])
def test_on_a_gpu_the_culprits_of_a_group_are_found(run, names, when):
    rows = run(strikes(names, when))
    assert [row["configuration"] for row in rows] == [f"U={n}" for n in range(1, 11)]
    for row, name in zip(rows, names, strict=False):
        fault = faults.FAKE[name]
        assert row["status"] == fault.status
        assert fault.reason in row["reason"]
        assert row["reason"].startswith("while timed: ") == (when == "timed")
        assert row["samples_us"] is None
    for row in rows[len(names) :]:
        assert (row["status"], len(row["samples_us"])) == ("correct", 4)


def no_kernels_fault(run, tmp_path, timed, strikes, message, mended=lambda: None):
    """What strikes at launches of U = 4 ends the job; once it is gone, the next run finds that
    kernel right.
    """
    gone = tmp_path / "gone"
    body = (
        f"right()\nif U == 4 and timed == {timed} and not os.path.exists({str(gone)!r}): {strikes}"
    )
    with pytest.raises(InputError, match=f"{message}; no kernel is at fault"):
        run(body)
    gone.touch()
    mended()
    assert [row["status"] for row in run(body)] == ["correct"] * 10


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("error", ["OSError", "MemoryError"])
def test_memory_that_another_process_holds_is_no_kernels_fault(run, tmp_path, timed, error):
    """What `Cuda` and NumPy raise then."""
    no_kernels_fault(
        run, tmp_path, timed, f"raise {error}('there is no 1 GiB left')", "there is no 1 GiB left"
    )


@pytest.mark.parametrize("timed", [False, True])
def test_a_device_that_was_lost_is_no_kernels_fault(run, gpus, tmp_path, timed):
    """The launch that it was lost at, and those before and after it, have no verdict from then."""

    def mended():
        gpus.write_text(json.dumps(json.loads(gpus.read_text()) | {"lost": False}))

    no_kernels_fault(
        run,
        tmp_path,
        timed,
        "lose()",
        "GPU-1: the device cannot be opened: .*the GPU is lost",
        mended,
    )


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize(("needed", "starved"), [(1 << 60, True), (0, False)])
def test_a_machine_without_memory_is_no_kernels_fault(
    run, tmp_path, monkeypatch, timed, needed, starved
):
    """Unless the worker used more of it than a problem needs: then a kernel may have taken it."""
    kills = itertools.count()
    monkeypatch.setattr(session, "WORKER_BYTES", needed)
    monkeypatch.setattr(supervisor, "oom_kills", lambda: next(kills))
    if starved:
        no_kernels_fault(
            run,
            tmp_path,
            timed,
            "die(9)",
            "GPU-1: the system ran out of memory and killed the worker",
        )
    else:
        rows = run(f"right()\nif U == 4 and timed == {timed}: die(9)")
        assert [row["status"] for row in rows] == [
            *["correct"] * 3,
            "launch_error",
            *["correct"] * 6,
        ]


def test_rounds_in_which_the_process_was_stopped_do_not_count(run):
    """Three at the most: a kernel could stop its process whenever it is slow."""
    rows = run("right()\nif U == 4 and timed and call == 6: stop()")
    assert [len(row["samples_us"]) for row in rows] == [4] * 10
    assert max(us for row in rows for us in row["samples_us"]) < 1000
    rows = run("right()\nif U == 5 and timed: stop()")
    assert [row["status"] for row in rows] == ["correct"] * 10
    # where it counts at last, it is slow
    assert {len(row["samples_us"]) for row in rows} == {1, 4}
    assert min(rows[4]["samples_us"]) > 1000


@pytest.mark.parametrize(
    ("others", "marks"), [((0,), {0}), ((None,), {None}), ((0, 0, 3, 0), {0, 3}), ((2, 0), {0, 2})]
)
def test_another_process_on_the_gpu_is_noticed_and_marked(run, others, marks, capfd):
    rows = run("right()", others)
    assert {row["other_processes"] for row in rows} >= marks
    assert {row["status"] for row in rows} == {"correct"}
    output = capfd.readouterr().err
    assert output.count("Warning: GPU-1: another process is using it; ") == bool(marks - {0, None})


def test_a_full_disk_is_one_clear_message_and_nothing_is_lost(run, tmp_path, monkeypatch):
    """The journal may not grow beyond a limit, which stands for the disk: it meets it after some
    measurements.
    """
    append, before = Journal.append, resource.getrlimit(resource.RLIMIT_FSIZE)

    def within_a_limit(journal, record):
        resource.setrlimit(resource.RLIMIT_FSIZE, (8000, before[1]))
        try:
            append(journal, record)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    with monkeypatch.context() as patch, pytest.raises(InputError) as refused:
        patch.setattr(Journal, "append", within_a_limit)
        run("right()")
    # the last write is cut short, as by a disk with little room, or refused, as by a limit
    message = str(refused.value).replace("File too large", "No space left on device")
    assert message == f"{tmp_path}/swept/fake.float32.journal: {faults.MACHINE['full'].reason}"
    assert not (tmp_path / "fake.parquet").exists()
    whole = journaled(tmp_path / "swept")
    measured = [record for record in whole if record.get("samples_us")]
    assert 1 <= len(measured) < 10 <= len(whole)  # and what passed the gauntlet
    rows = {row["key"]: row["samples_us"] for row in run("right()")}
    assert len(rows) == 10
    assert all(rows[record["key"]] == record["samples_us"] for record in measured)
