"""Tables of docs/ that stand in one place each: past the vendor, errors, limits, machines, compilers, datasets, 16 bits."""

import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest
import synthetic
from ladder.model.kernel import code_digest
from ladder.publishing import page_answers, page_half, page_past, page_tables
from ladder.publishing.page_data import Story
from ladder.storage import published_index
from planted import written
from small_story import ENVIRONMENT, PUBLISHED, RUN, add, answer, checkout, fill, publish


@pytest.fixture
def small(tmp_path):
    return checkout(tmp_path)


def test_what_nothing_was_tuned_on_is_the_headline(small, monkeypatch):
    text = page_past.past(Story(small), "d/test")
    rows = Story(small).published("d/test").best.query("kernel != 'cublas'").to_dict("records")
    fastest = max(rows, key=lambda row: row["ratio"])
    mean = f"{fastest['ratio']:.3f}"
    assert f"on these 1 problems: the rungs are {mean} times as fast as cuBLAS (geometric mean; median {mean})." in text
    assert "Nothing was tuned on these 1 problems: " in text
    assert f"They are ahead of cuBLAS on {int(fastest['ratio'] >= 1)}, on" in text
    assert text.count("| problem |") == 1
    assert f"| `{fastest['kernel']}` | ×{fastest['ratio']:.3f} | {fastest['ratio_low']:.3f} to" in text
    assert "at most ×1.05 of cuBLAS's on 0:" in text
    assert "| – | – | ×2.50 | `BM=16` |" in text
    held_out = fill("value: past d/test", small)
    assert f"on 1 shapes that no kernel was tuned on, the fastest rungs are {mean} times" in held_out
    assert f"and {fastest['ratio']:.2f} times as fast on the worst<" in held_out
    monkeypatch.setattr(page_past, "TUNED", ("64",))
    tuned = page_past.past(Story(small), "d/test")
    assert f"The rungs were tuned on these 1 problems; the median of the ratios to cuBLAS is ×{mean}." in tuned
    assert "geometric mean" not in tuned
    assert "not measured yet" in fill("value: past d/test", small)
    assert page_past.past(Story(small), "none") == "Not measured yet."


def test_shapes_that_nothing_was_tuned_on_come_first_with_means_beside_the_faster_of_two_algorithms(small, monkeypatch):
    """cuBLASLt's algorithm may be slower than cuBLAS's own choice."""
    data = Story(small).published("d/test")
    row = data.best[data.best["kernel"] == "02_second"].iloc[0]
    ratios = {"a": (1.2, 1.1), "b": (1.3, 0.5), "c": (1.0, 1.25)}
    rows = [row.to_dict() | {"problem": name, "ratio": ratio} for name, (ratio, _) in ratios.items()]
    data.best = pd.DataFrame(
        [row.to_dict() | {"kernel": "cublaslt_best", "problem": it, "ratio": own} for it, (_, own) in ratios.items()]
    )
    assert page_past._means(data, rows) == (
        "1.160 times as fast as cuBLAS (geometric mean; median 1.200) and 1.043 times as fast as its fastest algorithm (geometric mean; "
        "median 1.091)"
    )
    monkeypatch.setattr(page_past, "fastest_rungs", lambda data: rows)
    monkeypatch.setattr(page_past, "TUNED", ("a",))
    monkeypatch.setattr(page_past, "_beside", lambda story, data, rows, tuned: f"{tuned} {[row['problem'] for row in rows]}")
    assert page_past.past(Story(small), "d/test").splitlines()[2:] == ["False ['b', 'c']", "", "True ['a']"]


def test_boundaries_of_two_mib_are_a_column_where_the_study_timed_the_same(small):
    for rung, cell in (("02_second BM=16", "×0.457"), ("02_second BM=32", "–")):
        answer(small, "placement", rows=[{"problem": "64", "rung": rung, "aligned": {"ratio": 0.4567}}])
        assert f"| {cell} | – | ×2.50 | `BM=16` |" in page_past.past(Story(small), "d/test")


def test_past_the_vendor_is_who_is_no_less_precise(small):
    publish(small, second_us=25.0, first=(40.0, 2.0))
    assert "| 64 | `01_first` | ×1.250 |" in page_past.past(Story(small), "d/test")
    publish(small, second_us=25.0, first=(60.0, 2.0))  # behind cuBLAS
    assert "| 64 | `01_first` | ×0.833 |" in page_past.past(Story(small), "d/test")
    publish(small, second_us=25.0, first=(40.0, 5.0))
    assert "| 64 | `02_second` | ×2.000 |" in page_past.past(Story(small), "d/test")


