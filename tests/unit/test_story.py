"""docs/ladder/ says what the committed data say, tells every rung, and shows every drawing."""

import json
import math
import re
import shutil
from types import SimpleNamespace

import pytest
from ladder.cli.main import main
from ladder.core import files, verdicts
from ladder.core.errors import InputError
from ladder.core.files import ROOT
from ladder.model.campaign import is_rung
from ladder.model.kernel_file import discover
from ladder.publishing import main_loops, page_answers, page_cells, page_data, page_past, pages, precisions
from ladder.publishing.page_data import Story
from planted import written
from small_story import HEADER, PUBLISHED, checkout, fill, publish

PAGES = {page.name: page.read_text() for page in pages.LADDER.glob("*.md")}
IMAGES = ROOT / "docs" / "img"


@pytest.fixture
def small(tmp_path):
    return checkout(tmp_path)


def test_a_slower_device_takes_longer_for_what_it_executes(small):
    assert fill("value: minutes d/test 10", small).endswith("-->6<!-- end -->")  # 60 s of the host, 300 s of the device
    assert "not measured yet" in fill("value: minutes d/other 10", small)


def test_filling_again_changes_nothing(small):
    once = fill("table: best cuda", small)
    assert pages.fill(once, Story(small)) == once


def test_one_page_can_be_filled_alone(small, monkeypatch, capsys):
    page, other = (written(small / name, "<!-- value: rate 02_second 64 --><!-- end -->") for name in ("page.md", "other.md"))
    monkeypatch.setattr(files, "ROOT", small)
    monkeypatch.setattr(pages, "DOCUMENTS", (page, other))
    with pytest.raises(SystemExit):
        main(["story", str(small / "README.md")])
    assert "README.md; expected a page with generated parts, such as" in capsys.readouterr().err
    main(["story", str(page)])
    assert "0.00524" in page.read_text()
    assert "0.00524" not in other.read_text()
    assert not (small / "docs").exists()


def test_other_data_give_another_document(small):
    before = fill("table: best cuda", small)
    publish(small, 80.0)
    after = fill("table: best cuda", small)
    assert "| `02_second` | 100 | 0.00524 | ×2.00 (01) | 50.0 % | 50.00 to 50.00 % | 10.5 % | `BM=16` |" in before
    assert "| `02_second` | 80.0 | 0.00655 | ×2.50 (01) | 62.5 % | 62.50 to 62.50 % | 13.1 % | `BM=16` |" in after


def test_what_has_no_result_says_so(small):
    assert "| `03_third` | not measured yet | – | – | – | – | – | – |" in fill("table: best cuda", small)
    assert "not measured yet" in fill("table: rung 04_unknown 64", small)
    assert "not measured yet" in fill("table: best cpu", small).lower()
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
    story = Story(small)
    data = story.beside("01_first")
    rounds = data.rounds.copy()
    slowed = rounds["kernel"] == "01_first"
    rounds.loc[slowed, ["time_us", "reference_us"]] *= 3  # the machine was slower then, in all rounds alike
    monkeypatch.setattr(data, "rounds", rounds)
    assert story.over("01_first", "02_second", "64")["ratio"] == pytest.approx(0.5)
    rounds.loc[slowed & (rounds["round"] == 1), "reference_us"] *= 5  # rounds apart are no pairs: one of them is as good as any
    assert story.over("01_first", "02_second", "64")["ratio"] == pytest.approx(0.5)


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
    text = fill(f"table: {table}", small)
    assert cell in text
    assert "m: multimodal, p90/p10 above 1.05" in text


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
    text = fill("table: rung 31_half 64 32 128", halves)
    assert "| M × N × K | TFLOP/s | over rung 30 | of cuBLAS (95 %, between-process) | blocks | best configuration |" in text
    assert "| 64 | 0.0131 | ×5.00 | 125 % (125.0 to 125.0 %) | 8 | `BM=16` |" in text
    assert "| 32 | 0.00328 | ×10.0 | 250 % (250.0 to 250.0 %) | 4 | `BM=16` |" in text  # from the next dataset
    assert "| 128 | not measured yet |" in text
    assert "n = 3 processes; bfloat16 on one Test." in text
    assert "bfloat16" not in fill("table: rung 02_second 64", halves)
    assert "31_half" not in fill("table: best cuda", halves)
    assert "| gain |" in fill("table: rung 30_half 64", halves)


