"""What published data and those of others say to the claims of a made-up checkout."""

import json
import math
import re
import shutil
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import synthetic
from ladder.analysis import repeatability
from ladder.analysis.dataset import Dataset
from ladder.claims import definitions, evidence, report
from ladder.claims import judge as judged
from ladder.claims.definitions import NOTHING
from ladder.claims.evidence import Finding
from ladder.claims.judge import CLAIMED, ELSEWHERE, FAILED, MEAN, REPRODUCED, UNSURE
from ladder.core.errors import InputError
from ladder.core.verdicts import AGAIN
from ladder.storage.dataset_layout import PUBLISHED
from planted import written

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
NEAR = "value: ratio, low: ratio_low, high: ratio_high, holds: near_low <= value <= near_high"
BEST = "element_type: float32, state: warm, interval: between-process"
OWN = f"""
- {{id: gains, says: A rung gains., where: {{kind: cuda}}, table: pairs, value: ratio, low: low, high: high,
   rows: {{pair: gain, element_type: float32, state: warm, problem: [1024, 4096]}},
   when: published > 1 and low > 1.1 or published < 1 and high < 0.9,
   holds: low > 1 if published > 1 else high < 1, fails: high < 1 if published > 1 else low > 1}}
- {{id: ratio-10, says: "Rung 10 has {{value%}} of cuBLAS's rate (95 % interval {{low}} to {{high}}).", where: {{device: nvidia-made-up}},
   table: best, rows: {{kernel: 10_block_tile_128, problem: 4096, {BEST}}}, {NEAR}}}
- {{id: ratio-05, says: "So does rung 05, at both sizes.", where: {{device: nvidia-made-up}},
   table: best, rows: {{kernel: 05_register_tile, problem: [1024, 4096], {BEST}}}, {NEAR}}}
- {{id: exact, says: "All is right ({{value}} wrong).", where: {{}},
   table: summary, which: {{status: incorrect}}, value: count, holds: value == 0}}
"""
RUN = "nvidia-made-up/default/{}"


def claims(root, text=OWN):
    written(root / "config" / "claims.yaml", text)


def folder(root, run):
    """The folder of a published run."""
    return root / PUBLISHED / RUN.format(run)


