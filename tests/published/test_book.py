"""The pages tell every rung, show every drawing, and have no measured number outside their markers;
a marker says what it lacks.
"""

import json
import re
import shutil

import pytest
from ladder.core.errors import InputError
from ladder.core.files import ROOT
from ladder.figures import main_loops, precisions
from ladder.model.kernel import code_digest
from ladder.model.kernel_file import known
from planted import written
from small_story import PUBLISHED, answer, checkout, fill, publish, say

from book import data as book_data
from book import loops, pages
from book.__main__ import main
from book.data import Story

PAGES = {page.name: page.read_text() for page in pages.LADDER.glob("*.md")}
IMAGES = ROOT / "docs" / "img"


@pytest.fixture
def small(tmp_path):
    return checkout(tmp_path)


def test_one_page_can_be_filled_alone(small, monkeypatch):
    page, other = (
        written(small / name, "<!-- cell: rate 02_second 64 --><!-- end -->")
        for name in ("page.md", "other.md")
    )
    monkeypatch.setattr("book.__main__.ROOT", small)
    monkeypatch.setattr(pages, "DOCUMENTS", (page, other))
    with pytest.raises(
        InputError, match=r"README\.md; expected a page with generated parts, such as"
    ):
        main([str(small / "README.md")])
    main([str(page)])
    assert "0.00524" in page.read_text()
    assert "0.00524" not in other.read_text()
    assert not (small / "docs").exists()


def test_other_data_give_another_document(small):
    before = fill("table: best cuda", small)
    publish(small, 80.0)
    after = fill("table: best cuda", small)
    assert (
        "| `02_second` | 100 | 0.00524 | ×2.00 (01) | 50.0 % | 50.00 to 50.00 % | 10.5 % | `BM=16` |"
        in before
    )
    assert (
        "| `02_second` | 80.0 | 0.00655 | ×2.50 (01) | 62.5 % | 62.50 to 62.50 % | 13.1 % | "
        "`BM=16` |" in after
    )


def test_what_has_no_result_says_so(small):
    assert "| `03_third` | not measured yet | – | – | – | – | – | – |" in fill(
        "table: best cuda", small
    )
    assert "not measured yet" in fill("table: rung 04_unknown 64", small)
    assert "not measured yet" in fill("table: best cpu", small).lower()
    assert (
        fill("cell: rate 03_third 64", small)
        == "<!-- cell: rate 03_third 64 -->not measured yet<!-- end -->"
    )
    shutil.rmtree(small / "results")
    assert "Not measured yet." in fill("table: rates cuda", small)


def test_values_and_tables_hold_the_data(small):
    assert "×2.00" in fill("cell: gain 02_second 64", small)
    assert "0.0105 TFLOP/s" in fill("cell: rate cublas 64", small)
    assert "×0.500" in fill("cell: over 01_first 02_second 64", small)
    assert "not measured yet" in fill("cell: over 01_first 03_third 64", small)
    assert "0.00625 TFLOP/s" in fill("cell: peak cuda 8", small)
    assert "| 64 | 0.00524 | ×2.00 | 50.0 % (50.00 to 50.00 %) | 8 | `BM=16` |" in fill(
        "table: rung 02_second 64", small
    )
    assert r"| 01_first | `2*M*N*K` | 2.00 | 200 | 2\*M\*N reads and more. |" in fill(
        "table: methods cuda", small
    )
    assert "| `02_second` | ×2.00 | 1 of 1 | 0 of 1 | 0 of 1 | ×2.00 (64) | ×2.00 (64) |" in fill(
        "table: gains cuda", small
    )
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
    rounds.loc[slowed, ["time_us", "reference_us"]] *= (
        3  # the machine was slower then, in all rounds alike
    )
    monkeypatch.setattr(data, "rounds", rounds)
    assert story.over("01_first", "02_second", "64")["ratio"] == pytest.approx(0.5)
    rounds.loc[slowed & (rounds["round"] == 1), "reference_us"] *= (
        5  # rounds apart are no pairs: one of them is as good as any
    )
    assert story.over("01_first", "02_second", "64")["ratio"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("table", "cell"),
    [
        ("past d/test", "| ×0.500 m |"),
        ("methods cuda", "| 200 m |"),
        ("elsewhere d/test d/test-b", "`01_first` ×1.250 m<br>"),
        ("rung 02_second 64", "| 0.00524 m |"),
        ("gains cuda", "| ×2.00 m (64) |"),
    ],
)
def test_marked_values_have_their_letters_in_every_table(small, table, cell):
    publish(small, last=1.2)
    publish(small, first=(40.0, 6.0), last=1.2, name="d/test-b")
    text = fill(f"table: {table}", small)
    assert cell in text
    assert "m: multimodal, p90/p10 above 1.05" in text