def test_the_fastest_rungs_of_two_campaigns_are_told_where_they_differ(small):
    publish(small, second_us=25.0, first=(40.0, 2.0))
    folder = (small / RUN).parent
    assert page_past.elsewhere(Story(small), "d/test", "d/other") == "Not measured yet."
    shutil.copytree(folder, folder.with_name("other"))
    synthetic.index(folder.parents[1])
    same = "On 1 of 1 problems the fastest rung and its configuration are the same."
    assert page_past.elsewhere(Story(small), "d/test", "d/other") == same
    publish(small, second_us=25.0, first=(40.0, 5.0))
    text = page_past.elsewhere(Story(small), "d/test", "d/other")
    assert "On 0 of 1" in text
    assert "| 64 | `02_second` ×2.000<br>`" in text


def test_changes_of_a_rung_are_told_as_its_study_found_them(small):
    assert page_answers.tried(Story(small), "01_first") == "Not measured yet."
    common = {"problem": "64x32x16", "configuration": "BX=32", "low": 0.9, "high": 1.1}
    mine, other = ({"kernel": "01_first", "what": "no idea", "ratio": 0.95}, {"kernel": "02_second", "what": "other", "ratio": 1})
    answer(small, "tried", changes=[common | mine, common | other])
    text = page_answers.tried(Story(small), "01_first")
    assert "| no idea | 64 × 32 × 16 | ×0.950 | 0.900 to 1.100 | `BX=32` |" in text
    assert "on `d`" in text
    assert "other" not in text
    assert "Not measured yet" not in text


def test_errors_are_told_beside_the_references(small):
    text = fill("table: errors d/test 02_second", small)
    assert "| `uniform` | 5.00 | 2.00 | 10.0 | 4.00 | ×0.500 at 64 | ×0.500 at 64 |" in text
    missed = "0 of 2 (the others: 2 of `uniform`)"
    assert f"At most ×1.05 of SGEMM's, or 4, are {missed}; of all 1 configurations {missed}." in text
    assert "are 2 of 2; of all 1 configurations 2 of 2." in fill("table: errors d/test cublas", small)
    assert "Not measured yet." in fill("table: errors none 02_second", small)


def test_errors_are_counted_of_configurations_that_are_not_the_fastest_too(small):
    add(small, configuration="BM=32", samples_us=[120.0] * 3, frobenius_error=0.0)
    text = fill("table: errors d/test 02_second", small)
    assert "are 0 of 2 (the others: 2 of `uniform`); of all 2 configurations 1 of 4 (the others: 3 of `uniform`)." in text


def test_limits_of_repeats_are_told_by_problem(small):
    assert "Not measured yet." in fill("table: limits d", small)
    lines = [
        "element_type,problem,state,tensor_cores,other_baseline,machines,repeat_pairs,repeat_limit,reproduce_limit",
        "float32,64,warm,False,False,4,2,0.01,0.02", "float32,64,warm,True,False,3,1,0.03,0.4",
        "float32,64,warm,True,True,2,3,0.05,", "float32,64,warm,False,True,2,3,0.06,", "float32,64,cold,False,False,2,2,0.9,0.9",
        "float32,64x32x16,warm,False,False,3,0,,0.05", "float32,65,warm,False,False,2,0,,",
        "float16,64,warm,False,False,2,2,0.8,0.8",
    ]  # fmt: skip
    (small / PUBLISHED / "repeat-d.csv").write_text("\n".join(lines) + "\n")
    text = fill("table: limits d", small)
    assert "| 64 | 1.01 % | 2.02 % | 3.05 % | 49.2 % | 5.13 % | – |" in text
    assert "| 64 × 32 × 16 | – | 5.13 % | – | – | – | – |" in text
    assert text.count("| 64") == 2
    assert "From 2–4 machines, and on one machine from 1–3 pairs of runs. Of 1 other problems no limit is known" in text


def on_machines(small, *times):
    """Runs on machines of their own in which rung 02 takes these times; the first run is featured."""
    for number, second_us in reversed(list(enumerate(times, 1))):
        publish(small, second_us)
        folder = small / RUN
        environment = ENVIRONMENT | {"attributes": ENVIRONMENT["attributes"] | {"uuid": f"GPU-{number}"}}
        (folder / "environment.json").write_text(json.dumps(environment))
        if number > 1:
            shutil.copytree(folder, folder.with_name(str(number)))
    synthetic.index(small / PUBLISHED)


def test_ratios_to_the_reference_are_means_over_machines(small):
    on_machines(small, 100.0, 80.0, 62.5)  # 0.5, 0.625 and 0.8 of the reference
    table = fill("table: best cuda", small)
    logs = np.log([0.5, 0.625, 0.8])
    half = 4.3027 * logs.std(ddof=1) / math.sqrt(3)
    low, high = (f"{100 * math.exp(logs.mean() + side * half):#.4g}" for side in (-1, 1))
    assert f"| `02_second` | 100 | 0.00524 | ×2.00 (01) | 63.0 % | {low} to {high} % | 10.5 % | `BM=16` |" in table
    assert "| 95 %, between machines |" in table
    assert "of cuBLAS: the mean over 3 machines, with the interval between machines; all else is of one machine" in table
    assert f"| 63.0 % ({low} to {high} %) | 8 |" in fill("table: rung 02_second 64", small)
    assert "63.0 %" in fill("value: share 02_second 64", small)


