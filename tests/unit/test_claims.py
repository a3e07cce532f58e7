"""What the project says was measured is what the committed data say, and what others measured is held against it rightly."""

import json
import math
import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import synthetic
import yaml
from ladder.analysis import repeatability
from ladder.analysis.dataset import Dataset
from ladder.analysis.repeatability import Limit
from ladder.claims import definitions, evidence, report
from ladder.claims import judge as judged
from ladder.claims.answers import STUDIES
from ladder.claims.definitions import Claim
from ladder.claims.evidence import Data, Finding
from ladder.claims.judge import CLAIMED, ELSEWHERE, FAILED, MEAN, REPRODUCED, UNSURE
from ladder.claims.study import NOTHING
from ladder.core.errors import InputError
from ladder.core.files import ROOT
from ladder.model import campaign_file
from ladder.model.kernel_file import discover
from ladder.pipeline.published import Published
from ladder.publishing import pages
from ladder.publishing.page_data import Story
from ladder.storage.dataset_layout import ANSWERS, PUBLISHED
from ladder.storage.published_index import HEADLINE_DEVICE

CLAIMS = {claim.id: claim for claim in definitions.read(ROOT)}
WRITTEN = ("data.md", "faults.md", "frauds.md")
"""Pages whose own tests hold them against the data."""
PAGES = sorted(
    page for folder in ("", "docs", "docs/ladder", "config") for page in (ROOT / folder).glob("*.md") if page.name not in WRITTEN
)


# What the pages say.


def test_no_page_has_a_measured_number_outside_claims_and_tables():
    assert {page.relative_to(ROOT): found for page in PAGES if (found := pages.unsaid(page.read_text()))} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It has 52.1 TFLOP/s here.", ["52.1 TFLOP/s"]),
        (
            "1,234 GFLOPs, 4.2 TB/s, 17 µs, 3 ms, 90 s, 0.4 J, 700 W",
            ["1,234 GFLOPs", "4.2 TB/s", "17 µs", "3 ms", "90 s", "0.4 J", "700 W"],
        ),
        ("a gain of ×1.07, or 7 %, or 1.07 times as fast", ["×1.07,", "7 %", "1.07 times"]),
        ("1.3x faster, 1.3 times the rate, 12x", ["1.3x", "1.3 times", "12x"]),
        (
            "Four times cuBLAS, twice as fast, nearly twice\nthe rate, twenty times",
            ["Four times", "twice as", "twice\nthe rate", "twenty times"],
        ),
        (
            "under a minute, half a second, 2 GB, 19 MB, 2 minutes, some minutes, a third faster",
            ["a minute", "half a second", "2 GB", "19 MB", "2 minutes", "some minutes", "a third faster"],
        ),
        ("a second launch, a third rung, 32 KiB, in a second", []),
        ("It is done twice the same way, 2 x 4, 4x4 and 2^30 times K: sometimes.", []),
        ("tiles of 128 × 64, 8 x 8 and 2^30 times K, 95 tests, `12 %`", []),
        ("```\nwall 3 s\n```\n\nand <!-- value: claim x -->1.07 times as fast<!-- end -->", []),
        ("000 says 13 ms and 1.2 GFLOP/s<!-- from: 000 --> there.", []),
        ("000 says 13 ms<!-- from: 000 -->, we 12 ms.", ["12 ms"]),
        ("- 13 ms\n- 12 ms<!-- from: 000 -->", ["13 ms"]),
        ("| 13 ms |\n| 12 ms<!-- from: 000 --> |", ["13 ms"]),
        ("13 ms\n\n12 ms<!-- from: 000 -->", ["13 ms"]),
    ],
)
def test_what_a_measured_number_is(text, found):
    assert pages.unsaid(text) == found


def test_a_claim_is_said_where_it_says():
    said = {id: set() for id in CLAIMS}
    for page in PAGES:
        name, text = page.relative_to(ROOT).as_posix(), page.read_text()
        for marker in pages.PART.finditer(text):
            match marker[2].split():
                case ["claimed"]:
                    for id in CLAIMS:
                        said[id].add(name)
                case ["claim", id]:
                    said[id].add(name)  # a KeyError: there is no such claim
    assert said == {id: set(claim.said_in) for id, claim in CLAIMS.items()}


