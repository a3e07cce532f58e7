"""The pages tell every rung, show every drawing, and have no measured number outside their markers;
a marker says what it lacks.
"""

import json
import re
import shutil
from itertools import pairwise

import pytest
from documented import FILES
from ladder.analysis.kernel_model import l1_tb_s
from ladder.core.errors import InputError
from ladder.core.places import HOME
from ladder.figures import main_loops, precisions
from ladder.model.kernel import code_digest
from ladder.model.kernel_file import known
from ladder.storage import published_index
from ladder.storage.dataset_layout import read_environment
from planted import written
from small_story import PUBLISHED, answer, checkout, fill, publish, say

from book import loops, pages, rungs, tables
from book.__main__ import main
from book.data import Story

PAGES = {page.name: page.read_text() for page in pages.LADDER.glob("*.md")}
IMAGES = HOME / "docs" / "img"
every_page = pytest.mark.parametrize("page", FILES, ids=lambda page: page.name)


@pytest.fixture
def small(tmp_path):
    return checkout(tmp_path)


def test_one_page_can_be_filled_alone(small, monkeypatch):
    text = "<!-- cell: rate 02_second 64 --><!-- end -->"
    page, other = (written(small / name, text) for name in ("page.md", "other.md"))
    monkeypatch.setattr("book.__main__.HOME", small)
    monkeypatch.setattr(pages, "DOCUMENTS", (page, other))
    with pytest.raises(InputError, match=r"README\.md; expected a page with generated parts"):
        main([str(small / "README.md")])
    main([str(page)])
    assert "0.00524" in page.read_text()
    assert other.read_text() == text
    assert not (small / "docs").exists()


@pytest.mark.parametrize(
    ("marker", "expected"),
    [
        ("table: device cpu", "Not measured yet."),
        ("table: compare 02_second BM 64", "| BM=16 |\n| --- | ---: |\n| `` | 0.00524 |"),
        ("cell: gain 02_second 64", ">×2.00<"),
        ("cell: rate cublas 64", ">0.0105 TFLOP/s<"),
        ("cell: rate 03_third 64", ">not measured yet<"),
        ("cell: over 01_first 02_second 64", ">×0.500<"),
        ("cell: over 01_first 03_third 64", ">not measured yet<"),
        ("cell: peak cuda 8", ">0.00625 TFLOP/s<"),
    ],
)
def test_values_and_tables_hold_the_data(marker, expected, small):
    assert expected in fill(marker, small)


def test_other_data_give_another_document(small):
    publish(small, 80.0)
    assert ">×2.50<" in fill("cell: gain 02_second 64", small)
    shutil.rmtree(small / "results")
    assert ">not measured yet<" in fill("cell: gain 02_second 64", small)


def test_who_were_timed_apart_are_compared_by_their_ratios_to_the_reference(small, monkeypatch):
    data = Story(small).view("cuda")
    rounds = data.rounds.copy()
    monkeypatch.setattr(data, "rounds", rounds)
    slowed = rounds["kernel"] == "01_first"
    # the machine was slower then, in all rounds alike
    rounds.loc[slowed, ["time_us", "reference_us"]] *= 3
    assert data.over("01_first", "02_second", "64")["ratio"] == pytest.approx(0.5)
    # rounds apart are no pairs: one of them is as good as any
    rounds.loc[slowed & (rounds["round"] == 1), "reference_us"] *= 5
    assert data.over("01_first", "02_second", "64")["ratio"] == pytest.approx(0.5)


def test_marked_values_have_their_letters_in_a_table(small):
    publish(small, last=1.2)
    text = fill("table: compare 02_second BM 64", small)
    assert "| 0.00524 m |" in text
    assert "m: multimodal, p90/p10 above 1.05" in text


def test_the_table_of_all_rungs_has_a_row_for_each_kernel_and_baseline(small):
    publish(small, name="d/default")
    rows = rungs.table(Story(small)).splitlines()
    assert [row.split(",")[4] for row in rows] == ["kernel", "01_first", "02_second", "cublas"]


