"""docs/ladder/ says what the committed data say, tells every rung, and shows every drawing."""

import hashlib
import json
import math
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import synthetic
from ladder.core import verdicts
from ladder.core.errors import InputError
from ladder.core.files import ROOT
from ladder.model.kernel_file import discover
from ladder.model.problem import Problem
from ladder.publishing import main_loops, page_answers, page_cells, page_data, page_half, page_past, pages
from ladder.publishing.page_data import Story
from ladder.storage import published_index, samples

PAGES = {page.name: page.read_text() for page in pages.LADDER.glob("*.md")}
IMAGES = ROOT / "docs" / "img"


ENVIRONMENT = {"device": "d", "kind": "cuda", "name": "Test", "time": "2026-01-01T", "fingerprint": {},
               "attributes": {"sm_count": 3, "compute_capability": "9.0", "library": "cuBLAS 1"},
               "peaks": {"fp32_tflops": 0.05, "copy_tb_s": 1.0}, "project": {"commit": "abc", "dirty": False}}  # fmt: skip
COST = {"wall_seconds": 90.0, "busy_seconds": 30.0}
HEADER = (
    "/*---\ntitle: {0}\nidea: i\nparameters: {{{1}}}\nblock: [1]\ngrid: ['ceil_div(M, 16)', 2]\nglobal_reads: 2*M*N*K\n---*/\n{2}"
)


@pytest.fixture
def small(tmp_path):
    """A checkout of three kernels and a dataset with results of two of them."""
    for name, parameter, comment in (
        ("01_first", "BX: 32", "// What holds it back: 2*M*N reads\n// and more.\n//\n// Else."),
        ("02_second", "BM: 16", ""),
        ("03_third", "BM: 16", ""),
    ):
        path = tmp_path / "kernels" / "cuda" / f"{name}.cu"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEADER.format(name, parameter, comment))
    publish(tmp_path)
    return tmp_path


def publish(
    root, second_us=100.0, state="warm", name="d/test", first=(200.0, 6.0), last=1.0,
    rungs=("01_first", "02_second"), size=64, element_type="float32",
):  # fmt: skip
    """A dataset of two kernels and the reference on one problem, each timed side by side in three processes.

    The last sample of each takes `last` times as long.
    """
    folder = root / "results" / "published" / name / "1"
    (folder / "samples").mkdir(parents=True, exist_ok=True)
    (folder / "environment.json").write_text(json.dumps(ENVIRONMENT))
    (folder / "resources.csv").write_text("kernel,slug,element_type,configuration,arch,status,sha256\n")
    jobs = {}
    times = {rungs[0]: ("BX=32", *first), rungs[1]: ("BM=16", second_us, 5.0), "cublas": ("-", 50.0, 2.0)}
    base = dict.fromkeys(samples.SCHEMA.names) | vars(Problem(size, size, size, element_type=element_type)) | {
        "device": "d", "status": "correct", "state": state, "reference": "cublas", "stop": "target", "reference_us": [50.0] * 3
    }  # fmt: skip
    rows = []
    for kernel, (configuration, us, units) in times.items():
        row = base | {"kernel": kernel, "configuration": configuration, "samples_us": [us, us, us * last]}
        row |= {"frobenius_error": units * 2**-24, "component_error": units * 2**-23}
        job = f"{'baselines' if kernel == 'cublas' else kernel}.{element_type}"
        samples.write(folder / "samples" / f"{job}.parquet", [row], {"job": job, "fingerprint": {}})
        jobs[job] = hashlib.sha256((folder / "samples" / f"{job}.parquet").read_bytes()).hexdigest()
        for process in (1, 2, 3):
            noisy = [it * (1 + process * 1e-6) for it in row["samples_us"]]
            rows.append(row | {"process": process, "role": "best", "samples_us": noisy})
    samples.write(folder / "confirmed.parquet", rows, {"job": "confirmed", "jobs": jobs, "fingerprint": {}} | COST)
    synthetic.index(root / "results" / "published")


def fill(marker, root):
    return pages.fill(f"<!-- {marker} -->old<!-- end -->", Story(root))


def test_a_slower_device_takes_longer_for_what_it_executes(small):
    assert fill("value: minutes d/test 10", small).endswith("-->6<!-- end -->")  # 60 s of the host, 300 s of the device
    assert "not measured yet" in fill("value: minutes d/other 10", small)