@pytest.mark.parametrize(
    "marker", ["table: bst cuda 64", "table: best cuda 64", "cell: speed 01_first 64", "cell: rate"]
)
def test_a_marker_that_asks_for_what_is_unknown_is_an_error(small, marker):
    with pytest.raises(InputError, match=r"page: "):
        fill(marker, small)


def test_a_claim_that_there_is_not_is_named():
    with pytest.raises(InputError, match=r"page: claim nix: no such claim in config/claims\.yaml"):
        fill("cell: claim nix", ROOT)


@pytest.mark.parametrize("behind", ["", " and <!-- table: gains cuda -->new<!-- end -->"])
def test_a_marker_without_an_end_takes_no_text_with_it(behind):
    with pytest.raises(
        InputError, match=r"page\.md: claim exact: has no end; expected <!-- end --> behind it"
    ):
        pages.fill(
            f"<!-- cell: claim gains -->1<!-- end --> a <!-- cell: claim exact -->text{behind}",
            Story(ROOT),
            "page.md",
        )


def count_loops(root, **counts):
    path = root / PUBLISHED / "main-loops.json"
    path.write_text(
        json.dumps(
            {
                "loops": {
                    "01_first BX=32": counts,
                    "02_second BM=16": counts,
                    "03_third BM=9": counts,
                }
            }
        )
    )


def test_the_figure_of_main_loops_has_a_bar_for_each_rung_of_the_main_line(small, tmp_path):
    count_loops(small, FFMA=30, LDS=50, LDG=10, other=10)
    say(small, "01_first", label="one thread per element")
    say(small, "02_second", label="coalesced loads")
    text = main_loops.write(loops.of_main_line(Story(small)), tmp_path / "slots.svg").read_text()
    assert re.findall(r">([a-z ]+?) +(\d\d)<", text) == [
        ("one thread per element", "01"),
        ("coalesced loads", "02"),
    ]
    assert len(re.findall(r">50</text>", text)) == 2
    assert (
        main_loops.write(loops.of_main_line(Story(small)), tmp_path / "again.svg").read_text()
        == text
    )
    line = [name[:2] for name in loops.main_line(Story(ROOT))]
    assert line == ["01", "02", "03", "05", "06", "07", "09", "10", "12", "13", "15", "21"]


def test_every_kernel_is_told():
    for name, kernel in known().items():
        if kernel.rival:
            assert f"[{name}](" in (ROOT / "docs" / "languages.md").read_text()
        else:
            assert any(f"\n`{name}`, from " in text for text in PAGES.values()), (
                f"{name} has no page in docs/ladder/"
            )


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
    rungs = {
        name[:2]: name
        for in_float32 in (True, False)
        for name in Story(ROOT).ladder("cuda", in_float32)
    }
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


def test_a_marker_within_a_line_does_not_begin_it():
    """Markdown takes a line that begins with a comment for HTML and shows the rest of it as it
    stands.
    """
    for page in pages.DOCUMENTS:
        assert not re.findall(r"^\s*<!-- cell", page.read_text(), re.MULTILINE), page


