"""A job that is killed at any write to its journal loses nothing: sweep and confirmation on a simulated GPU, in this process."""

import hashlib
import itertools
import json

import pytest
import simulated
from inprocess import InProcess
from ladder.devices.lock import WAIT_SECONDS, exclusive
from ladder.measuring import confirmation, probe, session, sweep
from ladder.measuring.protocol import Time
from ladder.model import campaign_file
from ladder.model.kernel_file import discover
from ladder.storage import samples as records
from ladder.storage.journal import Journal, _parse
from planted import written

KERNEL = "/*---\ntitle: many\nidea: many\nblock: [1]\ngrid: [1]\nparameters: {U: 1}\nsweep: {U: [1, 2, 3]}\n---*/\n"
CAMPAIGN = {
    "campaign": "t", "problems": {"cuda": [[5, 6, 7]]}, "kernels": ["cuda/90_many"],
    "measure": {"states": ["warm", "cold"], "min_samples": 4, "max_samples": 4, "target": 1e-9, "sample_us": 0, "race": False},
    "confirm": {"processes": 3, "rounds": 3, "within": 0.5},
}  # fmt: skip
GROUP = 2
CHANGES = {"samples_us", "reference_us", "readings", "time"}
"""What two measurements of one configuration need not share."""


class Killed(BaseException):
    """In place of SIGKILL, which no code catches."""


class Machine:
    """Runs a job on the simulated GPU. `kill` ends the next run at its first write to the journal."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.asked, self.kill = folder, [], ""
        append, ask = Journal.append, InProcess.ask

        def write(journal, record):
            kill, self.kill = self.kill, ""
            if kill == "torn":
                text = json.dumps(record).encode()
                journal._file.write(text[: len(text) // 2])
            if kill in ("", "after"):
                append(journal, record)
            if kill:
                raise Killed

        def count(child, request, timeout):
            self.asked.append(request)
            return ask(child, request, timeout)

        monkeypatch.setattr(Journal, "append", write)
        monkeypatch.setattr(InProcess, "ask", count)
        monkeypatch.setattr(sweep, "GROUP", GROUP)
        monkeypatch.setattr(session, "ROOT", folder)
        self.project = {"commit": "c", "dirty": True}
        for module in (session, sweep, confirmation):
            monkeypatch.setattr(module, "project_state", lambda: self.project)
        written(folder / "kernels" / "cuda" / "90_many.cu", KERNEL)
        self.plan = campaign_file.load(CAMPAIGN, "t", discover(folder))
        binary = simulated.cubin("right()")
        (folder / "any.cubin").write_bytes(binary)
        sha256 = hashlib.sha256(binary).hexdigest()
        binary = {"status": "compiled", "sha256": sha256, "binary": str(folder / "any.cubin")}
        self.binaries = {("90_many", "float32", f"U={u}"): binary for u in (1, 2, 3)}
        self.environment = simulated.environment()

    def sweep(self, name):
        """Run the measure job; returns the Parquet file."""
        plan = self.plan.plan("cuda", "90_many.float32")
        job = session.Job("d", "cuda", plan, self.binaries, self.folder, {}, "code", self.environment)
        self.session = sweep.run(job, self.folder / f"{name}.journal", self.folder / f"{name}.parquet", ["GPU-1"])
        return self.folder / f"{name}.parquet"

    def confirm(self, name, samples):
        """Run the confirmation; returns the Parquet file."""
        plan = self.plan.confirmation("cuda")
        job = confirmation.ConfirmationJob(
            "d", "cuda", plan, self.binaries, self.folder, {}, "code", self.environment, samples=[samples], swept="swept"
        )
        self.session = confirmation.run(job, self.folder / f"{name}.journal", self.folder / f"{name}.parquet", ["GPU-1"])
        return self.folder / f"{name}.parquet"

    def timed(self):
        """How many measurements the runs since the last call of this have begun."""
        count = sum(len(request.indices) for request in self.asked if isinstance(request, Time))
        self.asked.clear()
        return count


@pytest.fixture
def machine(tmp_path, monkeypatch, gpus):
    return Machine(tmp_path, monkeypatch)


def measured(path):
    """The measurements of a journal, in its order."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []  # the last may be torn
    parsed = [_parse(line) for line in lines]
    assert None not in parsed, "a damaged line"
    return [row | {"key": record["key"]} for record in parsed for row in record.get("rows", [record]) if "samples_us" in row]