def edit(root, table, old, new):
    """Change a table of the small checkout's dataset."""
    path = root / "results" / "published" / "d" / "test" / "1" / f"{table}.csv"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_filling_again_changes_nothing(small):
    once = fill("table: best cuda", small)
    assert pages.fill(once, Story(small)) == once


def test_other_data_give_another_document(small):
    before = fill("table: best cuda", small)
    publish(small, 80.0)
    after = fill("table: best cuda", small)
    assert "| `02_second` | 100 | 0.00524 | ×2.00 (01) | 50.0 % | 50.00 to 50.00 % | 10.5 % | `BM=16` |" in before
    assert "| `02_second` | 80.0 | 0.00655 | ×2.50 (01) | 62.5 % | 62.50 to 62.50 % | 13.1 % | `BM=16` |" in after


def test_what_has_no_result_says_so(small):
    assert "| `03_third` | not measured yet | – | – | – | – | – | – |" in fill("table: best cuda", small)
    assert "not measured yet" in fill("table: rung 04_unknown 64", small)
    assert "not measured yet" in fill("table: best cpu", small) or "Not measured yet" in fill("table: best cpu", small)
    assert fill("value: rate 03_third 64", small) == "<!-- value: rate 03_third 64 -->not measured yet<!-- end -->"
    shutil.rmtree(small / "results")
    assert "Not measured yet." in fill("table: rates cuda", small)


def test_values_and_tables_hold_the_data(small):
    assert "×2.00" in fill("value: gain 02_second 64", small)
    assert "0.0105 TFLOP/s" in fill("value: rate cublas 64", small)
    assert "×0.500" in fill("value: over 01_first 02_second 64", small)
    assert "not measured yet" in fill("value: over 01_first 03_third 64", small)
    assert "0.00625 TFLOP/s" in fill("value: peak cuda 8", small)
    assert "| 64 | 0.00524 | ×2.00 | 50.0 % (50.00 to 50.00 %) | 8 | `BM=16` |" in fill("table: rung 02_second 64", small)
    assert r"| 01_first | `2*M*N*K` | 2.00 | 200 | 2\*M\*N reads and more. |" in fill("table: methods cuda", small)
    assert "| `02_second` | ×2.00 | 1 of 1 | 0 of 1 | 0 of 1 | ×2.00 (64) | ×2.00 (64) |" in fill("table: gains cuda", small)
    assert "Over the 1 problems that every rung has, 64:" in fill("table: gains cuda", small)
    assert "At M = N = K = 64:" in fill("table: best cuda", small)
    assert "| `-` | 0.00524 | – |" not in fill("table: compare 02_second BM 64", small)
    assert "BM=16" in fill("table: compare 02_second BM 64", small)
    assert "| TFLOP/s | 01 | 02 | 03 | cuBLAS |" in fill("table: rates cuda", small)
    assert "| 64 | 0.00262 | 0.00524 | – | 0.0105 |" in fill("table: rates cuda", small)


def test_who_were_timed_apart_are_compared_by_their_ratios_to_the_reference(small, monkeypatch):
    told = Story(small)
    data = told.beside("01_first")
    rounds = data.rounds.copy()
    slowed = rounds["kernel"] == "01_first"
    rounds.loc[slowed, ["time_us", "reference_us"]] *= 3  # the machine was slower then, in all rounds alike
    monkeypatch.setattr(data, "rounds", rounds)
    assert told.over("01_first", "02_second", "64")["ratio"] == pytest.approx(0.5)
    rounds.loc[slowed & (rounds["round"] == 1), "reference_us"] *= 5  # rounds apart are no pairs: one of them is as good as any
    assert told.over("01_first", "02_second", "64")["ratio"] == pytest.approx(0.5)


def test_tables_say_of_what_kind_their_intervals_are_and_of_how_many_processes(small):
    for table in (fill("table: best cuda", small), fill("table: rung 02_second 64", small)):
        assert re.search(r"[|(] ?95 %, between-process\)? \|", table)
        assert "n = 3 processes." in table
    assert "n = 3 processes." in fill("table: past d/test", small)
    assert "| TFLOP/s at 64, of the sweep: one process, within-run |" in fill("table: compare 02_second BM 64", small)