def test_values_of_a_rung_of_16_bits_are_of_the_first_dataset_with_the_problem(halves):
    path = halves / "results" / "published" / "main-loops.json"
    path.write_text(json.dumps({"loops": {"31_half BM=16": {"HGMMA": 16, "UTMALDG": 0, "SYNCS": 8, "other": 140}}}))
    story = Story(halves)
    for call, expected in {
        "rate 31_half 64": "0.0131 TFLOP/s", "rate 31_half 32": "0.00328 TFLOP/s",
        "rate 31_half 64 d/test-half float16": "not measured yet", "share 31_half 32": "250 %", "gain 31_half 64": "×5.00",
        "over 30_half 31_half 32": "×0.100", "mix 31_half 64": "16 HGMMA, 0 UTMALDG, 8 SYNCS, 140 other",
        "mix 30_half 64": "not measured yet",
    }.items():  # fmt: skip
        assert page_answers.value(story, *call.split()) == expected


def test_problems_on_which_a_rung_of_16_bits_is_the_fastest_are_those_that_nothing_was_tuned_on(halves, monkeypatch):
    monkeypatch.setattr(page_past, "TUNED", ("64",))
    text = fill("table: rung 31_half 64 unseen", halves)
    assert [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")][1:] == ["| ---", "| 64", "| 32"]
    assert "| 32 |" not in fill("table: rung 30_half 64 unseen", halves)
    for call, expected in {"fastest 31_half": "1 of 1", "fastest 30_half": "0 of 1"}.items():
        assert page_answers.value(Story(halves), *call.split()) == expected
    monkeypatch.setattr(page_past, "TUNED", ("64", "32"))
    assert page_answers.value(Story(halves), "fastest", "31_half") == "not measured yet"


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
    story = Story(ROOT)
    assert story.builds_on("21_tensor_split") == "15_last_wave"
    assert story.builds_on("20_tensor_cores") is None
    assert story.builds_on("02_naive_coalesced") == "01_naive_uncoalesced"
    assert story.builds_on("31_half_ring") == "30_half_tensor_maps"
    assert story.builds_on("30_half_tensor_maps") is None
    assert {name for pair in page_data.BUILDS_ON.items() for name in pair} <= story.kernels.keys()
    assert all(story.kernels[it].precision == story.kernels[base].precision for it, base in page_data.BUILDS_ON.items())


def test_a_rung_is_compared_with_the_one_it_builds_on(small, monkeypatch):
    monkeypatch.setattr(page_data, "BUILDS_ON", {"02_second": "03_third"})
    assert fill("value: gain 02_second 64", small) == "<!-- value: gain 02_second 64 -->not measured yet<!-- end -->"
    monkeypatch.setattr(page_data, "BUILDS_ON", {"01_first": "02_second"})
    assert ">×0.500<" in fill("value: gain 01_first 64", small)
    assert "| over rung 02 |" in fill("table: rung 01_first 64", small)
    assert "| ×0.500 (02) |" in fill("table: best cuda", small)


def count_loops(root, **counts):
    path = root / PUBLISHED / "main-loops.json"
    path.write_text(json.dumps({"loops": {"01_first BX=32": counts, "02_second BM=16": counts, "03_third BM=9": counts}}))


def test_a_page_shows_the_instructions_of_a_main_loop(small):
    assert "not measured yet" in fill("value: mix 02_second 64", small)
    count_loops(small, FFMA=30, LDS=5, LDG=1, other=4)
    assert ">30 FFMA, 5 LDS, 1 LDG, 4 other<" in fill("value: mix 02_second 64", small)
    text = fill("table: mix 64 02_second 03_third", small)
    assert "| `02_second` | 30 | 5 | 1 | 4 | 75 % |" in text
    assert "| `03_third` | not measured yet |" in text


def test_the_figure_of_main_loops_has_a_bar_for_each_rung_of_the_main_line(small, tmp_path):
    count_loops(small, FFMA=30, LDS=50, LDG=10, other=10)
    text = main_loops.write(Story(small), tmp_path / "slots.svg").read_text()
    assert re.findall(r">([a-z ]+?) +(\d\d)<", text) == [("one thread per element", "01"), ("coalesced loads", "02")]
    assert len(re.findall(r">50</text>", text)) == 2
    assert main_loops.write(Story(small), tmp_path / "again.svg").read_text() == text
    assert {name[:2] for name in Story(ROOT).ladder("cuda")} > set(main_loops.MAIN_LINE)


def test_every_kernel_is_told():
    for name in (kernel.name for kernel in discover(ROOT).values()):
        if not is_rung(name):  # an example in another language
            assert f"[{name}](" in (ROOT / "docs" / "languages.md").read_text()
        else:
            assert any(f"\n`{name}`, from " in text for text in PAGES.values()), f"{name} has no page in docs/ladder/"


PARTS = (
    "The bottleneck", "The idea", "Do the arithmetic", "Look at the machine code", "Result", "When it loses", "Try it", "Next",
)  # fmt: skip


def test_every_rung_has_a_chapter_of_its_own_with_the_same_parts():
    chapters = {name.split("-")[0]: text for name, text in PAGES.items() if name[0].isdigit()}
    rungs = {name[:2]: name for in_float32 in (True, False) for name in Story(ROOT).ladder("cuda", in_float32)}
    assert chapters.keys() == rungs.keys()
    for number, text in chapters.items():
        assert f"\n`{rungs[number]}`, from " in text
        headings = re.findall(r"^\*\*(.+?)\.\*\*", text, re.MULTILINE)
        assert [part for part in headings if part in PARTS] == list(PARTS), rungs[number]
        assert f"<!-- table: rung {rungs[number]} " in text


def test_no_rate_stands_outside_a_generated_part():
    by_hand = pages.CITED.sub("", pages.PART.sub("", "\n\n".join(PAGES.values())))
    assert not re.findall(r"\d\s*TFLOP/s", by_hand)
    assert "<!--" not in by_hand  # a marker that is not closed would never be filled


def test_numbers_have_three_digits():
    numbers = {0.12345: "0.123", 9.996: "10.0", 99.96: "100", 1234.5: "1,234", 100: "100"}
    assert {value: page_cells._number(value) for value in numbers} == numbers


def test_a_marker_within_a_line_does_not_begin_it():
    """Markdown takes a line that begins with a comment for HTML and shows the rest of it as it stands."""
    for page in pages.DOCUMENTS:
        assert not re.findall(r"^\s*<!-- value", page.read_text(), re.MULTILINE), page


def test_every_drawing_is_shown_and_every_link_leads_somewhere():
    shown = {drawing for text in PAGES.values() for drawing in re.findall(r"!\[[^]]+\]\(\.\./img/(\w+)\.svg\)", text)}
    assert shown == {path.stem for path in IMAGES.iterdir()}
    assert max(path.stat().st_size for path in IMAGES.iterdir()) < 60_000
    headings = {
        name: {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in re.findall(r"^#+ *(.*)", text, re.MULTILINE)}
        for name, text in PAGES.items()
    }
    for name, text in PAGES.items():
        for path, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", text):
            assert (pages.LADDER / path).exists(), f"{name}: {path}"
            if heading and (path or name) in headings:
                assert heading in headings[path or name], f"{name}: {path}#{heading}"


def test_the_index_links_every_page():
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", PAGES["README.md"])) == set(PAGES) - {"README.md"}


def test_the_figure_of_precisions_has_cublas_and_the_fastest_rung_of_each_precision(small, tmp_path, monkeypatch):
    monkeypatch.setattr(Story, "campaign", lambda story, name, *_: Story.published(story, name) if name == "d/test" else None)
    monkeypatch.setattr(precisions, "DATASETS", (("d/test", "float32"), ("d/none", "float16")))
    monkeypatch.setattr(precisions, "PROBLEM", "64")
    baseline, rung = precisions.points(Story(small))
    assert (baseline["precision"], baseline["kernel"], rung["kernel"]) == ("FP32", "cublas", "02_second")
    assert baseline["tflops"] > rung["tflops"]
    assert baseline["error"] == pytest.approx(2 * 2**-24)
    text = precisions.write(Story(small), tmp_path / "p.svg").read_text()
    assert len(re.findall("FP32, rung 02</text>", text)) == 1  # nothing measured energy
    monkeypatch.setattr(precisions, "DATASETS", (("d/none", "float32"),))
    assert "TFLOP/s" in precisions.write(Story(small), tmp_path / "empty.svg").read_text()  # a checkout without these data
