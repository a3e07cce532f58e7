"""One campaign on 16 simulated GPUs of 4 models: planned, measured, killed and resumed."""

import itertools
import json

import pytest
from jobs import Jobs
from ladder.devices import detect
from ladder.measuring import confirmation, job, sweep
from ladder.measuring.protocol import Time
from ladder.model import campaign
from ladder.pipeline.targets import Targets
from ladder.storage import samples
from ladder.storage.journal import Journal, journals_of

MODELS = {f"model{n}": [f"GPU-{n}{gpu}" for gpu in range(4)] for n in range(4)}
"""The GPUs of each partition."""
MEASURING = {"measure": (sweep, job.Job), "confirm": (confirmation, confirmation.ConfirmationJob)}


class Killed(BaseException):
    """In place of SIGKILL, which no code catches."""


class Machines(Jobs):
    """Runs the planned jobs, each on another GPU of its partition."""

    def __init__(self, folder, monkeypatch):
        super().__init__(
            folder,
            monkeypatch,
            {"a": 1, "b": 2, "c": 1},
            problems={"cuda": [{"square": [5, 6, 7]}]},
            baselines={"cuda": ["cublas"]},
            partitions={
                name: {"device": f"nvidia-{name}", "architecture": "sm_90"} for name in MODELS
            },
        )
        whole = self.plan({})
        devices = detect.resolve(whole, [], detect.detect_cpu())
        self.targets = Targets(whole, devices, ["sm_90"])
        self.gpus = {name: itertools.cycle(uuids) for name, uuids in MODELS.items()}

    def run(self, rule, after=lambda: None):
        """Run all jobs of a rule. Returns the sessions of each partition, and the files that each
        job wrote.
        """
        sessions, written = {name: [] for name in MODELS}, []
        plans = dict(self.targets.plans())
        for slug in MODELS:
            swept = [self.folder / path for path in self.targets.samples(slug)]
            confirmed = [self.folder / path for path in self.targets.confirmed(slug)]
            more = {"samples": swept, "swept": "code"} if rule == "confirm" else {}
            for output in confirmed if rule == "confirm" else swept:
                name = output.stem.removeprefix("confirmed")
                name = f"confirm-{slug}{name}" if more else f"measure-{slug}-{name}"
                module, kind = MEASURING[rule]
                output.parent.mkdir(parents=True, exist_ok=True)
                planned, before = self.begin(kind, plans[name]["plan"], **more), self.files()
                uuid = next(self.gpus[slug])
                sessions[slug].append(module.run(planned, journals_of(output), output, [uuid]))
                written.append({path for path, text in self.files() if (path, text) not in before})
                after()
        return sessions, written

    def files(self):
        """All results, with their contents."""
        return {
            (path, path.read_bytes())
            for path in self.folder.rglob("results/*/*/*/*")
            if path.is_file()
        }


@pytest.fixture
def machines(tmp_path, monkeypatch, gpus):
    settings = json.loads(gpus.read_text())
    uuids = list(itertools.chain.from_iterable(MODELS.values()))
    gpus.write_text(json.dumps(settings | {"uuids": uuids}))
    monkeypatch.setattr(campaign, "CONFIRM_US", 1e6)  # several parts
    return Machines(tmp_path, monkeypatch)


def test_no_two_jobs_of_a_campaign_on_many_machines_write_a_file(machines):
    for rule, jobs in (("measure", 4), ("confirm", 3)):
        sessions, written = machines.run(rule)
        assert {len(of_one) for of_one in sessions.values()} == {jobs}
        assert all(written)
        assert sum(map(len, written)) == len(set.union(*written))
    for slug in MODELS:
        swept, confirmed = (
            [row for path in paths for row in samples.read(machines.folder / path)[0]]
            for paths in (machines.targets.samples(slug), machines.targets.confirmed(slug))
        )
        assert len(swept) == 3 * 5
        assert len({row["uuid"] for row in swept}) == 4
        assert len(confirmed) <= machines.targets.measurements(slug) - len(swept)
        by_problem = {(row["m"], row["uuid"]) for row in confirmed}
        assert len(by_problem) == 3  # all processes of a problem on one GPU


def test_a_campaign_on_many_machines_goes_on_where_it_was_killed(machines, monkeypatch):
    append, writes = Journal.append, itertools.count(1)

    def killed(journal, record):
        append(journal, record)
        if next(writes) % 19 == 0:
            raise Killed

    kills = 0
    monkeypatch.setattr(Journal, "append", killed)
    while True:
        try:
            machines.run("measure")
            break
        except Killed:
            kills += 1
    assert kills > 3
    rows = sum(
        len(list(samples.read(path)[0])) for path in machines.folder.rglob("float32.*.parquet")
    )
    assert rows == len(MODELS) * 3 * 5
    machines.run("measure", after=lambda: machines.of(Time) and pytest.fail("measured again"))