def test_an_interval_beyond_a_factor_of_two_is_not_known():
    assert verdicts.interval(".2f", 1.0, 0.501, 1.99) == "0.50 to 1.99"
    assert verdicts.interval(".2f", 1.0, 0.499, 1.5) == verdicts.interval(".2f", 1.0, 0.9, 2.01) == "not known"
    assert verdicts.interval(".2f", 1.0, 0.0, math.inf) == verdicts.interval(".2f", 1.0, math.nan, math.nan) == "not known"
    assert page_cells._interval({"ratio": 1.0, "ratio_low": 0.0, "ratio_high": 122864.0}) == "not known"
    assert page_cells._interval({"ratio": 1.0, "ratio_low": 0.99999, "ratio_high": 1.01}) == "100.0 to 101.0 %"


def test_what_cannot_be_told_apart_is_marked(small):
    publish(small, second_us=200.0)
    assert ">≈ ×1.00<" in fill("value: over 01_first 02_second 64", small)
    assert "| ≈ ×1.00 (64) |" in fill("table: gains cuda", small)
    assert "≈: not distinguishable." in fill("table: gains cuda", small)
    assert ">25.0 %<" in fill("value: share 02_second 64", small)
    publish(small, second_us=50.0)
    assert ">≈ 100 %<" in fill("value: share 02_second 64", small)
    assert ">100 %<" in fill("value: share cublas 64", small)


@pytest.mark.parametrize(("table", "cell"), [
    ("past d/test", "| ×0.500 m |"),
    ("methods cuda", "| 200 m |"),
    ("elsewhere d/test d/test-b", "`01_first` ×1.250 m<br>"),
    ("rung 02_second 64", "| 0.00524 m |"),
    ("gains cuda", "| ×2.00 m (64) |"),
])  # fmt: skip
def test_marked_values_have_their_letters_in_every_table(small, table, cell):
    publish(small, last=1.2)
    publish(small, first=(40.0, 6.0), last=1.2, name="d/test-b")
    told = fill(f"table: {table}", small)
    assert cell in told
    assert "m: multimodal, p90/p10 above 1.05" in told


def test_a_value_may_be_of_another_dataset(small):
    publish(small, second_us=25.0, name="d/test-b")
    assert ">200 %<" in fill("value: share 02_second 64 d/test-b", small)
    assert ">0.0210 TFLOP/s<" in fill("value: rate 02_second 64 d/test-b", small)
    assert ">50.0 %<" in fill("value: share 02_second 64", small)
    assert "not measured yet" in fill("value: share 02_second 64 none", small)


@pytest.fixture
def halves(small, monkeypatch):
    """The small checkout with two rungs of 16 bits, and their two datasets."""
    for name, parameter in (("30_half", "BX: 32"), ("31_half", "BM: 16")):
        header = HEADER.format(name, parameter, "").replace("block:", "element_types: [bfloat16, float16]\nblock:")
        (small / "kernels" / "cuda" / f"{name}.cu").write_text(header)
    monkeypatch.setattr(page_data, "OF_16_BITS", ("d/test-half", "d/test-unseen"))
    for name, second_us, size in (("test-half", 40.0, 64), ("test-unseen", 20.0, 32)):
        publish(small, second_us, name=f"d/{name}", rungs=("30_half", "31_half"), size=size, element_type="bfloat16")
    return small


def test_a_rung_of_16_bits_stands_beside_the_one_it_builds_on_and_cublas(halves):
    """And not in a table of float32."""
    told = fill("table: rung 31_half 64 32 128", halves)
    assert "| M × N × K | TFLOP/s | over rung 30 | of cuBLAS (95 %, between-process) | blocks | best configuration |" in told
    assert "| 64 | 0.0131 | ×5.00 | 125 % (125.0 to 125.0 %) | 8 | `BM=16` |" in told
    assert "| 32 | 0.00328 | ×10.0 | 250 % (250.0 to 250.0 %) | 4 | `BM=16` |" in told  # from the next dataset
    assert "| 128 | not measured yet |" in told
    assert "n = 3 processes; bfloat16 on one Test." in told
    assert "bfloat16" not in fill("table: rung 02_second 64", halves)
    assert "31_half" not in fill("table: best cuda", halves)
    assert "| gain |" in fill("table: rung 30_half 64", halves)