def test_fewer_than_three_machines_have_no_mean(small):
    on_machines(small, 100.0, 80.0)
    table = fill("table: best cuda", small)
    assert "| 50.0 % | 50.00 to 50.00 % |" in table
    assert "| 95 %, between-process |" in table
    assert "machines" not in table


def test_machines_are_listed_with_their_memories_and_times(small):
    on_machines(small, 100.0, 80.0, 62.5)
    published = (small / RUN).parent
    for run, copy in (("1", 1.0), ("2", 2.0), ("3", 4.0)):
        path = published / run / "environment.json"
        environment = json.loads(path.read_text())
        environment["peaks"] |= {"copy_tb_s": copy} | ({"l2_latency_ns": 250.0} if run == "3" else {})
        path.write_text(json.dumps(environment))
    shutil.copytree(published / "3", published / "4")  # the same machine again
    synthetic.index(published.parents[1])
    text = fill("table: machines d time:02_second:64 ratio:02_second:64 time:03_third:64", small)
    columns = ("GPU", "runs", "copy, TB/s", "a load from L2, ns", "`02_second` at 64, time", "`02_second` at 64, × the reference")
    assert f"| {' | '.join(columns)} | `03_third`" in text
    assert "| `1` | 1 | 1.000 | – | +25.00 % | 0.500 | – |" in text
    assert "| `3` | 2 | 4.000 | 250.0 | -21.88 % | 0.800 | – |" in text
    r = np.corrcoef([1, 2, 4], np.log([100, 80, 62.5]))[0, 1]
    assert f"| correlation with the copy bandwidth |  |  |  | {r:+.2f} | {-r:+.2f} | – |" in text
    assert "Not measured yet." in fill("table: machines other time:02_second:64", small)


def test_gains_say_how_often_equal_code_is_called_different(small):
    assert "corrected" not in fill("table: gains cuda", small)
    claims = {"null": {"pairs": 30, "called_different": 0.1}, "twins": {"pairs": 170, "called_different": 0.0}}
    (small / PUBLISHED / "repeat-d.json").write_text(json.dumps(claims))
    sentence = "with a margin of 0.1 %, and not corrected for their number: 1.5% of 200 pairs of equal code called different."
    assert sentence in fill("table: gains cuda", small)


def test_runs_with_other_packages_than_the_lock_are_named(small):
    assert "0 of 1 published runs are known to have used other versions" in fill("value: lock d", small)
    assert "| `d/test` | `1` | featured | `abc` | not known | made up |" in fill("table: datasets", small)
    published = small / PUBLISHED
    index = published_index.read(published)
    index["d/test"]["not_from_lock"] = {"1": "numpy 1 (lock 2), pandas 3 (lock 4)"}
    published_index.write(published, index)
    assert "1 of 1 published runs are known to have used other versions" in fill("value: lock d", small)
    assert "`make` installs: `numpy 1 (lock 2)`, `pandas 3 (lock 4)`<!--" in fill("value: lock d", small)
    text = fill("table: datasets", small)
    assert "| `d/test` | `1` | featured | `abc` | no | made up |" in text
    assert "Not from the lock: `numpy 1 (lock 2)`, `pandas 3 (lock 4)`." in text


def test_compilers_are_told_side_by_side(small):
    publish(small, last=1.2)
    add(small, configuration="BM=16 compiler=nvrtc", samples_us=[80.0] * 3)
    lines = ["kernel,slug,element_type,configuration,arch,status,sha256,compiler,seconds"]
    for kernel in ("01_first", "02_second"):
        lines += [f"{kernel},s,float32,x,sm_90,compiled,,{compiler},{s}" for compiler, s in (("nvcc", 2), ("nvrtc", 1))]
    (small / RUN / "resources.csv").write_text("\n".join(lines) + "\n")
    text = fill("table: compilers d/test", small)
    assert "| `02_second` | +25.0 % | +25.0 % m | +25.0 % m | 2.00 s | 1.00 s |" in text
    assert ", of the sweep: one process, within-run:" in text
    assert "Not measured yet." in fill("table: compilers none", small)


