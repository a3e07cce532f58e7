"""What published data and those of others say to the claims of a made-up checkout."""

import math
import re
import shutil
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import synthetic
from ladder.analysis import repeatability
from ladder.analysis.dataset import Dataset
from ladder.claims import definitions, evidence, report
from ladder.claims import judge as judged
from ladder.claims.definitions import NOTHING
from ladder.claims.judge import CLAIMED, ELSEWHERE, FAILED, MEAN, REPRODUCED, UNSURE
from ladder.core import verdicts
from ladder.core.errors import InputError
from ladder.core.verdicts import AGAIN
from ladder.storage.dataset_layout import JUDGED, PUBLISHED
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
BEST = "element_type: float32, state: warm, interval: between-process"
OWN = f"""
- {{id: gains, says: A rung gains., where: {{kind: cuda}}, table: pairs, test: sign, over: 1.1,
   rows: {{pair: gain, element_type: float32, state: warm, problem: [1024, 4096]}}}}
- {{id: ratio-10, says: "Rung 10 has {{value±%}} of cuBLAS's rate ({{machines}} GPUs).", where: {{device: nvidia-made-up}},
   table: best, test: near, rows: {{kernel: 10_block_tile_128, problem: 4096, {BEST}}}}}
- {{id: ratio-05, says: "So does rung 05, at both sizes.", where: {{device: nvidia-made-up}},
   table: best, test: near, rows: {{kernel: 05_register_tile, problem: [1024, 4096], {BEST}}}}}
- {{id: exact, says: "All is right ({{value}} wrong).", where: {{}},
   table: summary, test: count, which: {{status: incorrect}}}}
"""
RUN = "nvidia-made-up/default/{}"
LOST = "gains:05_register_tile:02_naive_coalesced:{}"


def claims(root, text=OWN):
    written(root / "config" / "claims.yaml", text)


def folder(root, run):
    """The folder of a published run."""
    return root / PUBLISHED / RUN.format(run)


def made(folder, seed, uuid="GPU-9", **given):
    fingerprint = {"driver": "1", "uuids": [uuid]}
    given = {"problems": SIZES, "kernels": KERNELS, "of_run": 0.002} | given
    return synthetic.write(folder, seed, fingerprint=fingerprint, **given)


def published_again(root, of_seed):
    """What the published data say to the claims, of three runs that are made `of_seed`."""
    claims(root)
    for seed in range(3):
        time = f"2026-01-0{seed + 1}T"
        made(folder(root, seed), seed, f"GPU-{seed}", time=time, **of_seed(seed))
    synthetic.index(root / PUBLISHED)
    return judged.of_published(root)


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
        judged.write(judged.claimed(judged.of_published(root)), root / PUBLISHED / JUDGED)
    return root


@pytest.fixture
def judge_run(checkout, tmp_path_factory):
    """Makes a dataset, changes its rows, and returns its entries by id, as those of a campaign."""

    def judge_run(seed=22, change=lambda data: data, **given):
        run = made(tmp_path_factory.mktemp("run") / "data", seed, **given)
        data = change(evidence.of_samples(run, "results/r/gpu"))
        return {entry["id"]: entry for entry in judged.held_against(checkout, data)}

    return judge_run


def states(entries):
    return {id: entry["state"] for id, entry in entries.items()}


def test_the_earliest_data_claim_a_gain_and_all_others_are_judged(checkout):
    entries = judged.of_published(checkout)
    assert {entry["state"] for entry in entries} <= {CLAIMED, REPRODUCED, UNSURE}
    asked = [entry["dataset"] for entry in entries if entry["id"] == "exact"]
    assert asked == [RUN.format(run) for run in (2, 0, 1)]  # the repeat has no sweep to be wrong in
    # a twin: nothing to claim
    assert not any(entry["id"].startswith("gains:08_padded_shared") for entry in entries)
    first, *later = [entry for entry in entries if entry["id"] == LOST.format(4096)]
    assert (first["state"], first["dataset"], first["published"]) == (CLAIMED, RUN.format(2), None)
    assert first["where"] == "any GPU; measured on nvidia-made-up"
    assert [entry["dataset"] for entry in later] == [RUN.format(run) for run in (0, 1, 3)]
    for entry in later:
        assert (entry["state"], entry["published"]) == (REPRODUCED, first["value"])
        assert entry["limit"] > 1  # how far two of the model differ
    once = dict.fromkeys(entry["id"] for entry in entries)
    assert [entry["id"] for entry in judged.read_published(checkout)] == list(once)