def test_values_of_a_rung_of_16_bits_are_of_the_first_dataset_with_the_problem(halves):
    path = halves / "results" / "published" / "main-loops.json"
    path.write_text(json.dumps({"loops": {"31_half BM=16": {"HGMMA": 16, "UTMALDG": 0, "SYNCS": 8, "other": 140}}}))
    told = Story(halves)
    for call, expected in {
        "rate 31_half 64": "0.0131 TFLOP/s",
        "rate 31_half 32": "0.00328 TFLOP/s",
        "rate 31_half 64 d/test-half float16": "not measured yet",
        "share 31_half 32": "250 %",
        "gain 31_half 64": "×5.00",
        "over 30_half 31_half 32": "×0.100",
        "mix 31_half 64": "16 HGMMA, 0 UTMALDG, 8 SYNCS, 140 other",
        "mix 30_half 64": "not measured yet",
    }.items():
        assert page_answers.value(told, *call.split()) == expected


@pytest.mark.parametrize("marker", ["table: bst cuda 64", "table: best cuda 64", "value: speed 01_first 64", "value: rate"])
def test_a_marker_that_asks_for_what_is_unknown_is_an_error(small, marker):
    with pytest.raises(InputError, match=r"page: "):
        fill(marker, small)


def test_a_claim_that_there_is_not_is_named():
    with pytest.raises(InputError, match=r"page: claim nix: no such claim in config/claims\.yaml"):
        fill("value: claim nix", ROOT)


@pytest.mark.parametrize("behind", ["", " and <!-- table: gains cuda -->new<!-- end -->"])
def test_a_marker_without_an_end_takes_no_text_with_it(behind):
    with pytest.raises(InputError, match=r"page\.md: claim exact: has no end; expected <!-- end --> behind it"):
        pages.fill(f"<!-- value: claim gains -->1<!-- end --> a <!-- value: claim exact -->text{behind}", Story(ROOT), "page.md")


def test_blocks_are_counted_where_the_grid_asks_for_the_device():
    kernel = next(kernel for kernel in discover(ROOT).values() if kernel.name == "15_last_wave")
    row = {"configuration": "BM=128 BN=256 IDLE=4", "element_type": "float32", "m": 8192, "n": 8192, "k": 64, "padding": 0}
    names = page_cells._names(kernel, row, SimpleNamespace(environment={"attributes": {"sm_count": 132}}))
    assert (names["wave"], names["rest"]) == (128, 0)


@pytest.mark.parametrize(("name", "given", "expected"), [
    ("03_shared_tile", "BM=32 BN=32 BK=32", "64"),
    ("13_snake_order", "BM=128 BN=256 BK=8 TM=16 TN=8 STAGES=7 SPREAD=4 LEAD=2 B_FIRST=0 SPLIT=0", "2"),
    ("20_tensor_cores", "BM=128 BN=256 STAGES=4", "128 + 2"),
    ("21_tensor_split", "BM=128 BN=64 STAGES=6 SLICES=2 DIRECT=0", "64 + 16"),
])  # fmt: skip
def test_the_blocks_of_every_launch_are_told(name, given, expected):
    kernel = next(kernel for kernel in discover(ROOT).values() if kernel.name == name)
    row = {"configuration": given, "element_type": "float32", "m": 256, "n": 256, "k": 256, "padding": 0}
    device = {"sm_count": 132, "shared_memory_per_block_bytes": 232448}
    assert page_cells._blocks(kernel, row, SimpleNamespace(environment={"attributes": device})) == expected


def test_a_rung_gains_on_one_of_its_own_precision():
    told = Story(ROOT)
    assert told.builds_on("21_tensor_split") == "15_last_wave"
    assert told.builds_on("20_tensor_cores") is None
    assert told.builds_on("02_naive_coalesced") == "01_naive_uncoalesced"
    assert told.builds_on("31_half_ring") == "30_half_tensor_maps"
    assert told.builds_on("30_half_tensor_maps") is None
    names = {name for pair in page_data.BUILDS_ON.items() for name in pair}
    assert names <= told.kernels.keys()
    assert all(told.kernels[it].precision == told.kernels[base].precision for it, base in page_data.BUILDS_ON.items())


def test_a_rung_is_compared_with_the_one_it_builds_on(small, monkeypatch):
    monkeypatch.setattr(page_data, "BUILDS_ON", {"02_second": "03_third"})
    assert fill("value: gain 02_second 64", small) == "<!-- value: gain 02_second 64 -->not measured yet<!-- end -->"
    monkeypatch.setattr(page_data, "BUILDS_ON", {"01_first": "02_second"})
    assert ">×0.500<" in fill("value: gain 01_first 64", small)
    assert "| over rung 02 |" in fill("table: rung 01_first 64", small)
    assert "| ×0.500 (02) |" in fill("table: best cuda", small)


