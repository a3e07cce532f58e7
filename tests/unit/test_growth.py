"""A campaign five times as large is at most five times the work: counted, not timed."""

import weakref
from contextlib import closing
from functools import cache
from types import SimpleNamespace

import growth
import pytest
import work
from growth import Size
from ladder.analysis import compare, dataset, tables
from ladder.analysis.dataset import Dataset
from ladder.claims import evidence, judge
from ladder.core.places import HOME
from ladder.devices.detect import DetectedDevice
from ladder.figures import draw, explorer
from ladder.measuring.confirmation import finalists
from ladder.measuring.protocol import Candidate
from ladder.model import campaign_file, kernel_file
from ladder.pipeline.targets import Targets
from ladder.storage import samples
from ladder.storage.csv_files import read_csv
from ladder.storage.dataset_layout import CLAIMED_OF, DRAWN_FROM, TABLES
from ladder.storage.journal import Journal
from planted import written

TIMES = (1, 2, 5)
AXES = {
    "kernels": lambda n: Size(13 * n, 2, 3),  # more than the figures name
    "configurations": lambda n: Size(2, 3 * n, 3),
    "problems": lambda n: Size(2, 3, 3 * n),
}
MOST = 0.02
"""How far above a straight line a count may be, relatively."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Campaigns by axis and size, with their datasets and tables."""

    @cache
    def make(axis, times):
        size, folder = AXES[axis](times), tmp_path_factory.mktemp("made")
        for name, text in growth.kernels(size).items():
            written(folder / "kernels" / "cuda" / f"{name}.cu", text)
        kernels = kernel_file.discover(folder)
        campaign = campaign_file.load(growth.campaign(size), "t", kernels)
        device = DetectedDevice("d", "cuda", "D", "sm_90", 0)
        planned = Targets(campaign, [device], ["sm_90"]).plans()
        plans = {
            name.removeprefix("measure-d-"): plan["plan"]
            for name, plan in planned
            if name.startswith("measure-")
        }
        growth.write(folder, plans)
        whole = Dataset.open(folder, kernels.values())
        whole.write({name: folder / f"{name}.csv" for name in TABLES})
        read = {name: read_csv(folder / f"{name}.csv") for name in DRAWN_FROM}
        return SimpleNamespace(folder=folder, kernels=kernels, dataset=whole, tables=read)

    return make


def aggregate(made):
    dataset = Dataset.open(made.folder, made.kernels.values())
    dataset.write({name: made.folder / f"again-{name}.csv" for name in TABLES})


def choose(made):
    """As the confirmation does."""
    paths = (made.folder / "samples").iterdir()
    rows = (row for path in paths for row in samples.read(path)[0])
    finalists(rows, 0.02, 3, lambda name, _, label, __: Candidate(name, label, sha256=name + label))


def claims(made):
    tables = {name: made.tables[name] for name in CLAIMED_OF}
    judge.held_against(HOME, evidence.of_tables(tables, growth.DEVICE, "d"))


def changes(made):
    compare.changes(made.dataset, made.dataset, {})


def page(made):
    named = {"d": (made.tables["best"], growth.DEVICE)}
    (made.folder / explorer.FOLDER).mkdir(exist_ok=True)
    for name, text in explorer.files("t", named, []).items():
        (made.folder / name).write_text(text)


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("stage", [aggregate, choose, claims, changes, page])
def test_a_stage_takes_no_more_for_each_row_of_a_larger_campaign(made, stage, axis):
    campaigns = [made(axis, n) for n in TIMES]
    stage(campaigns[0])  # imports, and what is read and computed once
    counts = [work.of(lambda campaign=campaign: stage(campaign)) for campaign in campaigns]
    lines, read, wrote = zip(*counts, strict=True)
    assert work.excess(lines) < MOST, lines
    # files are compressed, the more so the longer they are
    assert work.excess(read) < 5 * MOST, read
    assert work.excess(wrote) < 5 * MOST, wrote


def test_tables_hold_the_rows_of_two_files_at_most(made, monkeypatch):
    """However many kernels there are."""
    campaign, frames, alive = made("kernels", TIMES[-1]), [], []
    monkeypatch.setattr(dataset, "AT_ONCE", 1)

    def summarize(measured, known, summarize=tables.summarize):
        summary = summarize(measured, known)
        frames.extend(map(weakref.ref, (measured, summary)))
        alive.append(sum(frame() is not None for frame in frames))
        return summary

    monkeypatch.setattr(tables, "summarize", summarize)
    aggregate(campaign)
    assert len(alive) == len(list((campaign.folder / "samples").iterdir())) > 3
    assert max(alive) <= 4, alive


@pytest.mark.slow
@pytest.mark.parametrize("axis", AXES)
def test_figures_have_no_more_for_each_row_of_a_larger_campaign(made, axis, monkeypatch):
    # where things stand takes longest, and is not counted
    monkeypatch.setattr("ladder.figures.layout._fill", lambda *_: None)
    artists = []

    def figures(tables):
        planned = draw.plan(tables, growth.DEVICE)
        artists.append(
            {
                stem: len(draw.draw(name, data).findobj())
                for stem, (data, name) in planned.items()
                if not name.startswith("parameters-") or name.endswith("-00_made")
            }
        )

    tables = [made(axis, n).tables for n in TIMES]
    lines = [work.of(lambda of_size=of_size: figures(of_size)).lines for of_size in tables]
    assert work.excess(lines) < MOST, lines
    for stem in artists[0]:
        counts = [drawn[stem] for drawn in artists]
        assert counts[-1] <= TIMES[-1] * counts[0], (stem, counts)


def test_a_journal_is_read_once(tmp_path):
    def resume(count):
        with closing(Journal(tmp_path / f"{count}.journal")) as journal:
            assert len(journal) == count

    for count in (10, 20, 50):
        with closing(Journal(tmp_path / f"{count}.journal")) as journal:
            for number in range(count):
                journal.append({"key": f"{number:03}", "status": "correct"})
    resume(10)
    counts = [work.of(lambda n=n: resume(10 * n)) for n in TIMES]
    lines, read, wrote = zip(*counts, strict=True)
    assert work.excess(lines) < MOST, lines
    assert work.excess(read) < MOST, read
    assert not any(wrote)