def test_a_number_is_the_mean_over_machines_and_is_tested_by_the_others(checkout):
    entries = judged.of_published(checkout)
    first, *judged_runs = [entry for entry in entries if entry["id"] == "ratio-10"]
    logs = []
    for run in range(4):
        best = Dataset.open(folder(checkout, run)).best
        row = best.query("kernel == '10_block_tile_128' and problem == '4096' and state == 'warm'")
        logs.append(math.log(row["ratio"].item()))
    mean, half = np.mean(logs), 3.1824 * np.std(logs, ddof=1) / 2
    ends = math.exp(mean - half), math.exp(mean + half)
    numbers = [first[name] for name in ("value", "low", "high")]
    assert numbers == pytest.approx([math.exp(mean), *ends], rel=1e-4)
    assert (first["state"], first["dataset"], first["machines"]) == (CLAIMED, MEAN, 4)
    text = verdicts.plus_minus(math.exp(mean), *ends, percent=True)
    assert first["says"] == f"Rung 10 has {text} of cuBLAS's rate (4 GPUs)."
    assert [entry["dataset"] for entry in judged_runs] == [RUN.format(run) for run in (2, 0, 1, 3)]
    for entry in judged_runs:
        others = [logs[run] for run in range(4) if entry["dataset"] != RUN.format(run)]
        assert entry["published"] == pytest.approx(math.exp(np.mean(others)), rel=1e-5)
        assert entry["state"] in {REPRODUCED, UNSURE}


def test_a_number_is_of_one_binary(tmp_path):
    """Of the latest: data of others claim nothing of it, and are not judged by it."""

    def another(seed):
        for path in [folder(tmp_path, 0) / "resources.csv"] * (seed == 1):  # after the first run
            path.write_text(path.read_text().replace(",gemm,", "x,gemm,"))  # each digest's end
        return {"slower": {"10_block_tile_128": 1.2}} if seed == 0 else {}

    entries = published_again(tmp_path, another)
    first, *judged_runs = [entry for entry in entries if entry["id"] == "ratio-10"]
    assert (first["machines"], "(2 GPUs)" in first["says"]) == (2, True)
    assert [entry["dataset"] for entry in judged_runs] == [RUN.format(1), RUN.format(2)]
    # a change of 20 % in the first run has not moved the mean
    values = [entry["value"] for entry in judged_runs]
    assert first["value"] == pytest.approx(math.sqrt(math.prod(values)), rel=1e-4)


def test_attempts_are_counted(tmp_path, monkeypatch):
    """By what was measured, not by how often it was judged."""
    monkeypatch.chdir(tmp_path)
    entries = [
        {"id": "a", "state": REPRODUCED, "dataset": "results/r/gpu", "value": None},
        {"id": "a", "state": CLAIMED, "dataset": "nvidia-made-up/default/1", "value": None},
    ]

    def attempt(contents):
        written(tmp_path / "results" / "r" / "gpu" / "confirmed.parquet", contents)
        return report.count_attempts(entries, tmp_path / "results" / "attempts.json")

    own, published = attempt("one")
    assert (own["attempt"], "attempt" in published) == (1, False)
    assert "attempt" not in report.text([own, published])
    again = [attempt(contents)[0]["attempt"] for contents in ("one", "two", "two", "three")]
    assert again == [1, 2, 2, 3]
    assert "attempt 3: results/attempts.json" in report.text(attempt("three"))


def test_what_is_claimed_together_is_judged_together(judge_run, monkeypatch):
    """Of claims to be near to what was published any may be off: all count; of another claim its
    own items.
    """
    counts, judge = {}, judged.judge

    def counting(claim, finding, published, limit, count):
        counts.setdefault(claim.id, set()).add(count)
        return judge(claim, finding, published, limit, count)

    monkeypatch.setattr(judged, "judge", counting)
    entries = judge_run()
    gains, near = (sum(id.startswith(name) for id in entries) for name in ("gains:", "ratio-"))
    assert min(gains, near) > 2
    assert counts == {"ratio-10": {near}, "ratio-05": {near}, "gains": {gains}, "exact": {1}}


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_another_run_of_the_same_code_reproduces_it(checkout, judge_run, seed):
    entries = judge_run(seed)
    assert list(entries) == [entry["id"] for entry in judged.read_published(checkout)]
    unlike = [state for state in states(entries).values() if state != REPRODUCED]
    assert unlike in ([], [UNSURE])