def count_loops(root, **counts):
    path = root / "results" / "published" / "main-loops.json"
    path.write_text(json.dumps({"loops": {"01_first BX=32": counts, "02_second BM=16": counts, "03_third BM=9": counts}}))


def test_a_page_shows_the_instructions_of_a_main_loop(small):
    assert "not measured yet" in fill("value: mix 02_second 64", small)
    count_loops(small, FFMA=30, LDS=5, LDG=1, other=4)
    assert ">30 FFMA, 5 LDS, 1 LDG, 4 other<" in fill("value: mix 02_second 64", small)
    told = fill("table: mix 64 02_second 03_third", small)
    assert "| `02_second` | 30 | 5 | 1 | 4 | 75 % |" in told
    assert "| `03_third` | not measured yet |" in told


def test_the_figure_of_main_loops_has_a_bar_for_each_rung_of_the_main_line(small, tmp_path):
    count_loops(small, FFMA=30, LDS=50, LDG=10, other=10)
    text = main_loops.write(Story(small), tmp_path / "slots.svg").read_text()
    assert re.findall(r">([a-z ]+?) +(\d\d)<", text) == [("one thread per element", "01"), ("coalesced loads", "02")]
    assert len(re.findall(r">50</text>", text)) == 2
    assert main_loops.write(Story(small), tmp_path / "again.svg").read_text() == text
    assert {name[:2] for name in Story(ROOT).ladder("cuda")} > set(main_loops.MAIN_LINE)


def test_every_kernel_is_told():
    for name in (kernel.name for kernel in discover(ROOT).values()):
        if name.startswith("6"):  # an example in another language
            assert f"[{name}](" in (ROOT / "docs" / "languages.md").read_text()
        else:
            assert any(f"\n`{name}`, from " in text for text in PAGES.values()), f"{name} has no page in docs/ladder/"


PARTS = (
    "The bottleneck",
    "The idea",
    "Do the arithmetic",
    "Look at the machine code",
    "Result",
    "When it loses",
    "Try it",
    "Next",
)


def test_every_rung_has_a_chapter_of_its_own_with_the_same_parts():
    chapters = {name.split("-")[0]: text for name, text in PAGES.items() if name[0].isdigit()}
    rungs = {name[:2]: name for in_float32 in (True, False) for name in Story(ROOT).ladder("cuda", in_float32)}
    assert chapters.keys() == rungs.keys()
    for number, text in chapters.items():
        assert f"\n`{rungs[number]}`, from " in text
        found = re.findall(r"^\*\*(.+?)\.\*\*", text, re.MULTILINE)
        assert [part for part in found if part in PARTS] == list(PARTS), rungs[number]
        assert f"<!-- table: rung {rungs[number]} " in text


def test_no_rate_stands_outside_a_generated_part():
    by_hand = pages.CITED.sub("", pages.PART.sub("", "\n\n".join(PAGES.values())))
    assert not re.findall(r"\d\s*TFLOP/s", by_hand)
    assert "<!--" not in by_hand  # a marker that is not closed would never be filled


def test_what_nothing_was_tuned_on_is_the_headline(small, monkeypatch):
    told = page_past.past(Story(small), "d/test")
    rows = Story(small).published("d/test").best.query("kernel != 'cublas'").to_dict("records")
    fastest = max(rows, key=lambda row: row["ratio"])
    mean = f"{fastest['ratio']:.3f}"
    assert (
        f"Nothing was tuned on these 1 problems: the rungs are {mean} times as fast as cuBLAS (geometric mean; median {mean})."
        in told
    )
    assert f"They are ahead of cuBLAS on {int(fastest['ratio'] >= 1)}, on" in told
    assert told.count("| problem |") == 1
    assert f"| `{fastest['kernel']}` | ×{fastest['ratio']:.3f} | {fastest['ratio_low']:.3f} to" in told
    assert "at most ×1.05 of cuBLAS's on 0:" in told
    assert "| – | – | ×2.50 | `BM=16` |" in told
    assert f"on 1 shapes that no kernel was tuned on, the fastest rungs are {mean} times" in fill("value: past d/test", small)
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
    folder = small / "results" / "published" / "studies"
    folder.mkdir(parents=True)
    provenance = {"device": "d", "project": {"commit": "a", "dirty": False}}

    def study(rung):
        row = {"problem": "64", "rung": rung, "aligned": {"ratio": 0.4567}}
        (folder / "placement.d.json").write_text(json.dumps({"provenance": provenance, "measured": {"rows": [row]}}))
        return page_past.past(Story(small), "d/test")

    assert "| ×0.457 | – | ×2.50 | `BM=16` |" in study("02_second BM=16")
    assert "| – | – | ×2.50 | `BM=16` |" in study("02_second BM=32")