def test_the_table_of_the_power_limit_has_each_launch_beside_the_least_time(small):
    run = {"us": 50.0, "clock_mhz": 2000.0, "power_w": 600.4}
    held = dict.fromkeys(("whole", "split", "product"), run)
    row = {"size": 4096, "held": held, "products": {"128 x 256": run}}
    answer(small, "power_limit", rows=[row], sm_count=1024)
    text = fill("table: power_limit 4096", small)
    assert "| rung 21 | 50 | 2000 | 600 | 98 % |" in text
    assert "| three such products and the split, computed | 200 | – | – | – |" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- table: bst cuda 64 --><!-- end -->", "table: got bst; expected device, mix"),
        ("<!-- table: device cuda 64 --><!-- end -->", "device cuda 64: "),
        ("<!-- cell: rate --><!-- end -->", "rate: "),
        (
            "<!-- cell: claim nix --><!-- end -->",
            r"claim nix: no such claim in config/claims\.yaml",
        ),
        (
            "<!-- cell: claim gains -->1<!-- end --> a <!-- cell: claim exact -->text",
            "claim exact: has no end; expected <!-- end --> behind it",
        ),
        (
            "<!-- cell: claim exact -->text and <!-- table: device cuda -->new<!-- end -->",
            "claim exact: has no end; expected <!-- end --> behind it",
        ),
    ],
)
def test_a_marker_that_cannot_be_filled_is_named(text, message):
    with pytest.raises(InputError, match=f"page: {message}"):
        pages.fill(text, Story(HOME))


def test_the_figure_of_main_loops_has_a_bar_for_each_rung_of_the_main_line(small, tmp_path):
    counts = {"FFMA": 30, "LDS": 50, "LDG": 10, "other": 10}
    names = ("01_first BX=32", "02_second BM=16", "03_third BM=9")
    written(
        small / PUBLISHED / "main-loops.json", json.dumps({"loops": dict.fromkeys(names, counts)})
    )
    say(small, "01_first", label="one thread per element")
    say(small, "02_second", label="coalesced loads")
    text = main_loops.write(loops.of_main_line(Story(small)), tmp_path / "slots.svg").read_text()
    labels = re.findall(r">([a-z ]+?) +(\d\d)<", text)
    assert labels == [("one thread per element", "01"), ("coalesced loads", "02")]
    assert len(re.findall(r">50</text>", text)) == 2


def test_every_kernel_is_told():
    for name, kernel in known().items():
        if kernel.rival:
            assert f"[{name}](" in (HOME / "docs" / "languages.md").read_text()
        else:
            assert any(f"\n`{name}`, from " in text for text in PAGES.values()), (
                f"{name} has no page in docs/ladder/"
            )


def test_each_chapter_ends_with_links_to_the_chapters_before_and_after_it():
    chapters = [(name, PAGES[name].splitlines()[-1]) for name in sorted(PAGES) if name[0].isdigit()]
    for (before, its_end), (after, end) in pairwise(chapters):
        assert f"]({after})" in its_end, before
        assert f"]({before})" in end, after


def test_a_marker_within_a_line_does_not_begin_it():
    """Markdown takes a line that begins with a comment for HTML and shows the rest of it as it
    stands.
    """
    for page in pages.DOCUMENTS:
        assert not re.findall(r"^\s*<!-- cell", page.read_text(), re.MULTILINE), page


def test_every_drawing_is_shown():
    shown = set(re.findall(r"!\[[^]]+\]\(\.\./img/(\w+)\.svg\)", "".join(PAGES.values())))
    assert shown == {path.stem for path in IMAGES.glob("*.svg")}


def test_drawings_can_be_read_on_a_phone():
    """Text is at least 9 high if a drawing is 400 wide."""
    for path in IMAGES.glob("*.svg"):
        text = path.read_text()
        width = float(re.findall(r'viewBox="0 0 (\S+)', text)[0])
        sizes = re.findall(r'<(?:svg|text)[^>]* font-size(?:="|: )([\d.]+)', text)
        assert min(map(float, sizes)) * 400 / width >= 9, path


def test_the_session_in_the_readme_is_that_of_the_page_on_the_first_kernel():
    (shown,) = re.findall(r"```console\n(.*?)```", (HOME / "README.md").read_text(), re.DOTALL)
    page = (HOME / "docs" / "first-kernel.md").read_text().splitlines()
    assert [line for line in shown.splitlines() if line not in page] == []