def test_every_drawing_is_shown_and_every_link_leads_somewhere():
    shown = {
        drawing
        for text in PAGES.values()
        for drawing in re.findall(r"!\[[^]]+\]\(\.\./img/(\w+)\.svg\)", text)
    }
    assert shown == {path.stem for path in IMAGES.iterdir()}
    assert max(path.stat().st_size for path in IMAGES.iterdir()) < 60_000
    headings = {
        name: {
            re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-")
            for line in re.findall(r"^#+ *(.*)", text, re.MULTILINE)
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


def test_the_figure_of_precisions_has_cublas_and_the_fastest_rung_of_each_precision(
    small, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        Story,
        "campaign",
        lambda story, name, *_: Story.published(story, name) if name == "d/test" else None,
    )
    monkeypatch.setattr(book_data, "DATASETS", (("d/test", "float32"), ("d/none", "float16")))
    monkeypatch.setattr(precisions, "PROBLEM", "64")
    baseline, rung = precisions.points(Story(small).precisions())
    assert (baseline["precision"], baseline["kernel"], rung["kernel"]) == (
        "FP32",
        "cublas",
        "02_second",
    )
    assert baseline["tflops"] > rung["tflops"]
    assert baseline["error"] == pytest.approx(2 * 2**-24)
    text = precisions.write(Story(small).precisions(), tmp_path / "p.svg").read_text()
    assert len(re.findall("FP32, rung 02</text>", text)) == 1  # nothing measured energy
    monkeypatch.setattr(book_data, "DATASETS", (("d/none", "float32"),))
    assert (
        "TFLOP/s" in precisions.write(Story(small).precisions(), tmp_path / "empty.svg").read_text()
    )  # a checkout without these data


WRITTEN = ("data.md", "faults.md", "frauds.md")
"""Pages whose own tests hold them against the data."""
ALL_PAGES = sorted(
    page
    for folder in ("", "docs", "docs/ladder", "config")
    for page in (ROOT / folder).glob("*.md")
    if page.name not in WRITTEN
)


def test_no_page_has_a_measured_number_outside_claims_and_tables():
    assert {
        page.relative_to(ROOT): numbers
        for page in ALL_PAGES
        if (numbers := pages.unsaid(page.read_text()))
    } == {}


@pytest.mark.parametrize(
    ("text", "numbers"),
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
            [
                "a minute",
                "half a second",
                "2 GB",
                "19 MB",
                "2 minutes",
                "some minutes",
                "a third faster",
            ],
        ),
        ("a second launch, a third rung, 32 KiB, in a second", []),
        ("It is done twice the same way, 2 x 4, 4x4 and 2^30 times K: sometimes.", []),
        ("tiles of 128 × 64, 8 x 8 and 2^30 times K, 95 tests, `12 %`", []),
        ("```\nwall 3 s\n```\n\nand <!-- cell: claim x -->1.07 times as fast<!-- end -->", []),
        ("000 says 13 ms and 1.2 GFLOP/s<!-- from: 000 --> there.", []),
        ("000 says 13 ms<!-- from: 000 -->, we 12 ms.", ["12 ms"]),
        ("- 13 ms\n- 12 ms<!-- from: 000 -->", ["13 ms"]),
        ("| 13 ms |\n| 12 ms<!-- from: 000 --> |", ["13 ms"]),
        ("13 ms\n\n12 ms<!-- from: 000 -->", ["13 ms"]),
    ],
)
def test_what_a_measured_number_is(text, numbers):
    assert pages.unsaid(text) == numbers


def test_an_answer_says_when_it_was_measured_and_that_its_kernels_have_changed(small):
    kernel = Story(small).kernels["01_first"]
    same = code_digest(kernel.text, kernel.includes)
    made = "it was so 3 times (`d`, 2026-11-23, by `x.py` of commit `abc`"
    cases = [
        ({kernel.id: same}, ""),
        ({kernel.id: "old"}, "its kernel has changed since"),
        (
            {kernel.id: same, "cuda/09_gone": "x", "cuda/02_second": "old"},
            "2 of its 3 kernels have changed since",
        ),
    ]
    for kernels, changed in cases:
        answer(small, "tensor", kernels)
        assert f"- {made}{changed and '; '}{changed})\n" in fill("table: details", small)
        assert f"| Yes: 3 times{changed and f' ({changed})'} | `d` |" in fill(
            "table: answers", small
        )
        assert ("changed since" in fill("cell: study tensor", small)) is bool(changed)


def test_what_was_made_of_all_runs_is_kept_until_the_data_change(small, monkeypatch):
    first = Story(small)
    assert first.confirmed
    monkeypatch.setattr(Story, "everything", [])
    assert Story(small).confirmed == first.confirmed
    (small / PUBLISHED / "repeat-d.csv").write_text("x")
    assert Story(small).confirmed == {}