def test_numbers_have_three_digits():
    assert [page_cells._number(value) for value in (0.12345, 9.996, 99.96, 1234.5, 100)] == [
        "0.123",
        "10.0",
        "100",
        "1,234",
        "100",
    ]


def test_past_the_vendor_is_who_is_no_less_precise(small):
    publish(small, second_us=25.0, first=(40.0, 2.0))
    assert "| 64 | `01_first` | ×1.250 |" in page_past.past(Story(small), "d/test")
    publish(small, second_us=25.0, first=(60.0, 2.0))  # behind cuBLAS
    assert "| 64 | `01_first` | ×0.833 |" in page_past.past(Story(small), "d/test")
    publish(small, second_us=25.0, first=(40.0, 5.0))
    assert "| 64 | `02_second` | ×2.000 |" in page_past.past(Story(small), "d/test")


def test_the_fastest_rungs_of_two_campaigns_are_told_where_they_differ(small):
    publish(small, second_us=25.0, first=(40.0, 2.0))
    one = small / "results" / "published" / "d" / "test"
    assert page_past.elsewhere(Story(small), "d/test", "d/other") == "Not measured yet."
    shutil.copytree(one, one.with_name("other"))
    synthetic.index(one.parents[1])
    same = "On 1 of 1 problems the fastest rung and its configuration are the same."
    assert page_past.elsewhere(Story(small), "d/test", "d/other") == same
    publish(small, second_us=25.0, first=(40.0, 5.0))
    told = page_past.elsewhere(Story(small), "d/test", "d/other")
    assert "On 0 of 1" in told
    assert "| 64 | `02_second` ×2.000<br>`" in told


def test_changes_of_a_rung_are_told_as_its_study_found_them(small):
    folder = small / "results" / "published" / "studies"
    folder.mkdir(parents=True)
    assert page_answers.tried(Story(small), "01_first") == "Not measured yet."
    common = {"problem": "64x32x16", "configuration": "BX=32", "low": 0.9, "high": 1.1}
    changes = [
        common | {"kernel": "01_first", "what": "no idea", "ratio": 0.95},
        common | {"kernel": "02_second", "what": "other", "ratio": 1},
    ]
    provenance = {"device": "d", "project": {"commit": "abc", "dirty": False}}
    (folder / "tried.d.json").write_text(json.dumps({"provenance": provenance, "measured": {"changes": changes}}))
    told = page_answers.tried(Story(small), "01_first")
    assert "| no idea | 64 × 32 × 16 | ×0.950 | 0.900 to 1.100 | `BX=32` |" in told
    assert "on `d`" in told
    assert "other" not in told
    assert "Not measured yet" not in told


def test_errors_are_told_beside_the_references(small):
    told = fill("table: errors d/test 02_second", small)
    assert "| `uniform` | 5.00 | 2.00 | 10.0 | 4.00 | ×0.500 at 64 | ×0.500 at 64 |" in told
    missed = "0 of 2 (the others: 2 of `uniform`)"
    assert f"At most ×1.05 of SGEMM's, or 4, are {missed}; of all 1 configurations {missed}." in told
    assert "are 2 of 2; of all 1 configurations 2 of 2." in fill("table: errors d/test cublas", small)
    assert "Not measured yet." in fill("table: errors none 02_second", small)


def test_errors_are_counted_of_configurations_that_are_not_the_fastest_too(small):
    folder = small / "results" / "published" / "d" / "test" / "1"
    path = folder / "samples" / "02_second.float32.parquet"
    rows, session = samples.read(path)
    slower = rows[0] | {"configuration": "BM=32", "samples_us": [120.0] * 3, "frobenius_error": 0.0}
    samples.write(path, [*rows, slower], session)
    (folder / "confirmed.parquet").unlink()
    told = fill("table: errors d/test 02_second", small)
    assert "are 0 of 2 (the others: 2 of `uniform`); of all 2 configurations 1 of 4 (the others: 3 of `uniform`)." in told