def test_rungs_of_16_bits_stand_beside_cublas_and_its_other_calls(small, monkeypatch):
    monkeypatch.setattr(page_half, "OF_CUDA", ("float32",))
    text = page_half.half(Story(small), "d/test")
    assert "ahead of cuBLAS on 0 of these 1 problems, and with the whole interval behind on 1 (64). The median is" in text
    assert "| 64 | `02_second` |" in text
    assert "Sustained" not in text  # it was not measured
    assert "in the rounds of the rungs, it takes +0.0 to +0.0 % longer" in text
    smaller = "0.50 and 0.50 times as fast on 1 smaller ones (geometric means). They are ahead on 0 and 0 of all 1"
    assert smaller in text
    assert smaller in fill("value: past d/test float32", small)
    monkeypatch.setattr(page_half, "LARGE", 0)
    assert "0.50 and 0.50 times as fast on 1 large shapes" in fill("value: past d/test float32", small)
    monkeypatch.setattr(page_half, "_is_aligned", lambda row: False)
    assert "0.50 and 0.50 times as fast on 1 shapes whose rows do not begin at 16 bytes" in fill(
        "value: past d/test float32", small
    )
    monkeypatch.setattr(page_half, "TUNED", ("64",))
    assert "The rungs were tuned on these problems." in page_half.half(Story(small), "d/test")
    assert "not measured yet" in fill("value: past d/test float32", small)
    data = Story(small).published("d/test")
    strict = data.rounds[data.rounds["kernel"] == "cublas"].assign(kernel="cublas_fp32_sums")
    data.rounds = pd.concat([data.rounds, strict.assign(time_us=1.25 * strict["time_us"])])
    assert "| ×0.625 | – |" in page_half._warm(data)  # 1.25 times as long as cuBLAS, in the same rounds
    data.rounds["reference_us"] *= np.where(data.rounds["kernel"] == "cublas", 1, 1.1)
    assert "in the rounds of the rungs, it takes +10.0 to +10.0 % longer" in page_half._warm(data)
    assert page_half.half(Story(small), "d/none") == "Not measured yet."


def test_kernels_of_all_languages_stand_in_a_table_for_each_element_type(small):
    table = page_tables.languages(Story(small), "d/test")
    assert "**float32**, over" in table
    assert "| `02_second` | ×0.500" in table
    assert "float16" not in table
    assert "| `cublas` |" not in table  # what all are compared with
    assert page_tables.languages(Story(small), "d/none") == "Not measured yet."


def test_hardware_counters_are_shown_in_the_order_asked_for(small):
    assert fill("table: counters 02_second", small).count("Not measured yet.") == 1
    counted = {"m": 64, "reason": None, "issue_percent": 71.4, "warps_percent": 25.2, "l2_read_sectors": 1e8, "shared_wavefronts": 400.0,
               "bank_conflicts": 100.0, "stalls": "barrier 2.5, wait 0.5"}  # fmt: skip
    rows = [counted | {"kernel": "01_first", "shared_wavefronts": 0.0}, counted | {"kernel": "02_second"},
            {"kernel": "03_third", "reason": "ERR_NVGPUCTRPERM"}]  # fmt: skip
    pd.DataFrame(rows).to_csv(small / RUN / "counters.csv", index=False)
    lines = page_tables.counters(Story(small), "02_second", "01_first", "03_third").splitlines()
    assert lines[2] == "| `02_second` | 71 % | 25 % | 3.2 GB | 25 % | barrier 2.5, wait 0.5 |"
    assert lines[3].startswith("| `01_first` | 71 % | 25 % | 3.2 GB | 0 % |")
    assert lines[4:] == ["", f"Nsight Compute, one launch at 64 on one {ENVIRONMENT['name']}."]


def test_an_answer_says_when_it_was_measured_and_that_its_kernels_have_changed(small):
    kernel = Story(small).kernels["01_first"]
    same = code_digest(kernel.text, kernel.includes)
    made = "it was so 3 times (`d`, 2026-11-23, by `x.py` of commit `abc`"
    for kernels, changed in (
        ({kernel.id: same}, ""),
        ({kernel.id: same, "cuda/02_second": "old", "cuda/09_gone": "x"}, "2 of its 3 kernels have"),
    ):
        answer(small, "tensor", kernels)
        since = f"; {changed} changed since" if changed else ""
        assert f"- {made}{since})\n" in page_answers.details(Story(small))
        short = f"| Is it so? | Yes: 3 times{f' ({since[2:]})' if since else ''} | `d` | [`tensor`](#tensor) |"
        assert short in page_answers.answers(Story(small))
        assert fill("value: study tensor", small).count("changed since") == bool(since)


def test_a_comment_or_a_header_does_not_change_code(tmp_path):
    include = written(tmp_path / "a.cuh", "int a; // an a\n")
    before = code_digest("/*---\ntitle: T\n---*/\nint  b;", [include])
    include.write_text("/* of c */ int\na;")
    assert code_digest("/*---\ntitle: T\nprecision: tf32\n---*/\n int b; // b", [include]) == before
    assert code_digest("int c;", [include]) != before