def same(rows):
    return [{name: value for name, value in row.items() if name not in CHANGES} for row in rows]


def killed_at_every_write(machine, journal, run, most, total):
    """Kill a job before, in and after each of its writes, one run after the other; returns what it has in the end, and how many kills.

    `most` is how many measurements are under way at a time, of `total`.
    """
    machine.timed()
    kinds, kills, path = itertools.cycle(("before", "torn", "after")), 0, None
    while path is None:
        before, machine.kill = measured(journal), next(kinds)
        try:
            path = run()
        except Killed:
            kills += 1
        now, begun = measured(journal), machine.timed()
        assert now[: len(before)] == before, "a record of the journal was lost"
        assert begun <= total - len(before), "what the journal has was measured again"
        assert begun <= len(now) - len(before) + most, "more was measured again than was under way"
    return records.read(path)[0], kills


def test_a_sweep_that_is_killed_at_every_write_loses_nothing(machine):
    whole = records.read(machine.sweep("whole"))[0]
    assert [(row["status"], len(row["samples_us"])) for row in whole] == [("correct", 4)] * 3
    journal = machine.folder / "killed.journal"
    rows, kills = killed_at_every_write(machine, journal, lambda: machine.sweep("killed"), GROUP, len(whole))
    assert kills == 3 * (3 + 3)  # each passed the gauntlet and was timed
    assert (machine.session["measured"], machine.session["children"]) == (0, 0)  # by the last run
    assert same(rows) == same(whole)
    kept = {record["key"]: record["samples_us"] for record in measured(journal)}
    assert {row["key"]: row["samples_us"] for row in rows} == kept
    machine.project = {"commit": "d", "dirty": False}
    of_another_commit = records.read(machine.sweep("killed"))[1]
    assert (of_another_commit["commit"], of_another_commit["dirty"]) == ("c", True)  # which measured nothing
    assert machine.timed() == 0


def test_a_confirmation_that_is_killed_at_every_write_loses_nothing(machine):
    samples = machine.sweep("swept")
    whole = records.read(machine.confirm("whole", samples))[0]
    assert [row["process"] for row in whole] == [process for process in (1, 2, 3) for _ in range(2 * 3)]
    assert {row["status"] for row in whole} == {"correct"}
    journal = machine.folder / "killed.journal"
    rows, kills = killed_at_every_write(machine, journal, lambda: machine.confirm("killed", samples), 3, len(whole))
    assert kills == 3 * (3 * 2)  # processes and states
    assert (machine.session["measured"], machine.session["children"]) == (0, 0)  # by the last run
    assert same(rows) == same(whole)
    kept = {(row["key"], row["configuration"]): row["samples_us"] for row in measured(journal)}
    assert {(row["key"], row["configuration"]): row["samples_us"] for row in rows} == kept


def test_a_forced_probe_gives_the_description_that_the_samples_have(machine):
    (device,), journal = simulated.detect(), Journal(machine.folder / "environment.journal")
    child = InProcess("cuda", "GPU-1", machine.folder, None)
    first = probe.probe_once(device, child, journal, "code")
    assert (first["attributes"], first["peaks"]) == (
        simulated.environment()["attributes"],
        {"fp32_tflops": 60.0, "copy_tb_s": 4.0},
    )
    journal.append({"key": "any", "environment": {}})
    assert probe.probe_once(device, child, journal, "code") is first
    assert probe.probe_once(device, child, journal, "other code") is not first
    child.attributes = {**first["attributes"], "library": "cuBLAS 14"}
    assert probe.probe_once(device, child, journal, "code")["attributes"]["library"] == "cuBLAS 14"


@pytest.mark.parametrize("job", ["sweep", "confirmation"])
def test_a_job_starts_no_worker_before_the_device_is_its_own(machine, virtual_clock, job):
    samples = machine.sweep("swept") if job == "confirmation" else None
    machine.asked.clear()
    other, asked = exclusive(["GPU-1"]), []
    other.__enter__()

    def end():
        asked.extend(machine.asked)
        other.__exit__(None, None, None)

    virtual_clock.after(2.5 * WAIT_SECONDS, end)
    path = machine.confirm("waited", samples) if samples else machine.sweep("waited")
    assert asked == []
    assert machine.session["waited_seconds"] == 3 * WAIT_SECONDS
    assert {row["status"] for row in records.read(path)[0]} == {"correct"}