def test_limits_of_repeats_are_told_by_problem(small):
    assert "Not measured yet." in fill("table: limits d", small)
    lines = [
        "element_type,problem,state,tensor_cores,other_baseline,machines,repeat_pairs,repeat_limit,reproduce_limit",
        "float32,64,warm,False,False,4,2,0.01,0.02",
        "float32,64,warm,True,False,3,1,0.03,0.4",
        "float32,64,warm,True,True,2,3,0.05,",
        "float32,64,warm,False,True,2,3,0.06,",
        "float32,64,cold,False,False,2,2,0.9,0.9",
        "float32,64x32x16,warm,False,False,3,0,,0.05",
        "float32,65,warm,False,False,2,0,,",
        "float16,64,warm,False,False,2,2,0.8,0.8",
    ]
    (small / "results" / "published" / "repeat-d.csv").write_text("\n".join(lines) + "\n")
    told = fill("table: limits d", small)
    assert "| 64 | 1.01 % | 2.02 % | 3.05 % | 49.2 % | 5.13 % | – |" in told
    assert "| 64 × 32 × 16 | – | 5.13 % | – | – | – | – |" in told
    assert told.count("| 64") == 2
    assert "From 2–4 machines, and on one machine from 1–3 pairs of runs. Of 1 other problems no limit is known" in told


def on_machines(small, *times):
    """Runs on machines of their own in which rung 02 takes these times; the first run is featured."""
    published = small / "results" / "published"
    for number, second_us in reversed(list(enumerate(times, 1))):
        publish(small, second_us)
        one = published / "d" / "test" / "1"
        environment = ENVIRONMENT | {"attributes": ENVIRONMENT["attributes"] | {"uuid": f"GPU-{number}"}}
        (one / "environment.json").write_text(json.dumps(environment))
        if number > 1:
            shutil.copytree(one, one.with_name(str(number)))
    synthetic.index(published)


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
    published = small / "results" / "published" / "d" / "test"
    for run, copy in (("1", 1.0), ("2", 2.0), ("3", 4.0)):
        path = published / run / "environment.json"
        environment = json.loads(path.read_text())
        environment["peaks"] |= {"copy_tb_s": copy} | ({"l2_latency_ns": 250.0} if run == "3" else {})
        path.write_text(json.dumps(environment))
    shutil.copytree(published / "3", published / "4")  # the same machine again
    synthetic.index(published.parents[1])
    told = fill("table: machines d time:02_second:64 ratio:02_second:64 time:03_third:64", small)
    assert (
        "| GPU | runs | copy, TB/s | a load from L2, ns | `02_second` at 64, time | `02_second` at 64, × the reference | `03_third`"
        in told
    )
    assert "| `1` | 1 | 1.000 | – | +25.00 % | 0.500 | – |" in told
    assert "| `3` | 2 | 4.000 | 250.0 | -21.88 % | 0.800 | – |" in told
    r = np.corrcoef([1, 2, 4], np.log([100, 80, 62.5]))[0, 1]
    assert f"| correlation with the copy bandwidth |  |  |  | {r:+.2f} | {-r:+.2f} | – |" in told
    assert "Not measured yet." in fill("table: machines other time:02_second:64", small)


def test_gains_say_how_often_equal_code_is_called_different(small):
    assert "corrected" not in fill("table: gains cuda", small)
    found = {"null": {"pairs": 30, "called_different": 0.1}, "twins": {"pairs": 170, "called_different": 0.0}}
    (small / "results" / "published" / "repeat-d.json").write_text(json.dumps(found))
    told = "with a margin of 0.1 %, and not corrected for their number: 1.5% of 200 pairs of equal code called different."
    assert told in fill("table: gains cuda", small)


def test_runs_with_other_packages_than_the_lock_are_named(small):
    assert "0 of 1 published runs are known to have used other versions" in fill("value: lock d", small)
    assert "| `d/test` | `1` | featured | `abc` | not known | made up |" in fill("table: datasets", small)
    published = small / "results" / "published"
    index = published_index.read(published)
    index["d/test"]["not_from_lock"] = {"1": "numpy 1 (lock 2), pandas 3 (lock 4)"}
    published_index.write(published, index)
    assert "1 of 1 published runs are known to have used other versions" in fill("value: lock d", small)
    assert "`make` installs: `numpy 1 (lock 2)`, `pandas 3 (lock 4)`<!--" in fill("value: lock d", small)
    told = fill("table: datasets", small)
    assert "| `d/test` | `1` | featured | `abc` | no | made up |" in told
    assert "Not from the lock: `numpy 1 (lock 2)`, `pandas 3 (lock 4)`." in told