def test_the_drawing_of_memories_has_the_rates_and_latencies_of_the_featured_run():
    folder = published_index.featured(HOME / PUBLISHED)[published_index.HEADLINE]
    environment = read_environment(folder / "environment.json")
    peaks, drawn = environment["peaks"], (IMAGES / "memory.svg").read_text()
    for text in (
        f"{l1_tb_s(environment):.3g} TB/s",
        f"{peaks['l2_tb_s']:.1f} TB/s, {peaks['l2_latency_ns']:.0f} ns a load",
        f"{peaks['copy_tb_s']:.3g} TB/s, {peaks['memory_latency_ns']:.0f} ns a load",
    ):
        assert f">{text}<" in drawn


def headings(text):
    lines = re.findall(r"^#+ *(.*)", text, re.MULTILINE)
    named = {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}
    return named | set(re.findall(r'<a id="(\w+)">', text))


@every_page
def test_every_link_leads_somewhere(page):
    links = r"\]\((?!https?:)([^)#\s]*)(?:#([^)]+))?\)"
    for path, heading in re.findall(
        links, re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    ):
        target = page.parent / path if path else page
        assert target.exists(), path
        if heading and target.suffix == ".md":
            assert heading in headings(target.read_text()), f"{path}#{heading}"


def test_the_figure_of_precisions_has_cublas_and_the_fastest_rung_of_each_precision(
    small, tmp_path, monkeypatch
):
    monkeypatch.setattr(precisions, "PROBLEM", "64")
    views = [Story(small).campaign("d/test")]
    baseline, rung = precisions.points(views)
    assert [point["kernel"] for point in (baseline, rung)] == ["cublas", "02_second"]
    assert baseline["tflops"] > rung["tflops"]
    assert baseline["frobenius_error"] == pytest.approx(2 * 2**-24)
    text = precisions.write(views, tmp_path / "p.svg").read_text()
    assert len(re.findall("FP32, rung 02</text>", text)) == 1
    # a checkout without these data
    assert "TFLOP/s" in precisions.write([], tmp_path / "empty.svg").read_text()


def test_bits_are_counted_by_question_with_what_they_cost(small):
    story = Story(small)
    data = story.campaign("d/test")
    said = {"01_first": "same: every launch, rows; differ: alignment", "02_second": "differ: rows"}
    data.best = data.best.assign(bits=data.best["kernel"].map(said))
    table = tables.bits(story, "d/test", "float32")
    assert (
        "| `01_first` | 1 | 1 | 0 | 0 | ×2.00 |\n| `02_second` | 0 | 0 | 0 | 0 | ×1.00 |" in table
    )


MEASURED = re.compile(
    r"(?<![\dA-Z])(?<![\dA-Z]\s)[×≈~]\s?\d[\d.,]*(?!\s?[×x]\s?\d)"
    r"|(?<![\^\d.])\b\d[\d.,]*(?:\s?%|\s?[TG]FLOP(?:/s|s\b)|\s?[TG]B/s|\s(?:[µu]s|ms|s|J|W)\b|x\b(?!\s?\d)|\s?times\b)"
    r"|(?i:\b(?:two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|thirty|forty|fifty|a "
    r"hundred|a thousand)\s+times\b)"
    r"|(?i:\btwice\s+(?:as|the\s+(?:rate|speed|time))\b)"
    r"|\b\d[\d.,]*\s?(?:[MG]B\b(?!/s)|minutes?\b|seconds?\b|hours?\b)"
    r"|(?i:\b(?:half\s+a\s+second|(?:an?|half\s+an?)\s+(?:minute|hour)|(?:two|three|four|five|six|ten|some|several)\s+(?:seconds|minutes|hours))\b)"
    r"|(?i:\b(?:a|one)\s+(?:third|quarter|half|fifth|tenth)\s+(?:faster|slower|more|less|of\s+the\s+time)\b)"
)
"""A measured number, also in words: a rate, share, time, energy, size or speedup."""
CITED = re.compile(r"<!-- from: [^>]+? -->")
"""The marker after a measured number that names its source, if it is not ours."""


