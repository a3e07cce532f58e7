"""docs/ladder.md says what the committed data say, tells every rung, and its drawings are those that docs/drawings.py makes."""

import importlib.util
import re
import shutil

import pytest
from ladder import story
from ladder.environment import ROOT
from ladder.kernels import discover
from ladder.units import InputError

TEXT = story.DOCUMENT.read_text()
IMAGES = ROOT / "docs" / "img"


def drawings():
    spec = importlib.util.spec_from_file_location("drawings", ROOT / "docs" / "drawings.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DRAWINGS = drawings()

BEST = """kernel,configuration,element_type,m,n,k,problem,state,median_us,tflops,ratio,peak_fraction,reference
01_first,BX=32,float32,64,64,64,64,warm,200,2,0.25,0.1,cublas
02_second,BM=16,float32,64,64,64,64,warm,100,4,0.5,0.2,cublas
cublas,-,float32,64,64,64,64,warm,50,8,1,0.4,cublas
"""
ENVIRONMENT = """{"kind": "cuda", "name": "Test", "time": "2026-01-01T", "attributes": {"sm_count": 3},
"peaks": {"fp32_tflops": 20, "copy_tb_s": 1}, "project": {"commit": "abc", "dirty": false}}"""
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
    data = tmp_path / "results" / "published" / "test"
    data.mkdir(parents=True)
    (data / "environment.json").write_text(ENVIRONMENT)
    (data / "best.csv").write_text(BEST)
    (data / "summary.csv").write_text(BEST)
    return tmp_path


def fill(marker, root):
    return story.fill(f"<!-- {marker} -->old<!-- end -->", story.Story(root))


def test_the_committed_document_is_current():
    assert story.fill(TEXT, story.Story(ROOT)) == TEXT, "docs/ladder.md is stale: PYTHONPATH=workflow python -m ladder.story"


def test_filling_again_changes_nothing(small):
    once = fill("table: best cuda 64", small)
    assert story.fill(once, story.Story(small)) == once


def test_other_data_give_another_document(small):
    before = fill("table: best cuda 64", small)
    path = small / "results" / "published" / "test" / "best.csv"
    path.write_text(path.read_text().replace("warm,100,4,", "warm,80,5,"))
    after = fill("table: best cuda 64", small)
    assert "| `02_second` | 100 | 4.00 | ×2.00 | 50.0 % | 20.0 % | `BM=16` |" in before
    assert "| `02_second` | 80.0 | 5.00 | ×2.50 | 50.0 % | 20.0 % | `BM=16` |" in after


def test_what_has_no_result_says_so(small):
    assert "| `03_third` | not measured yet | – | – | – | – | – |" in fill("table: best cuda 64", small)
    assert "not measured yet" in fill("table: rung 04_unknown 64", small)
    assert "not measured yet" in fill("table: best cpu 64", small) or "Not measured yet" in fill("table: best cpu 64", small)
    assert fill("value: rate 03_third 64", small) == "<!-- value: rate 03_third 64 -->not measured yet<!-- end -->"
    shutil.rmtree(small / "results")
    assert "Not measured yet." in fill("table: rates cuda", small)


def test_values_and_tables_hold_the_data(small):
    assert "×2.00" in fill("value: gain 02_second 64", small)
    assert "8.00 TFLOP/s" in fill("value: rate cublas 64", small)
    assert "2.50 TFLOP/s" in fill("value: peak cuda 8", small)
    assert "| 64 | 4.00 | ×2.00 | 50.0 % | 8 | `BM=16` |" in fill("table: rung 02_second 64", small)
    assert r"| 01_first | `2*M*N*K` | 2.00 | 200 | 2\*M\*N reads and more. |" in fill("table: methods cuda 64", small)
    assert "| `02_second` | ×2.00 | 1 of 1 | ×2.00 (64) | ×2.00 (64) |" in fill("table: gains cuda", small)
    assert "| `-` | 4.00 | – |" not in fill("table: compare 02_second BM 64", small)
    assert "BM=16" in fill("table: compare 02_second BM 64", small)
    assert "| TFLOP/s | 01 | 02 | 03 | cuBLAS |" in fill("table: rates cuda", small)
    assert "| 64 | 2.00 | 4.00 | – | 8.00 |" in fill("table: rates cuda", small)


@pytest.mark.parametrize("marker", ["table: bst cuda 64", "table: best cuda", "value: speed 01_first 64", "value: rate"])
def test_a_marker_that_asks_for_what_is_unknown_is_an_error(small, marker):
    with pytest.raises(InputError, match=r"ladder\.md"):
        fill(marker, small)


def test_every_kernel_is_told():
    for name in (kernel.name for kernel in discover(ROOT).values()):
        assert f"\n`{name}`, from " in TEXT, f"{name} has no section in docs/ladder.md"


def test_no_rate_stands_outside_a_generated_part():
    by_hand = story.PART.sub("", TEXT)
    assert not re.findall(r"\d\s*TFLOP/s", by_hand)
    assert "<!--" not in by_hand  # a marker that is not closed would never be filled


def test_a_marker_within_a_line_does_not_begin_it():
    """Markdown takes a line that begins with a comment for HTML and shows the rest of it as it stands."""
    assert not re.findall(r"^\s*<!-- value", TEXT, re.MULTILINE)


@pytest.mark.parametrize("name", DRAWINGS.DRAWINGS)
def test_the_drawing_is_current(name, tmp_path):
    DRAWINGS.draw(name, tmp_path / "new.svg")
    drawn = (tmp_path / "new.svg").read_bytes()
    assert drawn == (IMAGES / f"{name}.svg").read_bytes(), f"docs/img/{name}.svg is stale: python docs/drawings.py"
    assert len(drawn) < 60_000


def test_every_drawing_is_shown_and_every_link_leads_somewhere():
    shown = re.findall(r"!\[[^]]+\]\(img/(\w+)\.svg\)", TEXT)
    assert sorted(shown) == sorted(DRAWINGS.DRAWINGS) == sorted(path.stem for path in IMAGES.iterdir())
    for path in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (story.DOCUMENT.parent / path).exists(), path
    headings = {
        re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in TEXT.splitlines() if line[:1] == "#"
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", TEXT)) <= headings