def test_what_is_set_by_hand_stands_in_the_sentence():
    budgets = {claim.id: re.fullmatch(r"value <= ([1-9]\d*)", claim.holds) for claim in CLAIMS.values()}
    seconds = {id: found[1] for id, found in budgets.items() if found}
    assert set(seconds) == {"answered-cuda", "answered-watched", "answered-cpu", "cost"}
    assert all(f" within {limit} s" in CLAIMS[id].says for id, limit in seconds.items())
    assert CLAIMS["another-run"].holds == "value >= 0.93"
    assert "at least 93 %" in CLAIMS["another-run"].says
    by_hand = (ROOT / "config" / "README.md").read_text().partition("set by hand")[2]
    assert all(f"`{id}`" in by_hand for id in (*seconds, "another-run"))


def test_the_campaign_has_all_that_the_claims_ask_of_a_dataset():
    path = ROOT / "config" / "reproduce.yaml"
    data = yaml.safe_load(path.read_text()) | {"kernels": Published(ROOT / PUBLISHED, {}).ids(["float32"])}
    plan = campaign_file.load(data, "reproduce.yaml", discover(ROOT))
    labels = {kind: {problem.label for problem in plan.problems(kind, "float32")} for kind in ("cuda", "cpu")}
    names = {kernel.name for kernel in plan.kernels.values()}
    for claim in CLAIMS.values():
        if claim.table in ("best", "pairs") and not claim.whole:
            wanted = claim.rows["problem"]
            kind = claim.where.get("kind", "cuda")
            assert {str(problem) for problem in (wanted if isinstance(wanted, list) else [wanted])} <= labels[kind], claim.id
            assert claim.rows.get("kernel", "01_naive_uncoalesced") in names, claim.id


# What data say.

SIZES = [(1024, 1024, 1024), (4096, 4096, 4096)]
KERNELS = (
    "02_naive_coalesced",
    "05_register_tile",
    "07_double_buffer",
    "08_padded_shared",
    "10_block_tile_128",
    "16_thin_edge",
    "cublas",
)
OWN = """
- id: gains
  says: A rung gains.
  where: {kind: cuda}
  table: pairs
  rows: {pair: gain, element_type: float32, state: warm, problem: [1024, 4096]}
  value: ratio
  low: low
  high: high
  when: published > 1 and low > 1.1 or published < 1 and high < 0.9
  holds: low > 1 if published > 1 else high < 1
  fails: high < 1 if published > 1 else low > 1
  said_in: []
- id: ratio-10
  says: Rung 10 has {value%} of cuBLAS's rate (95 % interval {low} to {high}).
  where: {device: nvidia-made-up}
  table: best
  rows: {kernel: 10_block_tile_128, problem: 4096, element_type: float32, state: warm, interval: between-process}
  value: ratio
  low: ratio_low
  high: ratio_high
  holds: near_low <= value <= near_high
  said_in: []
- id: ratio-05
  says: So does rung 05, at both sizes.
  where: {device: nvidia-made-up}
  table: best
  rows: {kernel: 05_register_tile, problem: [1024, 4096], element_type: float32, state: warm, interval: between-process}
  value: ratio
  low: ratio_low
  high: ratio_high
  holds: near_low <= value <= near_high
  said_in: []
- id: exact
  says: All is right ({value} wrong).
  where: {}
  table: summary
  which: {status: incorrect}
  value: count
  holds: value == 0
  said_in: []
"""


RUN = "nvidia-made-up/default/{}"


MACHINES, DAYS = ("GPU-0", "GPU-1", "GPU-2", "GPU-3"), (2, 3, 1, 4)
"""Where and when the published runs were measured."""


