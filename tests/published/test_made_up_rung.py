"""A rung that did not exist before: its file says all that tables, figures and the index need."""

import pytest
from ladder.analysis.dataset import Dataset
from ladder.core.errors import InputError
from ladder.figures import draw as figures
from ladder.figures import explorer
from ladder.figures.data import View
from ladder.model import kernel_file
from ladder.storage.dataset_layout import DRAWN_FROM
from small_story import RUN, checkout, fill, publish

from book.data import Story

BASE, MADE_UP = "01_first", "04_made_up"


def copied(root, **keys):
    """Copy a rung of a small checkout, with other keys in its header."""
    folder = root / "kernels" / "cuda"
    added = "".join(f"{key}: {value}\n" for key, value in keys.items())
    text = (folder / "02_second.cu").read_text().replace("idea: i\n", f"idea: i\n{added}")
    path = folder / f"{MADE_UP}.cu"
    path.write_text(text)
    return path


@pytest.fixture
def root(tmp_path, monkeypatch):
    made = checkout(tmp_path)
    copied(made, builds_on=BASE, label="made-up tiles")
    (made / RUN / "samples" / "02_second.float32.parquet").unlink()
    publish(made, rungs=(BASE, MADE_UP))
    known = kernel_file.discover(made)
    by_name = {kernel.name: kernel for kernel in known.values()}
    for module in ("ladder.figures.data", "ladder.figures.headline"):
        monkeypatch.setattr(f"{module}.known", lambda: by_name)
    return made


def test_a_copied_file_is_in_tables_figures_and_index(root):
    story = Story(root)
    assert story.builds_on(MADE_UP) == BASE
    assert MADE_UP in story.ladder("cuda")
    assert ">×2.00<" in fill(f"cell: gain {MADE_UP} 64", root)
    dataset = Dataset.open(root / RUN, story.kernels.values())
    (gain,) = dataset.pairs[dataset.pairs["pair"] == "gain"].to_dict("records")
    assert (gain["kernel"], gain["other"]) == (MADE_UP, BASE)
    data = View(dataset.tables(DRAWN_FROM), dataset.environment, "warm")
    assert data.builds_on(MADE_UP) == BASE
    (axes,) = figures.draw("headline", data).axes
    assert "made-up tiles  04" in [label.get_text() for label in axes.get_yticklabels()]
    shown = explorer.files("x", {"d/test": (dataset.best, dataset.environment)})
    assert all(MADE_UP in text for text in shown.values())


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("builds_on", "01_frist", 'builds_on: got "01_frist"; did you mean `01_first`?'),
        ("builds_on", MADE_UP, f'builds_on: got "{MADE_UP}"; expected one of 01_first'),
        ("rival", "maybe", 'rival: got "maybe"; expected true or false'),
        ("made_for", "wide", 'made_for: got "wide"; expected a problem in quotes'),
        ("label", "x" * 41, 'label: got "x+"; expected the idea in at most 40 characters'),
    ],
)
def test_a_value_that_cannot_be_is_named_with_file_and_key(tmp_path, key, value, expected):
    path = copied(checkout(tmp_path), **{key: value})
    with pytest.raises(InputError, match=f"{path}: header: {expected}"):
        kernel_file.parse(path)


def test_a_rival_is_no_rung_and_builds_on_none(tmp_path):
    root = checkout(tmp_path)
    copied(root, rival="true")
    assert Story(root).ladder("cuda") == ["01_first", "02_second", "03_third"]
    with pytest.raises(
        InputError, match='builds_on: got "01_first"; expected none, because a rival'
    ):
        kernel_file.parse(copied(root, rival="true", builds_on="01_first"))


def test_a_rung_may_be_in_a_project_without_the_one_that_it_builds_on(tmp_path):
    assert (
        kernel_file.parse(copied(checkout(tmp_path), builds_on="17_not_here")).builds_on
        == "17_not_here"
    )