def test_a_kernel_that_is_three_per_cent_slower_is_named(judge_run):
    """One claim fails, and it is the one about that kernel. The page has it first."""
    entries = judge_run(21, slower={"10_block_tile_128": 1.03})
    assert [id for id, state in states(entries).items() if state == FAILED] == ["ratio-10"]
    own = list(entries.values())
    own[0] = own[0] | {"says": "1 < 2 & so on"}
    again = [entry | {"state": REPRODUCED, "dataset": "nvidia-x/again"} for entry in own[:2]]
    lines = report.text([*own, *again]).splitlines()
    assert lines[0] == "results/r/gpu:"
    assert "  ratio-10: not reproduced" in lines
    assert lines[-3] == "The published data, judged again: 2 reproduced."
    # the verdict is last, where it is seen
    assert re.match(r"Claims: \d+ reproduced, 1 not reproduced", lines[-2])
    assert re.match(
        r"Not reproduced: Rung 10 has .* Here 0\.9\d* ± 0\.\d+, published "
        r"0\.9\d*, runs differ by at most ×1\.0\d*\. ratio-10, results/r/gpu$",
        lines[-1],
    )
    page = report.page([*again, *own])
    assert not re.search(r"(src|href)=|https?:|<script", page)
    assert "1 &lt; 2 &amp; so on" in page
    here, _, others = page.partition("<details>")
    assert "published data themselves: 2 reproduced</summary>" in others
    assert others.count('<tr class="told">') == 2
    rows = re.findall(r'<tr class="(\w+)">', here)
    assert rows == ["failed", *["told"] * (len(own) - 1)]
    assert re.search(r"<h2>Here: 1 not reproduced, \d+ reproduced", here)


BUSY = {"slower": {"05_register_tile": 5.0, "10_block_tile_128": 1.2}, "busy": 4096}


def test_a_busy_machine_refutes_nothing(judge_run):
    """And reproduces no number, but a sign that is seen all the same."""
    entries = judge_run(**BUSY)
    gain = entries[LOST.format(1024)]
    assert (gain["state"], gain["where"]) == (FAILED, "any GPU; measured on nvidia-made-up")
    assert gain["published"] > 1 > gain["high"]
    assert gain["says"] == "A rung gains: 05_register_tile over 02_naive_coalesced at 1024."
    lost = entries[LOST.format(4096)]
    assert (lost["state"], lost["marks"]) == (AGAIN, ["disturbed"])
    assert entries["ratio-10"]["state"] == AGAIN
    assert entries["exact"]["state"] == REPRODUCED
    assert REPRODUCED in {state for id, state in states(entries).items() if id.endswith(":4096")}
    own = list(entries.values())
    count = list(states(entries).values()).count(AGAIN)
    assert report.left_open(own) == [entry for entry in own if entry["state"] == AGAIN]
    text = report.text(own)
    assert re.search(rf"\nClaims: .*, {count} measure again", text)
    assert text.endswith(
        f"\nMeasure again: {count} item(s) rest on rows marked disturbed, which could have "
        "caused any result. Remove results/r/gpu, and run again while nothing else runs"
    )
    assert "<td>measure again" in report.page(own)


def test_what_is_unsteady_says_nothing_and_what_is_incorrect_is_so_on_any_machine(judge_run):
    def change(data):
        for row in data.rows["best"] + data.rows["pairs"]:
            row["marks"] = "unsteady" if row["problem"] == "4096" else row["marks"]
        data.rows["summary"][0]["status"] = "incorrect"
        return data

    found = states(judge_run(change=change, **BUSY))
    assert {state for id, state in found.items() if id.endswith(":4096")} == {AGAIN}
    assert found["exact"] == FAILED


def test_published_rows_of_a_busy_machine_claim_nothing_and_test_nothing(tmp_path):
    entries = published_again(tmp_path, lambda seed: BUSY if seed != 1 else {})
    of_busy = [entry for entry in entries if re.search(":4096$|^ratio-10$", entry["id"])]
    assert of_busy
    assert {entry["state"] for entry in of_busy} == {CLAIMED}
    assert {entry["dataset"] for entry in of_busy} == {RUN.format(1), MEAN}
    assert {entry["machines"] for entry in of_busy if entry["dataset"] == MEAN} == {1}


def test_what_later_data_refute_is_counted_and_asked_of_nobody(tmp_path):
    slower = {"10_block_tile_128": 6.0}
    entries = published_again(tmp_path, lambda seed: {"slower": slower} if seed == 2 else {})
    lost = "gains:10_block_tile_128:08_padded_shared:4096"
    found = [entry["state"] for entry in entries if entry["id"] == lost]
    assert found == [CLAIMED, REPRODUCED, FAILED]
    assert report.failed(entries) == []  # the published data's own
    judged.write(judged.claimed(entries), tmp_path / PUBLISHED / JUDGED)
    written = {entry["id"]: entry for entry in judged.read_published(tmp_path)}
    assert written[lost]["state"] == FAILED
    own = judged.held_against(tmp_path, evidence.of_samples(folder(tmp_path, 0)))
    assert lost not in {entry["id"] for entry in own}