def by_hand(text):
    """Return the text of a page without code and generated parts."""
    return pages.PART.sub("", re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL))


def unsaid(text):
    """Return the measured numbers in the hand-written text of a page, which no claim and no table
    carries.

    Code and the generated parts do not count, nor does a number with `CITED` after it in the same
    paragraph or table row.
    """
    return [
        match[0]
        for block in re.split(r"\n\s*\n|\n(?=\s*(?:\||- |\d+\. ))", by_hand(text))
        for match in MEASURED.finditer(block)
        if not CITED.search(block, match.end())
    ]


WRITTEN = ("data.md", "faults.md", "frauds.md")
"""Pages whose own tests hold them against the data."""
ALL_PAGES = [page for page in FILES if page.name not in WRITTEN]


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.name)
def test_no_page_has_a_measured_number_outside_claims_and_tables(page):
    assert unsaid(page.read_text()) == []


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1,234 GFLOPs, 4.2 TB/s, 17 µs, 0.4 J", ["1,234 GFLOPs", "4.2 TB/s", "17 µs", "0.4 J"]),
        ("a gain of ×1.07, or 7 %, or 1.07 times as fast", ["×1.07,", "7 %", "1.07 times"]),
        ("Four times cuBLAS, twice\nas fast, 12x", ["Four times", "twice\nas", "12x"]),
        ("under a minute, 2 GB, a third faster", ["a minute", "2 GB", "a third faster"]),
        ("a second launch, a third rung, 32 KiB, 128 × 64, 4x4, 2^30 times K, `12 %`", []),
        ("```\nwall 3 s\n```\n\nand <!-- cell: claim x -->1.07 times as fast<!-- end -->", []),
        ("000 says 13 ms<!-- from: 000 -->, we 12 ms.", ["12 ms"]),
        ("- 13 ms\n- 12 ms<!-- from: 000 -->", ["13 ms"]),
        ("13 ms\n\n12 ms<!-- from: 000 -->", ["13 ms"]),
    ],
)
def test_what_a_measured_number_is(text, numbers):
    assert unsaid(text) == numbers


@pytest.mark.parametrize(
    ("others", "changed"),
    [
        ({}, ""),
        ({"cuda/01_first": "old"}, "its kernel has changed since"),
        ({"cuda/09_gone": "x", "cuda/02_second": "old"}, "2 of its 3 kernels have changed since"),
    ],
)
def test_an_answer_says_when_it_was_measured_and_that_its_kernels_have_changed(
    small, others, changed
):
    kernel = Story(small).kernels["01_first"]
    same = {kernel.id: code_digest(kernel.text, kernel.includes)}
    answer(small, "tensor", same | others)
    file = "../results/published/studies/tensor.d.json"
    text = f"Yes: 3 times ([`d`]({file}), 2026-11-23{changed and '; '}{changed})\n"
    assert text in fill("table: answers", small)
    assert ("changed since" in fill("cell: study tensor", small)) is bool(changed)


def test_gates_are_counted_by_the_change(small):
    def gate(result, *rows):
        named = [{"verdict": verdict, "ratio": ratio} for verdict, ratio in rows]
        return {"result": result, "rows": named}

    same, less = ("not distinguishable", [1.0, 0.98, 1.02]), ("slower", [0.9, 0.9, 0.9])
    unchanged = [gate("passed", same), gate("passed", same)]
    changed = [gate("slower", less, less), gate("measure again", ("measure again", None))]
    answer(small, "gate_rates", **{"0": unchanged, "5": changed})
    lines = [
        "|  | unchanged | 5 % slower |",
        "| --- | ---: | ---: |",
        "| **gates** | 2 | 2 |",
        "| measure again | 0 | 1 |",
        "| passed | 2 | 0 |",
        "| slower | 0 | 1 |",
        "| **comparisons** | 2 | 3 |",
        "| measure again | 0 | 1 |",
        "| not distinguishable | 2 | 0 |",
        "| slower | 0 | 2 |",
        "| speed, head / base, median | 1.000 | 0.900 |",
        "| half of its interval, median | 2.02 % | 0.00 % |",
    ]
    assert "On `d`:\n\n" + "\n".join(lines) in fill("table: gates", small)