def test_compilers_are_told_side_by_side(small):
    publish(small, last=1.2)
    folder = small / "results" / "published" / "d" / "test" / "1"
    path = folder / "samples" / "02_second.float32.parquet"
    rows, session = samples.read(path)
    quicker = rows[0] | {"configuration": "BM=16 compiler=nvrtc", "samples_us": [80.0] * 3}
    samples.write(path, [*rows, quicker], session)
    (folder / "confirmed.parquet").unlink()
    lines = ["kernel,slug,element_type,configuration,arch,status,sha256,compiler,seconds"]
    lines += [
        f"{kernel},s,float32,x,sm_90,compiled,,{one},{s}"
        for kernel in ("01_first", "02_second")
        for one, s in (("nvcc", 2), ("nvrtc", 1))
    ]
    (folder / "resources.csv").write_text("\n".join(lines) + "\n")
    told = fill("table: compilers d/test", small)
    assert "| `02_second` | +25.0 % | +25.0 % m | +25.0 % m | 2.00 s | 1.00 s |" in told
    assert ", of the sweep: one process, within-run:" in told
    assert "Not measured yet." in fill("table: compilers none", small)


def test_a_marker_within_a_line_does_not_begin_it():
    """Markdown takes a line that begins with a comment for HTML and shows the rest of it as it stands."""
    for page in pages.DOCUMENTS:
        assert not re.findall(r"^\s*<!-- value", page.read_text(), re.MULTILINE), page


def test_every_drawing_is_shown_and_every_link_leads_somewhere():
    shown = {drawing for text in PAGES.values() for drawing in re.findall(r"!\[[^]]+\]\(\.\./img/(\w+)\.svg\)", text)}
    assert shown == {path.stem for path in IMAGES.iterdir()}
    assert max(path.stat().st_size for path in IMAGES.iterdir()) < 60_000
    headings = {
        name: {
            re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in text.splitlines() if line[:1] == "#"
        }
        for name, text in PAGES.items()
    }
    for name, text in PAGES.items():
        for path, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", text):
            assert (pages.LADDER / path).exists(), f"{name}: {path}"
            if heading and (path or name) in headings:
                assert heading in headings[path or name], f"{name}: {path}#{heading}"


def test_the_index_links_every_page():
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", PAGES["README.md"])) == set(PAGES) - {"README.md"}


def test_rungs_of_16_bits_stand_beside_cublas_and_its_other_calls(small, monkeypatch):
    monkeypatch.setattr(page_half, "OF_CUDA", ("float32",))
    told = page_half.half(Story(small), "d/test")
    assert "ahead of cuBLAS on 0 of these 1 problems, and with the whole interval behind on 1; the median is" in told
    assert "Nothing was tuned on these problems; over the 1 whose rows begin at 16 bytes, the geometric mean is ×0.500" in told
    assert "| 64 | `02_second` |" in told
    assert "Sustained" not in told  # it was not measured
    monkeypatch.setattr(page_half, "TUNED", ("64",))
    assert "The rungs were tuned on these problems:" in page_half.half(Story(small), "d/test")
    data = Story(small).published("d/test")
    strict = data.best[data.best["kernel"] == "cublas"].assign(kernel="cublas_fp32_sums", ratio=0.8)
    data.best = pd.concat([data.best, strict])
    row = data.best[data.best["kernel"] == "02_second"].iloc[0]
    assert f"| ×{row['ratio'] / 0.8:.3f} | – |" in page_half._warm(data)
    assert page_half.half(Story(small), "d/none") == "Not measured yet."


def test_kernels_of_all_languages_stand_in_a_table_for_each_element_type(small):
    table = page_half.languages(Story(small), "d/test")
    assert "**float32**, over" in table
    assert "| `02_second` | ×0.500" in table
    assert "float16" not in table
    assert "| `cublas` |" not in table  # what all are compared with
    assert page_half.languages(Story(small), "d/none") == "Not measured yet."