def test_a_claim_holds_where_it_says_and_a_limit_is_of_one_model(checkout, judge_run):
    def on(**environment):
        return lambda data: replace(data, environment={**data.environment, **environment})

    entries = judge_run(23, on(device="nvidia-other"))
    elsewhere, known = entries["ratio-10"], judged.read_published(checkout)
    assert elsewhere["state"] == ELSEWHERE
    assert elsewhere["says"] in [entry["says"] for entry in known]  # not its template
    assert entries["exact"]["state"] == REPRODUCED
    gains = [entry for id, entry in entries.items() if id.startswith("gains:")]
    assert {entry["state"] for entry in gains} == {REPRODUCED}
    assert all(entry["limit"] is None for entry in gains)  # how far two models differ is not known
    assert judge_run()[LOST.format(4096)]["limit"] > 1
    assert judge_run(23, on(kind="cpu"))["gains"]["state"] == ELSEWHERE


@pytest.mark.parametrize(
    "given",
    [{"processes": 0}, {"builds": ("compiler=nvrtc",)}],
    ids=["left out", "compiled otherwise"],
)
def test_without_a_confirmation_of_the_same_build_only_counts_are_judged(judge_run, given):
    found = states(judge_run(24, **given))
    assert found.pop("exact") == REPRODUCED
    assert set(found.values()) == {NOTHING}


def test_without_published_data_only_counts_are_judged(checkout, tmp_path):
    claims(tmp_path)
    assert {entry["state"] for entry in judged.of_published(tmp_path)} == {NOTHING}
    entries = judged.held_against(tmp_path, evidence.of_samples(folder(checkout, 1)))
    assert [entry["state"] for entry in entries] == [NOTHING, NOTHING, NOTHING, REPRODUCED]
    assert entries[-1]["says"] == "All is right (0 wrong)."


def test_what_is_incorrect_is_named_and_a_kernel_of_ones_own_refutes_nothing(judge_run):
    def own_kernel(data):
        row = data.rows["summary"][0] | {"kernel": "colmajor", "status": "incorrect"}
        data.rows["summary"].append(row)
        return data

    def wrong(data):
        for row in data.rows["summary"][:7]:
            row["status"] = "incorrect"
        return data

    entry = judge_run(change=own_kernel)["exact"]
    assert (entry["state"], entry["value"]) == (REPRODUCED, 0)
    entry = judge_run(change=wrong)["exact"]
    assert (entry["state"], entry["value"]) == (FAILED, 7)
    _, first, *_, more = report.failure(entry).splitlines()
    assert re.match(r"  02_naive_coalesced \S.* 1024 float32 warm$", first)
    assert more == "  and 2 more"


def test_what_a_campaign_lacks_is_told(judge_run):
    fewer = {"problems": SIZES[1:], "kernels": [KERNELS[0], *KERNELS[2:]]}
    text = report.text(list(judge_run(27, **fewer).values()))
    lacks = "this campaign has no kernel 05_register_tile, problem 1024"
    assert f"  ratio-05: 2 not measured yet ({lacks})\n" in text
    assert "  ratio-10: reproduced\n" in text

    for reason, state in (("", "not measured yet"), ("as warm: why", "not applicable here")):

        def unrated(data, reason=reason):
            for row in data.rows["best"]:
                if (row["kernel"], row["problem"]) == ("05_register_tile", "4096"):
                    row |= {"ratio": math.nan, "tflops": math.nan, "reason": reason}
            return data

        text = report.text(list(judge_run(27, unrated).values()))
        lacks = "this campaign has no rate of 05_register_tile 4096 warm" + " as warm" * bool(
            reason
        )
        assert f"  ratio-05: 1 reproduced, 1 {state} ({lacks})\n" in text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("where: {kind: cuda}", "were: {kind: cuda}", r"\[0\].*were"),
        ("kind: cuda", "kind: gpu", r'\[0\]\.where\.kind: got "gpu"; expected cuda or cpu'),
        ("test: near", "test: nearly", r'\[1\]\.test: got "nearly"; expected sign, near or count'),
        ("id: exact", "id: gains", "id: got 'gains' twice; expected each once"),
    ],
)
def test_a_mistake_is_named(tmp_path, old, new, message):
    assert old in OWN
    claims(tmp_path, OWN.replace(old, new, 1))
    with pytest.raises(InputError, match=rf"claims\.yaml: {message}"):
        definitions.read(tmp_path)
