"""A job that is killed at any write to its journal loses nothing: sweep and confirmation on a
simulated GPU, in this process.
"""

import itertools
import json

import pytest
import simulated
from inprocess import InProcess
from jobs import Jobs, journaled
from ladder.devices.lock import WAIT_SECONDS, exclusive
from ladder.measuring import job, probe, sweep
from ladder.measuring.protocol import Time
from ladder.storage import samples as records
from ladder.storage.journal import Journal

JOB, GROUP = "many.float32", 2
CHANGES = {"samples_us", "reference_us", "readings", "time"}
"""What two measurements of one configuration need not share."""


class Killed(BaseException):
    """In place of SIGKILL, which no code catches."""


class Machine(Jobs):
    """Runs a job on the simulated GPU. `kill` ends the next run at its first write to the
    journal.
    """

    def __init__(self, folder, monkeypatch):
        super().__init__(
            folder, monkeypatch, {"many": 3}, confirm={"processes": 3, "rounds": 3, "within": 0.5}
        )
        self.measure |= {"states": ["warm", "cold"], "race": False}
        self.kill, append = "", Journal.append

        def write(journal, record):
            kill, self.kill = self.kill, ""
            if kill == "torn":
                text = json.dumps(record).encode()
                journal._file.write(text[: len(text) // 2])
            if kill in ("", "after"):
                append(journal, record)
            if kill:
                raise Killed

        monkeypatch.setattr(Journal, "append", write)
        monkeypatch.setattr(sweep, "GROUP", GROUP)
        self.project = {"commit": "c", "dirty": True}
        monkeypatch.setattr(job, "project_state", lambda: self.project)

    def rows(self, job, path):
        """Sweep, or confirm what `sweep` found before; return the rows."""
        if job == "sweep":
            return records.read(self.sweep(JOB, path=path))[0]
        return self.confirm(self.folder / "swept.parquet", path)

    def timed(self):
        """How many measurements the last run has begun."""
        return sum(len(asked.who) for asked in self.of(Time))


@pytest.fixture
def machine(tmp_path, monkeypatch, gpus):
    return Machine(tmp_path, monkeypatch)


def measured(path):
    """The measurements of a journal, in its order."""
    return [
        row | {"key": record["key"]}
        for record in journaled(path)
        for row in record.get("rows", [record])
        if "samples_us" in row
    ]


def same(rows):
    return [{name: value for name, value in row.items() if name not in CHANGES} for row in rows]


def killed_at_every_write(machine, job, under_way, total):
    """Kill a job before, in and after each of its writes, one run after the other; returns what it
    has in the end, and how many kills.

    `under_way` is how many measurements are under way at a time, of `total`.
    """
    journal = machine.folder / "killed"
    kinds, kills, rows = itertools.cycle(("before", "torn", "after")), 0, None
    while rows is None:
        before, machine.kill = measured(journal), next(kinds)
        try:
            rows = machine.rows(job, "killed")
        except Killed:
            kills += 1
        now, begun = measured(journal), machine.timed()
        assert now[: len(before)] == before, "a record of the journal was lost"
        assert begun <= total - len(before), "what the journal has was measured again"
        again = begun - (len(now) - len(before))
        assert again <= under_way, "more was measured again than was under way"
    return rows, kills


def samples(rows):
    return {(row["key"], row["configuration"]): row["samples_us"] for row in rows}


@pytest.mark.parametrize(
    ("job", "total", "under_way", "writes"),
    [
        ("sweep", 3, GROUP, 3 + 3),  # each passed the gauntlet and was timed
        ("confirmation", 3 * 2 * 3, 3, 3 * 2),  # processes and states
    ],
)
def test_a_job_that_is_killed_at_every_write_loses_nothing(machine, job, total, under_way, writes):
    machine.sweep(JOB)
    whole = machine.rows(job, "whole")
    assert [(row["status"], bool(row["samples_us"])) for row in whole] == [
        ("correct", True)
    ] * total
    rows, kills = killed_at_every_write(machine, job, under_way, total)
    assert kills == 3 * writes
    assert (machine.session["measured"], machine.session["children"]) == (0, 0)  # by the last run
    assert same(rows) == same(whole)
    assert samples(rows) == samples(measured(machine.folder / "killed"))
    machine.project = {"commit": "d", "dirty": False}
    machine.rows(job, "killed")
    of_another_commit = records.read(machine.folder / "killed.parquet")[1]
    # which measured nothing
    assert (of_another_commit["commit"], of_another_commit["dirty"]) == ("c", True)
    assert machine.timed() == 0


def test_a_forced_probe_gives_the_description_that_the_samples_have(machine, monkeypatch):
    (device,), journal = simulated.detect(), Journal(machine.folder / "environment.journal")
    child = InProcess("cuda", "GPU-1", None)
    child.open(machine.folder)
    first = probe.probe_once(device, child, journal, "code")
    assert (first["attributes"], first["peaks"]) == (
        simulated.environment()["attributes"],
        {"fp32_tflops": 60.0, "copy_tb_s": 4.0},
    )
    described = probe.probe(device, child)
    monkeypatch.setattr(probe, "probe", lambda *_: described | {"again": True})
    assert probe.probe_once(device, child, journal, "code") == first
    assert probe.probe_once(device, child, journal, "other code")["again"]
    child.attributes = {**first["attributes"], "library": "cuBLAS 14"}
    assert probe.probe_once(device, child, journal, "code")["again"]


@pytest.mark.parametrize("job", ["sweep", "confirmation"])
def test_a_job_starts_no_worker_before_the_device_is_its_own(machine, virtual_clock, job):
    machine.sweep(JOB)
    other, asked = exclusive(["GPU-1"]), []
    other.__enter__()

    def end():
        asked.extend(machine.asked)
        other.__exit__(None, None, None)

    machine.asked = []
    virtual_clock.after(2.5 * WAIT_SECONDS, end)
    rows = machine.rows(job, "waited")
    assert asked == []
    assert machine.session["waited_seconds"] == 3 * WAIT_SECONDS
    assert {row["status"] for row in rows} == {"correct"}