def made(folder, seed, uuid="GPU-9", **given):
    fingerprint = {"driver": "1", "uuids": [uuid]}
    return synthetic.write(
        folder,
        seed,
        problems=SIZES,
        kernels=KERNELS,
        fingerprint=fingerprint,
        of_run=0.002,
        **given,
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A checkout with four published runs, each on another machine, and what they say to its
    claims. The featured run is not the earliest.
    """
    root = tmp_path_factory.mktemp("checkout")
    claims(root)
    for run, seed in enumerate((1, 2, 0, 3)):
        made(folder(root, run), seed, f"GPU-{run}", time=f"2026-01-0{seed + 1}T00:00:00+00:00")
    shutil.rmtree(folder(root, 3) / "samples")
    synthetic.index(root / PUBLISHED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dataset, "open", cache(Dataset.open))  # each is read once for both
        repeatability.write(root / PUBLISHED)
        judged.write_published(root, judged.of_published(root))
    return root


def judged_entries(root, folder, **environment):
    """The entries of the dataset in a folder, by id."""
    data = evidence.of_samples(folder)
    entries = judged.held_against(
        root, [replace(data, environment={**data.environment, **environment})]
    )
    return {entry["id"]: entry for entry in entries}


def published(root, id):
    """What the published data say to a claim."""
    return next(entry for entry in judged.read_published(root) if entry["id"] == id)


def test_published_data_decide_what_is_said(checkout):
    entries = judged.of_published(checkout)
    assert {entry["state"] for entry in entries} <= {CLAIMED, REPRODUCED, UNSURE}
    assert {entry["id"].split(":")[0] for entry in entries} == {
        "gains",
        "ratio-10",
        "ratio-05",
        "exact",
    }
    asked = [entry["dataset"] for entry in entries if entry["id"] == "exact"]
    assert asked == [RUN.format(run) for run in (2, 0, 1)]  # the repeat has no sweep to be wrong in
    written = judged.read_published(checkout)  # once each: by the data that fix what is claimed
    assert [entry["id"] for entry in written] == list(
        dict.fromkeys(entry["id"] for entry in entries)
    )
    assert {entry["where"] for entry in entries if entry["id"].startswith("gains:")} == {
        "any GPU; measured on nvidia-made-up"
    }


def test_the_earliest_data_claim_a_gain_and_all_later_ones_are_judged(checkout):
    gains = [entry for entry in judged.of_published(checkout) if entry["id"].startswith("gains:")]
    # a twin: nothing to claim
    assert not any(entry["id"].startswith("gains:08_padded_shared") for entry in gains)
    of_one = [
        entry for entry in gains if entry["id"] == "gains:05_register_tile:02_naive_coalesced:4096"
    ]
    first, *later = of_one
    assert (first["state"], first["dataset"], first["published"]) == (CLAIMED, RUN.format(2), None)
    assert [entry["dataset"] for entry in later] == [RUN.format(run) for run in (0, 1, 3)]
    assert {(entry["state"], entry["published"]) for entry in later} == {
        (REPRODUCED, first["value"])
    }


def test_a_number_is_the_mean_over_machines(checkout):
    first, *judged_runs = [
        entry for entry in judged.of_published(checkout) if entry["id"] == "ratio-10"
    ]
    tables = (evidence.of_samples(folder(checkout, run)).tables["best"] for run in range(4))
    row = "kernel == '10_block_tile_128' and problem == '4096' and state == 'warm'"
    logs = np.log([best.query(row)["ratio"].item() for best in tables])
    half = 3.1824 * logs.std(ddof=1) / 2
    ends = math.exp(logs.mean() - half), math.exp(logs.mean() + half)
    assert (first["value"], first["low"], first["high"]) == pytest.approx(
        (math.exp(logs.mean()), *ends), rel=1e-4
    )
    assert (first["state"], first["dataset"], first["machines"], first["where"]) == (
        CLAIMED,
        MEAN,
        4,
        "nvidia-made-up",
    )
    assert first["says"] == (
        f"Rung 10 has {100 * first['value']:.4g} % of cuBLAS's rate (95 % interval {ends[0]:.4g} "
        f"to {ends[1]:.4g})."
    )
    assert [entry["dataset"] for entry in judged_runs] == [RUN.format(run) for run in (2, 0, 1, 3)]
    for entry in judged_runs:  # by the other machines
        others = [logs[run] for run in range(4) if entry["dataset"] != RUN.format(run)]
        assert entry["published"] == pytest.approx(math.exp(np.mean(others)), rel=1e-5)
    assert {entry["state"] for entry in judged_runs} <= {REPRODUCED, UNSURE}


def test_a_machine_has_one_value_however_often_it_was_measured(checkout):
    data = [evidence.of_samples(folder(checkout, run)) for run in (0, 0, 1, 2)]
    findings = [
        Finding((), "", value, 0.9 * value, 1.1 * value, 5, {}) for value in (1.0, 1.02, 1.1, 1.2)
    ]
    mean = evidence.over_machines(list(zip(data, findings, strict=True)))
    logs = np.log([math.sqrt(1.02), 1.1, 1.2])
    assert math.log(mean.value) == pytest.approx(logs.mean())
    assert math.log(mean.high / mean.value) == pytest.approx(
        4.3027 * logs.std(ddof=1) / math.sqrt(3), rel=1e-4
    )
    assert mean.machines == 3


def test_one_machines_interval_is_called_that(checkout):
    data = evidence.of_samples(folder(checkout, 0))
    (asked,) = (claim for claim in definitions.read(checkout) if claim.id == "ratio-10")
    (finding,) = evidence.find(asked, data)
    mean = evidence.over_machines(
        [(data, finding), (data, replace(finding, value=1.02 * finding.value))]
    )
    assert mean.value == pytest.approx(math.sqrt(1.02) * finding.value)
    assert (mean.low / mean.value, mean.machines, mean.prediction) == (
        pytest.approx(finding.low / finding.value),
        1,
        None,
    )


def test_what_is_claimed_together_is_judged_together(checkout, tmp_path, monkeypatch):
    """Of claims to be near to what was published any may be off: all count; of another claim its
    own things.
    """
    counts, judge = {}, judged.judge

    def counting(claim, finding, published, limit, count):
        counts.setdefault(claim.id, set()).add(count)
        return judge(claim, finding, published, limit, count)

    monkeypatch.setattr(judged, "judge", counting)
    entries = judged_entries(checkout, made(tmp_path / "run", 11))
    gains, near = (sum(id.startswith(name) for id in entries) for name in ("gains:", "ratio-"))
    assert min(gains, near) > 2
    assert counts == {"ratio-10": {near}, "ratio-05": {near}, "gains": {gains}, "exact": {1}}


def test_another_run_of_the_same_code_reproduces_it(checkout, tmp_path):
    for seed in (11, 12, 13):
        entries = judged_entries(checkout, made(tmp_path / f"run{seed}", seed))
        states = Counter(entry["state"] for entry in entries.values())
        assert set(states) <= {REPRODUCED, UNSURE}
        assert states[UNSURE] <= 1
        assert set(entries) == {entry["id"] for entry in judged.read_published(checkout)}


def test_a_kernel_that_is_three_per_cent_slower_is_named(checkout, tmp_path):
    """One claim fails, and it is the one about that kernel."""
    entries = judged_entries(
        checkout, made(tmp_path / "slowed", 21, slower={"10_block_tile_128": 1.03})
    )
    failed = [entry for entry in entries.values() if entry["state"] == FAILED]
    assert [entry["id"] for entry in failed] == ["ratio-10"]
    assert "\nNot reproduced: Rung 10 has " in report.text(list(entries.values()))
    assert re.search(
        r" Here 0\.9\d* \(95 % interval 0\.\d+ to 0\.\d+\), published 0\.9\d*, runs differ by at "
        r"most ×1\.0\d*\. ratio-10, slowed$",
        report.failure(failed[0]),
    )


def test_a_gain_that_is_lost_is_not_reproduced(checkout, tmp_path):
    entries = judged_entries(
        checkout, made(tmp_path / "lost", 22, slower={"05_register_tile": 5.0})
    )
    gain = entries["gains:05_register_tile:02_naive_coalesced:4096"]
    assert (gain["state"], gain["where"]) == (FAILED, "any GPU; measured on nvidia-made-up")
    assert gain["published"] > 1 > gain["high"]
    assert "05_register_tile over 02_naive_coalesced at 4096" in gain["says"]


def test_a_busy_machine_refutes_nothing(checkout, tmp_path):
    """And reproduces no number, but a sign that is seen all the same. What is incorrect is
    incorrect on any machine.
    """
    slower = {"05_register_tile": 5.0, "10_block_tile_128": 1.2}
    busy = made(tmp_path / "busy", 22, slower=slower, busy=4096)
    entries = judged_entries(checkout, busy)
    at = {
        size: {id: entry for id, entry in entries.items() if id.endswith(f":{size}")}
        for size in (1024, 4096)
    }
    lost = "gains:05_register_tile:02_naive_coalesced:{}"
    assert entries[lost.format(1024)]["state"] == FAILED
    assert (entries[lost.format(4096)]["state"], entries[lost.format(4096)]["marks"]) == (
        AGAIN,
        ["disturbed"],
    )
    assert entries["ratio-10"]["state"] == AGAIN
    assert entries["exact"]["state"] == REPRODUCED
    assert REPRODUCED in {entry["state"] for entry in at[4096].values()}
    data = evidence.of_samples(busy)
    data.tables["best"].loc[data.tables["best"]["problem"] == "4096", "marks"] = "unsteady"
    data.tables["summary"].loc[0, "status"] = "incorrect"
    states = {entry["id"]: entry["state"] for entry in judged.held_against(checkout, [data])}
    assert {states[id] for id in at[4096]} == {AGAIN}
    assert states["exact"] == FAILED
    own = [entry | {"dataset": "results/reproduce/gpu"} for entry in entries.values()]
    left_open = [entry for entry in own if entry["state"] == AGAIN]
    assert report.left_open(own) == left_open
    lines = report.text(own).splitlines()
    assert f", {len(left_open)} measure again" in next(
        line for line in lines if line.startswith("Claims: ")
    )
    assert lines[-1] == (
        f"Measure again: {len(left_open)} item(s) rest on rows marked disturbed, which could have "
        "caused any result. Remove "
        "results/reproduce/gpu, and run again while nothing else runs"
    )
    assert "<td>measure again" in report.page(own)


def test_published_rows_of_a_busy_machine_claim_nothing_and_test_nothing(checkout, tmp_path):
    claims(tmp_path)
    for seed in range(3):
        busy, slower = (4096, {"10_block_tile_128": 6.0}) if seed != 1 else (None, None)
        made(
            folder(tmp_path, seed),
            seed,
            f"GPU-{seed}",
            time=f"2026-01-0{seed + 1}T",
            slower=slower,
            busy=busy,
        )
    synthetic.index(tmp_path / PUBLISHED)
    entries = judged.of_published(tmp_path)
    of_busy = [
        entry for entry in entries if entry["id"].endswith(":4096") or entry["id"] == "ratio-10"
    ]
    assert of_busy
    assert {entry["state"] for entry in of_busy} == {CLAIMED}
    assert {entry["dataset"] for entry in of_busy} == {RUN.format(1), MEAN}
    assert {entry["machines"] for entry in of_busy if entry["dataset"] == MEAN} == {1}


def test_where_a_claim_holds_and_where_nothing_was_measured(checkout, tmp_path):
    other = made(tmp_path / "other", 23)
    entries = judged_entries(checkout, other, device="nvidia-other")
    assert entries["ratio-10"]["state"] == ELSEWHERE
    # not its template
    assert entries["ratio-10"]["says"] == published(checkout, "ratio-10")["says"]
    assert entries["exact"]["state"] == REPRODUCED
    gains = [entry for id, entry in entries.items() if id.startswith("gains:")]
    assert {entry["state"] for entry in gains} == {REPRODUCED}
    assert all(entry["limit"] is None for entry in gains)  # how far two models differ is not known
    left_out = synthetic.write(
        tmp_path / "left-out", 24, problems=SIZES, kernels=KERNELS, processes=0
    )
    entries = judged_entries(checkout, left_out)
    assert entries["exact"]["state"] == REPRODUCED
    assert {entry["state"] for id, entry in entries.items() if id != "exact"} == {NOTHING}
    assert judged_entries(checkout, other, kind="cpu")["gains"]["state"] == ELSEWHERE


def test_what_is_compiled_otherwise_is_another_kernel(checkout, tmp_path):
    """Only what asks for all rows is asked of it."""
    entries = judged_entries(checkout, made(tmp_path / "nvrtc", 26, builds=("compiler=nvrtc",)))
    assert entries["exact"]["state"] == REPRODUCED
    assert {entry["state"] for id, entry in entries.items() if id != "exact"} == {NOTHING}


def test_what_is_wrong_is_not_exact_and_a_kernel_of_ones_own_refutes_nothing(checkout, tmp_path):
    data = evidence.of_samples(made(tmp_path / "wrong", 25))

    def exact():
        return next(
            entry for entry in judged.held_against(checkout, [data]) if entry["id"] == "exact"
        )

    own = data.tables["summary"].iloc[:1].assign(kernel="colmajor", status="incorrect")
    data.tables["summary"] = pd.concat([data.tables["summary"], own], ignore_index=True)
    assert (exact()["state"], exact()["value"]) == (REPRODUCED, 0)
    data.tables["summary"].loc[0, "status"] = "incorrect"
    entry = exact()
    assert (entry["state"], entry["value"]) == (FAILED, 1)
    row = data.tables["summary"].loc[0]
    assert entry["rows"] == [
        f"{row['kernel']} {row['configuration']} {row['problem']} float32 warm"
    ]
    assert report.failure(entry).splitlines()[1:] == [f"  {row}" for row in entry["rows"]]
    many = entry | {"rows": [f"row {i}" for i in range(7)]}
    assert report.failure(many).splitlines()[-2:] == ["  row 4", "  and 2 more"]


def test_what_a_campaign_lacks_for_a_claim_is_said(checkout, tmp_path):
    fewer = {"problems": SIZES[1:], "kernels": [it for it in KERNELS if it != "05_register_tile"]}
    entries = judged_entries(checkout, synthetic.write(tmp_path / "short", 27, **fewer)).values()
    text = report.text([entry | {"dataset": "results/short/gpu"} for entry in entries])
    assert (
        "  ratio-05: 2 not measured yet (this campaign has no kernel 05_register_tile; no problem "
        "1024)\n" in text
    )
    assert "  ratio-10: reproduced\n" in text
    assert re.search(
        r"\nClaims: \d+ reproduced, 0 not reproduced, (\d+ not distinguishable, )?\d+ not measured "
        r"yet$",
        text,
    )
    data = evidence.of_samples(folder(checkout, 1))
    best = data.tables["best"]
    best.loc[
        (best["kernel"] == "05_register_tile") & (best["problem"] == "4096"), ["ratio", "tflops"]
    ] = math.nan
    text = report.text(
        [
            entry | {"dataset": "results/as-warm/gpu"}
            for entry in judged.held_against(checkout, [data])
        ]
    )
    assert (
        "  ratio-05: 1 reproduced, 1 not measured yet (this campaign has no rate of "
        "05_register_tile at 4096 warm)\n" in text
    )
    # of a claim about the whole table
    none = replace(data, tables=data.tables | {"summary": data.tables["summary"].head(0)})
    assert {it["id"]: it["state"] for it in judged.held_against(checkout, [none])}[
        "exact"
    ] == NOTHING


def test_what_later_data_refute_is_counted_and_asked_of_nobody(checkout, tmp_path):
    claims(tmp_path)
    for seed in range(3):
        slower = {"10_block_tile_128": 6.0 if seed == 2 else 1.0}
        made(folder(tmp_path, seed), seed, time=f"2026-01-0{seed + 1}T", slower=slower)
    synthetic.index(tmp_path / PUBLISHED)
    entries = judged.of_published(tmp_path)
    lost = {f"gains:10_block_tile_128:08_padded_shared:{size}" for size in (1024, 4096)}
    states = {(entry["id"], entry["dataset"]): entry["state"] for entry in entries}
    for id in lost:
        assert [states[id, RUN.format(run)] for run in range(3)] == [CLAIMED, REPRODUCED, FAILED]
    failed = [entry["id"] for entry in entries if entry["state"] == FAILED]
    assert lost <= set(failed)
    assert report.failed(entries) == []  # the published data's own
    judged.write_published(tmp_path, judged.of_published(tmp_path))
    assert {
        entry["id"] for entry in judged.read_published(tmp_path) if entry["state"] == FAILED
    } == set(failed)
    assert not lost & set(judged_entries(tmp_path, folder(tmp_path, 0)))


def test_without_published_data_all_is_unmeasured_but_what_asks_for_none(checkout, tmp_path):
    claims(tmp_path)
    assert {entry["state"] for entry in judged.of_published(tmp_path)} == {NOTHING}
    entries = judged_entries(tmp_path, folder(checkout, 1))
    assert {id: entry["state"] for id, entry in entries.items()} == {
        "gains": NOTHING,
        "ratio-10": NOTHING,
        "ratio-05": NOTHING,
        "exact": REPRODUCED,
    }
    assert entries["exact"]["says"] == "All is right (0 wrong)."


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("where: {kind: cuda}", "were: {kind: cuda}", r"claims\.yaml: \[0\].*were"),
        (
            "kind: cuda",
            "kind: gpu",
            r'claims\.yaml: \[0\]\.where\.kind: got "gpu"; expected cuda or cpu',
        ),
        (
            "holds: value == 0",
            "holds: __import__('os')",
            r"claims\.yaml: exact: holds: .*not allowed",
        ),
        ("id: exact", "id: gains", r"claims\.yaml: id: got 'gains' twice; expected each once"),
        (
            "table: summary",
            "table: sumary",
            r'claims\.yaml: \[3\]\.table: got "sumary"; expected best, pairs or summary',
        ),
    ],
)
def test_a_mistake_is_named(tmp_path, old, new, message):
    assert old in OWN
    claims(tmp_path, OWN.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        definitions.read(tmp_path)


def test_the_page_is_whole_and_the_gravest_comes_first(checkout, tmp_path):
    entries = list(
        judged_entries(
            checkout, made(tmp_path / "slowed", 21, slower={"10_block_tile_128": 1.03})
        ).values()
    )
    entries[0]["says"] = "1 < 2 & so on"
    again = [entry | {"state": REPRODUCED, "dataset": "nvidia-x/again"} for entry in entries[:2]]
    own = [entry | {"dataset": "results/reproduce/slowed"} for entry in entries]
    page = report.page([*again, *own])
    assert not re.search(r"(src|href)=|https?:|<script", page)
    assert "1 &lt; 2 &amp; so on" in page
    here, _, others = page.partition("<details>")
    assert "published data themselves: 2 reproduced</summary>" in others
    assert others.count('<tr class="told">') == 2
    rows = re.findall(r'<tr class="(\w+)">', here)
    assert rows == sorted(rows, key=["failed", "told", "missing"].index)
    assert rows.count("failed") == 1
    assert len(rows) == len(entries)
    assert re.search(r"<h2>Here: 1 not reproduced, \d+ reproduced", here)
    lines = report.text([*own, *again]).splitlines()
    assert lines[0] == "results/reproduce/slowed:"
    assert "  ratio-10: not reproduced" in lines
    assert lines[-3] == "The published data, judged again: 2 reproduced."
    # the verdict is last, where it is seen
    assert re.match(r"Claims: \d+ reproduced, 1 not reproduced", lines[-2])
    assert re.match(r"Not reproduced: Rung 10 has", lines[-1])
    judged.write(entries, tmp_path / "claims.json")
    assert json.loads((tmp_path / "claims.json").read_text()) == entries