def made(folder, seed, uuid="GPU-9", **given):
    fingerprint = {"driver": "1", "uuids": [uuid]}
    return synthetic.write(folder, seed, problems=SIZES, kernels=KERNELS, fingerprint=fingerprint, of_run=0.002, **given)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A checkout with four published runs, each on another machine, and what they say to its claims. The featured run is not the earliest."""
    root = tmp_path_factory.mktemp("checkout")
    (root / "config").mkdir()
    (root / "config" / "claims.yaml").write_text(OWN)
    for run, seed in enumerate((1, 2, 0, 3)):
        time = f"2026-01-0{DAYS[run]}T00:00:00+00:00"
        made(root / "results" / "published" / RUN.format(run), seed, MACHINES[run], time=time)
    shutil.rmtree(root / "results" / "published" / RUN.format(3) / "samples")
    synthetic.index(root / "results" / "published")
    patch = pytest.MonkeyPatch()
    patch.setattr(Dataset, "open", cache(Dataset.open))  # each is read once for both
    repeatability.write(root / "results" / "published")
    judged.write_published(root)
    patch.undo()
    return root


def judged_entries(root, folder, **environment):
    """The entries of the dataset in a folder, by id."""
    one = evidence.of_samples(folder)
    return {
        entry["id"]: entry for entry in judged.held_against(root, [replace(one, environment={**one.environment, **environment})])
    }


def states(entries):
    return {entry["state"] for entry in entries.values()}


def ratio_10(checkout, run):
    """The ratio of rung 10 at 4096 in a published run, with the ends of its interval."""
    best = evidence.of_samples(checkout / "results" / "published" / RUN.format(run)).tables["best"]
    row = best[(best["kernel"] == "10_block_tile_128") & (best["problem"] == "4096") & (best["state"] == "warm")].iloc[0]
    return [row[name] for name in ("ratio", "ratio_low", "ratio_high")]


def test_published_data_decide_what_is_said(checkout):
    entries = judged.of_published(checkout)
    assert {entry["state"] for entry in entries} <= {CLAIMED, REPRODUCED, UNSURE}
    assert {entry["id"].split(":")[0] for entry in entries} == {"gains", "ratio-10", "ratio-05", "exact"}
    asked = [entry["dataset"] for entry in entries if entry["id"] == "exact"]
    assert asked == [RUN.format(run) for run in (2, 0, 1)]  # the repeat has no sweep to be wrong in
    written = judged.read_published(checkout)  # once each: by the data that fix what is claimed
    assert [entry["id"] for entry in written] == list(dict.fromkeys(entry["id"] for entry in entries))
    assert {entry["where"] for entry in entries if entry["id"].startswith("gains:")} == {"any GPU; measured on nvidia-made-up"}


def test_the_earliest_data_claim_a_gain_and_all_later_ones_are_judged(checkout):
    gains = [entry for entry in judged.of_published(checkout) if entry["id"].startswith("gains:")]
    assert not any(entry["id"].startswith("gains:08_padded_shared") for entry in gains)  # a twin: nothing to claim
    of_one = [entry for entry in gains if entry["id"] == "gains:05_register_tile:02_naive_coalesced:4096"]
    first, *later = of_one
    assert (first["state"], first["dataset"], first["published"]) == (CLAIMED, RUN.format(2), None)
    assert [entry["dataset"] for entry in later] == [RUN.format(run) for run in (0, 1, 3)]
    assert {(entry["state"], entry["published"]) for entry in later} == {(REPRODUCED, first["value"])}


def test_a_number_is_the_mean_over_machines(checkout):
    first, *judged_runs = [entry for entry in judged.of_published(checkout) if entry["id"] == "ratio-10"]
    logs = np.log([ratio_10(checkout, run)[0] for run in range(4)])
    half = 3.1824 * logs.std(ddof=1) / 2
    ends = math.exp(logs.mean() - half), math.exp(logs.mean() + half)
    assert (first["value"], first["low"], first["high"]) == pytest.approx((math.exp(logs.mean()), *ends), rel=1e-4)
    assert (first["state"], first["dataset"], first["machines"], first["where"]) == (CLAIMED, MEAN, 4, "nvidia-made-up")
    assert first["says"] == (
        f"Rung 10 has {100 * first['value']:.4g} % of cuBLAS's rate (95 % interval {ends[0]:.4g} to {ends[1]:.4g})."
    )
    assert [entry["dataset"] for entry in judged_runs] == [RUN.format(run) for run in (2, 0, 1, 3)]
    for entry in judged_runs:  # by the other machines
        others = [logs[run] for run in range(4) if entry["dataset"] != RUN.format(run)]
        assert entry["published"] == pytest.approx(math.exp(np.mean(others)), rel=1e-5)
    assert {entry["state"] for entry in judged_runs} <= {REPRODUCED, UNSURE}


def test_a_machine_has_one_value_however_often_it_was_measured(checkout):
    data = [evidence.of_samples(checkout / "results" / "published" / RUN.format(run)) for run in (0, 0, 1, 2)]
    values = (1.0, 1.02, 1.1, 1.2)
    mean = evidence.over_machines([(it, found(value, 0.1)) for it, value in zip(data, values, strict=True)])
    logs = np.log([math.sqrt(1.02), 1.1, 1.2])
    assert math.log(mean.value) == pytest.approx(logs.mean())
    assert math.log(mean.high / mean.value) == pytest.approx(4.3027 * logs.std(ddof=1) / math.sqrt(3), rel=1e-4)
    assert mean.machines == 3


def test_one_machines_interval_is_called_that(checkout):
    data = evidence.of_samples(checkout / "results" / "published" / RUN.format(0))
    (asked,) = (one for one in definitions.read(checkout) if one.id == "ratio-10")
    (found,) = evidence.find(asked, data)
    mean = evidence.over_machines([(data, found), (data, replace(found, value=1.02 * found.value))])
    assert mean.value == pytest.approx(math.sqrt(1.02) * found.value)
    assert (mean.low / mean.value, mean.machines, mean.prediction) == (pytest.approx(found.low / found.value), 1, None)


def test_another_machine_is_within_the_prediction_interval():
    """Of the mean over machines: 95 % of all machines are, however few the mean is over."""
    random, inside = np.random.default_rng(4), []
    for _ in range(4000):
        logs = random.normal(scale=0.01, size=5)
        low, high = (math.exp(logs[:4].mean() + side * 3.1824 * logs[:4].std(ddof=1) / 2) for side in (-1, 1))
        mean = Finding((), "", math.exp(logs[:4].mean()), low, high, 5, {}, machines=4)
        inside.append(abs(logs[4] - logs[:4].mean()) <= mean.prediction.at(0.95))
    assert np.mean(inside) == pytest.approx(0.95, abs=0.015)
    assert mean.prediction.degrees == 3  # of machines, not of a run's processes


def test_what_is_claimed_together_is_judged_together(checkout, tmp_path, monkeypatch):
    """Of claims to be near to what was published any may be off: all count; of another claim its own things."""
    counts, judge = {}, judged.judge

    def counting(claim, found, published, limit, count):
        counts.setdefault(claim.id, set()).add(count)
        return judge(claim, found, published, limit, count)

    monkeypatch.setattr(judged, "judge", counting)
    entries = judged_entries(checkout, made(tmp_path / "run", 11))
    gains, near = (sum(id.startswith(name) for id in entries) for name in ("gains:", "ratio-"))
    assert min(gains, near) > 2
    assert counts == {"ratio-10": {near}, "ratio-05": {near}, "gains": {gains}, "exact": {1}}


def test_another_run_of_the_same_code_reproduces_it(checkout, tmp_path):
    for seed in (11, 12, 13):
        entries = judged_entries(checkout, made(tmp_path / f"run{seed}", seed))
        assert states(entries) <= {REPRODUCED, UNSURE}
        assert sum(entry["state"] == REPRODUCED for entry in entries.values()) >= len(entries) - 1
        assert set(entries) == {entry["id"] for entry in judged.read_published(checkout)}


def test_a_kernel_that_is_three_per_cent_slower_is_named(checkout, tmp_path):
    """One claim fails, and it is the one about that kernel."""
    entries = judged_entries(checkout, made(tmp_path / "slowed", 21, slower={"10_block_tile_128": 1.03}))
    failed = [entry for entry in entries.values() if entry["state"] == FAILED]
    assert [entry["id"] for entry in failed] == ["ratio-10"]
    assert "\nNot reproduced: Rung 10 has " in report.text(list(entries.values()))
    assert re.search(
        r" Here 0\.9\d* \(95 % interval 0\.\d+ to 0\.\d+\), published 0\.9\d*, runs differ by at most ×1\.0\d*\. ratio-10, slowed$",
        report.failure(failed[0]),
    )


def test_a_gain_that_is_lost_is_not_reproduced(checkout, tmp_path):
    entries = judged_entries(checkout, made(tmp_path / "lost", 22, slower={"05_register_tile": 5.0}))
    gain = entries["gains:05_register_tile:02_naive_coalesced:4096"]
    assert (gain["state"], gain["where"]) == (FAILED, "any GPU; measured on nvidia-made-up")
    assert gain["published"] > 1 > gain["high"]
    assert "05_register_tile over 02_naive_coalesced at 4096" in gain["says"]


def test_where_a_claim_holds_and_where_nothing_was_measured(checkout, tmp_path):
    folder = made(tmp_path / "other", 23)
    entries = judged_entries(checkout, folder, device="nvidia-other")
    assert entries["ratio-10"]["state"] == ELSEWHERE
    (published,) = (entry for entry in judged.read_published(checkout) if entry["id"] == "ratio-10")
    assert entries["ratio-10"]["says"] == published["says"]  # not its template
    assert entries["exact"]["state"] == REPRODUCED
    gains = [entry for id, entry in entries.items() if id.startswith("gains:")]
    assert {entry["state"] for entry in gains} == {REPRODUCED}
    assert all(entry["limit"] is None for entry in gains)  # how far two models differ is not known
    left_out = synthetic.write(tmp_path / "left-out", 24, problems=SIZES, kernels=KERNELS, processes=0)
    entries = judged_entries(checkout, left_out)
    assert entries["exact"]["state"] == REPRODUCED
    assert {entry["state"] for id, entry in entries.items() if id != "exact"} == {NOTHING}
    assert judged_entries(checkout, folder, kind="cpu")["gains"]["state"] == ELSEWHERE


def test_what_is_compiled_otherwise_is_another_kernel(checkout, tmp_path):
    """Only what asks for all rows is asked of it."""
    entries = judged_entries(checkout, made(tmp_path / "nvrtc", 26, builds=("compiler=nvrtc",)))
    assert entries["exact"]["state"] == REPRODUCED
    assert {entry["state"] for id, entry in entries.items() if id != "exact"} == {NOTHING}


def test_what_is_wrong_is_not_exact(checkout, tmp_path):
    one = evidence.of_samples(made(tmp_path / "wrong", 25))
    one.tables["summary"].loc[0, "status"] = "incorrect"
    (entry,) = (entry for entry in judged.held_against(checkout, [one]) if entry["id"] == "exact")
    assert (entry["state"], entry["value"]) == (FAILED, 1)
    row = one.tables["summary"].loc[0]
    assert entry["rows"] == [f"{row['kernel']} {row['configuration']} {row['problem']} float32 warm"]
    assert report.failure(entry).splitlines()[1:] == [f"  {row}" for row in entry["rows"]]
    many = entry | {"rows": [f"row {i}" for i in range(7)]}
    assert report.failure(many).splitlines()[-2:] == ["  row 4", "  and 2 more"]


def test_a_kernel_of_ones_own_refutes_nothing(checkout, tmp_path):
    one = evidence.of_samples(made(tmp_path / "mine", 25))
    summary = one.tables["summary"]
    one.tables["summary"] = pd.concat([summary, summary.iloc[:1].assign(kernel="colmajor", status="incorrect")])
    (entry,) = (entry for entry in judged.held_against(checkout, [one]) if entry["id"] == "exact")
    assert (entry["state"], entry["value"]) == (REPRODUCED, 0)


def test_what_a_campaign_lacks_for_a_claim_is_said(checkout, tmp_path):
    folder = synthetic.write(
        tmp_path / "short", 27, problems=SIZES[1:], kernels=[it for it in KERNELS if it != "05_register_tile"]
    )
    entries = judged_entries(checkout, folder).values()
    told = report.text([entry | {"dataset": "results/short/gpu"} for entry in entries])
    assert "  ratio-05: 2 not measured yet (this campaign has no kernel 05_register_tile; no problem 1024)\n" in told
    assert "  ratio-10: reproduced\n" in told
    assert re.search(r"\nClaims: \d+ reproduced, 0 not reproduced, (\d+ not distinguishable, )?\d+ not measured yet$", told)


def test_what_later_data_refute_is_counted_and_asked_of_nobody(checkout, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "claims.yaml").write_text(OWN)
    for seed in range(3):
        slower = {"10_block_tile_128": 6.0 if seed == 2 else 1.0}
        made(tmp_path / "results" / "published" / RUN.format(seed), seed, time=f"2026-01-0{seed + 1}T", slower=slower)
    synthetic.index(tmp_path / "results" / "published")
    found = judged.of_published(tmp_path)
    lost = {f"gains:10_block_tile_128:08_padded_shared:{size}" for size in (1024, 4096)}
    states = {(entry["id"], entry["dataset"]): entry["state"] for entry in found}
    for id in lost:
        assert [states[id, RUN.format(run)] for run in range(3)] == [CLAIMED, REPRODUCED, FAILED]
    assert lost <= {entry["id"] for entry in found if entry["state"] == FAILED}
    assert report.failed(found) == []  # the published data's own
    judged.write_published(tmp_path)
    assert {entry["id"] for entry in judged.read_published(tmp_path) if entry["state"] == FAILED} == {
        entry["id"] for entry in found if entry["state"] == FAILED
    }
    assert not lost & set(judged_entries(tmp_path, tmp_path / "results" / "published" / RUN.format(0)))
    told = fill_claimed(tmp_path)
    failed = sum(entry["state"] == FAILED for entry in found if entry["id"].startswith("gains:"))
    assert f" · ✗ {failed} |" in told


def fill_claimed(root):
    return pages.fill("<!-- table: claimed --><!-- end -->", Story(root))


def test_without_published_data_all_is_unmeasured_but_what_asks_for_none(checkout, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "claims.yaml").write_text(OWN)
    assert {entry["state"] for entry in judged.of_published(tmp_path)} == {NOTHING}
    entries = judged_entries(tmp_path, checkout / "results" / "published" / RUN.format(1))
    assert {id: entry["state"] for id, entry in entries.items()} == {
        "gains": NOTHING, "ratio-10": NOTHING, "ratio-05": NOTHING, "exact": REPRODUCED,
    }  # fmt: skip
    assert entries["exact"]["says"] == "All is right (0 wrong)."


def test_a_failure_has_no_interval_that_says_nothing():
    entry = {"id": "a", "says": "S.", "value": 1.0, "low": 0.0, "high": 1228.64, "limit": None, "published": None, "dataset": "d"}
    assert report.failure(entry) == "S. Here 1 (95 % interval not known). a, d"
    page = report.page([entry | {"where": "here", "state": FAILED}])
    assert '<td class="number">not known<' in page
    assert "1229" not in page


def claim(**given):
    return Claim(**{"id": "a", "says": "s", "where": {}, "value": "x", "said_in": [], "table": "best"} | given)


def found(value, half=0.0, processes=5):
    return Finding((), "", value, value * math.exp(-half), value * math.exp(half), processes, {})


def test_a_sentence_has_its_numbers_or_leaves_the_parentheses_out():
    said = claim(holds="value", says="It is {value}, or {value%} (95 % interval {low} to {high%}).")
    assert judged.say(said, found(1.0, 0.01)) == "It is 1, or 100 % (95 % interval 0.99 to 101 %)."
    assert judged.say(said, None) == "It is …, or …."


SIGN = {"holds": "low > 1", "fails": "high < 1"}
NEAR = {"holds": "near_low <= value <= near_high"}


@pytest.mark.parametrize(
    ("given", "value", "published", "limit", "count", "state"),
    [
        (SIGN, found(1.05, 0.01), None, None, 1, REPRODUCED),
        (SIGN, found(1.005, 0.01), None, None, 1, UNSURE),
        (SIGN, found(0.95, 0.01), None, None, 1, FAILED),
        (SIGN, found(1.05, 0.01), None, Limit(0.06), 1, UNSURE),  # runs differ by more
        (SIGN, found(0.97, 0.02), None, None, 1, FAILED),
        (SIGN, found(0.97, 0.02), None, None, 50, UNSURE),  # one of fifty may be off so far
        (NEAR, found(1.02, 0.01), found(1.0, 0.01), Limit(0.03), 1, REPRODUCED),
        (NEAR, found(1.05, 0.01), found(1.0, 0.01), Limit(0.03), 1, FAILED),
        (NEAR, found(0.95, 0.01), found(1.0, 0.01), Limit(0.03), 1, FAILED),
        (NEAR, found(1.04, 0.01), found(1.0, 0.01), Limit(0.03), 20, UNSURE),
        (NEAR, found(1.044, 0.01), found(1.0, 0.01), Limit(0.03), 4, FAILED),
        (NEAR, found(1.044, 0.01), found(1.0, 0.01), Limit(0.03, 3), 4, UNSURE),  # four machines tell less of what is rare
        (NEAR, found(1.04, 0.01), found(1.0, 0.05), Limit(0.001), 1, REPRODUCED),  # what was published is not known better
        (NEAR, found(1.01, 0.01), found(1.0, 0.01), None, 1, REPRODUCED),
        (NEAR, found(1.05, 0.01), found(1.0, 0.01), None, 1, UNSURE),  # how far runs differ is not known
        ({"holds": "1 / limit <= value <= limit"}, found(1.02), None, Limit(0.03), 1, REPRODUCED),
        ({"holds": "1 / limit <= value <= limit"}, found(1.04), None, Limit(0.03), 1, FAILED),
        ({"holds": "1 / limit <= value <= limit"}, found(1.04), None, None, 1, UNSURE),
    ],
)
def test_how_a_value_is_judged(given, value, published, limit, count, state):
    assert judged.judge(claim(**given), value, published, limit, count) == state


STUDIED = [
    ("another-run", "repeat", {"same_machine": {"pairs": 400, "covered": 0.94}}, REPRODUCED, 0.94),
    ("another-run", "repeat", {"same_machine": {"pairs": 400, "covered": 0.90}}, FAILED, 0.90),
    ("another-run", "repeat", {"same_machine": {"pairs": 0, "covered": None}}, NOTHING, None),
    ("kills", "kill", {"measurements_lost": 0, "kills": 50}, REPRODUCED, 0),
    ("kills", "kill", {"measurements_lost": 2, "kills": 50}, FAILED, 2),
    ("faults", "faults", {"faults": [{"what": "a", "as_told": True}, {"what": "b", "as_told": True}]}, REPRODUCED, 0),
    ("faults", "faults", {"faults": [{"what": "a", "as_told": True}, {"what": "b", "as_told": False}]}, FAILED, 1),
    ("cost", "benchmark", {"campaign_s": 300.5}, REPRODUCED, 300.5),
    ("cost", "benchmark", {"campaign_s": 400.0}, FAILED, 400.0),
    ("cost", "benchmark", {"nothing_to_do_s": 2.0}, NOTHING, None),
]


@pytest.mark.parametrize(("id", "study", "measured", "state", "value"), STUDIED)
def test_what_studies_say_to_the_claims(tmp_path, id, study, measured, state, value):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "claims.yaml").write_text((ROOT / "config" / "claims.yaml").read_text())
    answer = Data("x.json", {"device": "nvidia-h200", "kind": "cuda"}, measured={study: measured})
    entries = {entry["id"]: entry for entry in judged.held_against(tmp_path, [answer])}
    assert (entries[id]["state"], entries[id]["value"], entries[id]["dataset"]) == (state, value, "x.json")
    assert all(CLAIMS[id].study == study for id in entries)


def test_another_harness_is_held_against_how_far_runs_differ(checkout):
    rows = [
        {"size": size, "name": "cublas", "ours": {"warm": 100.0 + off}, "theirs": {"warm": 100.0}}
        for size, off in ((1024, 0.1), (4096, 9))
    ]
    answer = Data("a", {"device": "nvidia-made-up", "kind": "cuda"}, measured={"agreement": {"rows": rows}})
    harness = CLAIMS["another-harness"]
    near, far = evidence.find(harness, answer)
    assert (near.value, far.value, near.limit_of) == (1.001, 1.09, ("float32", "1024", "warm", False, False))
    assert (near.about, near.key) == ("cublas at 1024", ("1024", "cublas"))


def test_answers_to_studies_are_read_where_they_lie(tmp_path):
    for name in ("results/studies", "results/published/studies"):
        (tmp_path / name).mkdir(parents=True)
    provenance = {"device": "d", "kind": "cpu"}
    for folder, kills in (("results", 1), ("results/published", 2)):
        text = json.dumps({"provenance": provenance, "measured": {"measurements_lost": kills}})
        (tmp_path / folder / "studies" / "kill.d.json").write_text(text)
    for device in ("d", HEADLINE_DEVICE):
        (tmp_path / "results" / "published" / f"repeat-{device}.json").write_text(json.dumps({"device": device, "machines": 2}))
    (here,) = evidence.of_studies(tmp_path, ANSWERS)
    assert (here.name, here.environment, here.measured) == ("kill.d.json", provenance, {"kill": {"measurements_lost": 1}})
    kill, again, other = evidence.of_studies(tmp_path, PUBLISHED)
    assert kill.measured == {"kill": {"measurements_lost": 2}}
    assert again.measured == {
        "repeat": {"device": HEADLINE_DEVICE, "machines": 2}
    }  # the text is about it: its numbers are quoted
    assert other.measured == {"repeat": {"device": "d", "machines": 2}}


def test_an_answer_that_is_no_json_is_named(tmp_path):
    (tmp_path / "results" / "published" / "studies").mkdir(parents=True)
    path = tmp_path / "results" / "published" / "studies" / "kill.d.json"
    path.write_text("<<<<<<< HEAD\n{}")
    with pytest.raises(InputError, match=r"kill\.d\.json: Expecting value.*; expected JSON"):
        evidence.of_studies(tmp_path, PUBLISHED)
    with pytest.raises(InputError, match=r"kill\.d\.json: Expecting value.*; expected JSON"):
        STUDIES["kill"].published(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  where: {kind: cuda}", "  were: {kind: cuda}", r"claims\.yaml: \[0\].*were"),
        ("kind: cuda", "kind: gpu", r'claims\.yaml: \[0\]\.where\.kind: got "gpu"; expected cuda or cpu'),
        ("holds: value == 0", "holds: __import__('os')", r"claims\.yaml: exact: holds: .*not allowed"),
        ("id: exact", "id: gains", r"claims\.yaml: id: got 'gains' twice; expected each once"),
        ("table: summary", "table: sumary", r'claims\.yaml: \[3\]\.table: got "sumary"; expected best, pairs, summary or costs'),
    ],
)
def test_a_mistake_is_named(tmp_path, old, new, message):
    assert old in OWN
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "claims.yaml").write_text(OWN.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        definitions.read(tmp_path)


def test_the_page_is_whole_and_the_gravest_comes_first(checkout, tmp_path):
    entries = list(judged_entries(checkout, made(tmp_path / "slowed", 21, slower={"10_block_tile_128": 1.03})).values())
    entries[0]["says"] = "1 < 2 & so on"
    published = [entry | {"state": REPRODUCED, "dataset": "nvidia-x/again"} for entry in entries[:2]]
    own = [entry | {"dataset": "results/reproduce/slowed"} for entry in entries]
    page = report.page([*published, *own])
    assert not re.search(r"(src|href)=|https?:|<script", page)
    assert "1 &lt; 2 &amp; so on" in page
    here, _, others = page.partition("<details>")
    assert "published data themselves, and studies: 2 reproduced</summary>" in others
    assert others.count('<tr class="told">') == 2
    rows = re.findall(r'<tr class="(\w+)">', here)
    assert rows == sorted(rows, key=["failed", "told", "missing"].index)
    assert rows.count("failed") == 1
    assert len(rows) == len(entries)
    assert re.search(r"<h2>Here: 1 not reproduced, \d+ reproduced", here)
    told = report.text([*own, *published]).splitlines()
    assert told[0] == "results/reproduce/slowed:"
    assert "  ratio-10: not reproduced" in told
    assert told[-3] == "The published data, judged again: 2 reproduced."
    assert re.match(r"Claims: \d+ reproduced, 1 not reproduced", told[-2])  # the verdict is last, where it is seen
    assert re.match(r"Not reproduced: Rung 10 has", told[-1])
    path = tmp_path / "claims.json"
    judged.write(entries, path)
    assert json.loads(Path(path).read_text()) == entries


def test_the_pages_are_filled_from_the_claims(checkout):
    known = Story(checkout)
    table = pages.fill("<!-- table: claimed -->old<!-- end -->", known)
    entry = next(entry for entry in judged.read_published(checkout) if entry["id"] == "ratio-10")
    sentence, ends = entry["says"].split(" (")[0], f"{100 * entry['low']:.4g} % to {100 * entry['high']:.4g} %"
    assert re.search(
        rf"\| {sentence}\. \| nvidia-made-up \| {100 * entry['value']:.4g} % \| {ends} \| [\d. %]+ to [\d. %]+ \| ✓ 4 \|", table
    )
    assert re.search(r"\| A rung gains\. \| any GPU; measured on nvidia-made-up \| – \| – \| – \| \d+ items: ✓ \d+.* \|", table)
    assert pages.fill("It is: <!-- value: claim ratio-10 --><!-- end -->", known) == (
        f"It is: <!-- value: claim ratio-10 -->{entry['says']}<!-- end -->"
    )
    with pytest.raises(InputError, match="claim ratio-11"):
        pages.fill("<!-- value: claim ratio-11 --><!-- end -->", known)
