"""A published dataset is data and checksums: what is damaged, and what is drawn otherwise, is
named.
"""

import json
import re
import shutil
import subprocess

import pytest
import synthetic
from ladder.cli import publish
from ladder.compiling import provenance, toolchain
from ladder.core import places
from ladder.core.errors import InputError
from ladder.devices import detect
from ladder.figures import draw
from ladder.storage import published_index
from ladder.storage import samples as records
from ladder.storage.dataset_layout import TABLES
from planted import HOME, written

from book.runs import from_lock

KERNELS = ("03_shared_tile", "05_register_tile", "cublas")
UUID = "GPU-5dee03ff-2a9f-8e77-ad15-8f2e57df1677"
A, B = (f"nvidia-{letter}/default" for letter in "ab")
NUMPY = toolchain.package_versions(["numpy"])["numpy"]
CUBLAS = dict(provenance.LOCKED.findall((HOME / provenance.LOCK).read_text()))["nvidia-cublas"]
OLD = f"13.1.1.3 (lock {CUBLAS})"
RUN, LATER = "2026-01-01T0123-5dee", "2026-01-01T0223-5dee"
OF_REPEAT = {"confirmed.parquet", "environment.json", "resources.csv"}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Datasets of two devices, and a later one of the second, as campaigns leave them, with three
    kernels on three problems.
    """
    folder = tmp_path_factory.mktemp("measured") / "default"
    made_up = {"problems": synthetic.SMALL, "kernels": KERNELS, "processes": 3}
    for seed, (name, device, hour) in enumerate(
        [("nvidia-a", "nvidia-a", 1), ("nvidia-b", "nvidia-b", 1), ("later", "nvidia-b", 2)]
    ):
        facts = {"time": f"2026-01-01T0{hour}:23:45+00:00", "fingerprint": {"uuids": [UUID]}}
        synthetic.write(folder / name, seed, device=device, **made_up, **facts)
    return folder


@pytest.fixture(scope="module", autouse=True)
def drawn():
    """Figures are files that say what they are of: tests/figures is about what is drawn."""

    def draw_all(tables, environment, folder, names):
        for name in {"performance-warm", "ladder-warm", "ladder-cold"}.intersection(names):
            (folder / f"{name}.svg").write_text(
                f"{name} {environment['device']} {tables['best'].to_csv()}"
            )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draw, "draw_all", draw_all)
        yield


@pytest.fixture(scope="module")
def published(measured, tmp_path_factory):
    """The same published, from a checkout whose README shows one picture; and what is drawn from
    them.
    """
    root = tmp_path_factory.mktemp("root")
    (root / "README.md").write_text(
        "![Rates](results/published/nvidia-a/default/figures/performance-warm.svg)\n"
    )
    folder = root / "results" / "published"
    for name in ("nvidia-a", "nvidia-b"):
        assert publish.publish(measured / name, folder, "shown") == folder / name / "default" / RUN
    publish.draw(folder / A / RUN, root / "results" / "redrawn" / A, ["performance-warm"])
    return folder


@pytest.fixture
def copy(published, tmp_path):
    """A copy that may be damaged."""
    shutil.copytree(published.parent, tmp_path / "results")
    return tmp_path / "results" / "published"


def files(folder):
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def test_data_and_checksums_and_the_pictures_that_a_page_shows_are_all_there_is(published):
    jobs = ("03_shared_tile", "05_register_tile", "baselines")
    names = [*OF_REPEAT, *(f"samples/{job}.float32.parquet" for job in jobs)]
    data = ["SHA256SUMS", *(f"{RUN}/{name}" for name in names)]
    picture, drawn = "figures/performance-warm.svg", f"../../../redrawn/{A}/"
    assert files(published / B) == sorted(data)
    assert files(published / A) == sorted([*data, picture])
    sums = publish.read_sums(published / A)
    assert sums[picture] == sums[drawn + picture]
    tables = {f"{drawn}{name}.csv" for name in TABLES}
    assert {name for name in sums if name.startswith("..")} == {drawn + picture, *tables}


def test_what_is_drawn_again_is_the_same_to_the_byte(published):
    publish.check_data(published / A)
    publish.check_drawn(published / A, published.parent / "redrawn" / A)
    done = subprocess.run(
        ["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=published / A, check=False
    )
    assert done.returncode == 0  # the form is that of the command


def test_a_repeat_keeps_its_confirmation_and_nothing_is_drawn_from_it(copy, measured):
    before = publish.read_sums(copy / B)
    with pytest.raises(
        InputError,
        match=r"--repeat: got nvidia-b/default/.*-5dee; expected a featured run of nvidia-b/default",
    ):
        publish.publish(measured / "nvidia-b", copy, "again", repeat=True)
    publish.publish(measured / "later", copy, "again", repeat=True)
    assert set(files(copy / B / LATER)) == OF_REPEAT
    index = {"featured": RUN, "runs": {RUN: "shown", LATER: "again"}}
    assert published_index.read(copy)[B] == index
    sums = publish.read_sums(copy / B)
    assert before.items() <= sums.items()
    assert set(sums) - set(before) == {f"{LATER}/{name}" for name in OF_REPEAT}
    publish.check_data(copy / B)
    (copy / B / LATER / "confirmed.parquet").write_bytes(b"else")
    differs = rf"differ from SHA256SUMS: {LATER}/confirmed\.parquet\. Where"
    with pytest.raises(InputError, match=differs):
        publish.check_data(copy / B)


@pytest.mark.parametrize("swept", [True, False])
def test_the_latest_is_featured_and_the_one_before_becomes_a_repeat(copy, measured, swept):
    if not swept:
        shutil.rmtree(copy / B / RUN / "samples")
    publish.publish(measured / "later", copy, "newer code")
    index = {"featured": LATER, "runs": {RUN: "shown", LATER: "newer code"}}
    assert published_index.read(copy)[B] == index
    assert set(files(copy / B / RUN)) == OF_REPEAT
    publish.check_data(copy / B)
    (copy / B / LATER / "confirmed.parquet").unlink()  # a campaign may leave the confirmation out
    publish.publish(measured / "nvidia-b", copy, "shown again")
    assert published_index.read(copy)[B] == {"featured": RUN, "runs": {RUN: "shown again"}}
    assert not (copy / B / LATER).exists()


@pytest.mark.parametrize(
    ("python", "words"),
    [
        ({"packages": {}, "differs_from_lock": {"nvidia-cublas": OLD}}, f"nvidia-cublas {OLD}"),
        # older than that key
        ({"packages": {"nvidia-cublas": "13.1.1.3", "numpy": NUMPY}}, f"nvidia-cublas {OLD}"),
        ({"packages": {}, "differs_from_lock": {}}, ""),
    ],
)
def test_a_dataset_with_other_packages_than_the_lock_is_named_in_the_index(
    copy, measured, tmp_path, python, words
):
    source = tmp_path / "default" / "later"
    shutil.copytree(measured / "later", source)
    environment = json.loads((source / "environment.json").read_text()) | {"python": python}
    (source / "environment.json").write_text(json.dumps(environment))
    if words:
        before = published_index.read(copy)
        asked = rf"later: measured with {re.escape(words)}; expected .*--not-from-lock"
        with pytest.raises(InputError, match=asked):
            publish.publish(source, copy, "other cuBLAS", repeat=True)
        assert published_index.read(copy) == before
    publish.publish(source, copy, "other cuBLAS", repeat=True, not_from_lock=bool(words))
    index = published_index.read(copy)
    assert index[B].get("not_from_lock", {}) == ({LATER: words} if words else {})
    assert from_lock(index[B], LATER, environment) == ["no" if words else "yes", words]
    assert from_lock(index[B], RUN, {}) == ["not known", ""]


def test_packages_are_compared_with_every_version_in_the_lock(monkeypatch, tmp_path):
    (tmp_path / "envs").mkdir()
    lock = (
        "numpy==2.4.6 ; python_full_version < '3.12' \\\n    --hash=sha256:0\nnumpy==2.5.5 \\\n "
        "   # via pandas==9\npandas==3.1.1\n"
    )
    (tmp_path / provenance.LOCK).write_text(lock)
    monkeypatch.setattr(places, "HOME", tmp_path)
    assert provenance.differs_from_lock({"numpy": "2.5.5", "other": "1"}) == {}
    assert provenance.differs_from_lock({"numpy": "2.5.2", "pandas": "3.1.1"}) == {
        "numpy": "2.5.2 (lock 2.4.6 or 2.5.5)"
    }
    monkeypatch.setattr(
        toolchain.importlib.metadata, "version", {"numpy": "2.4.6", "pandas": "3.0.6"}.get
    )
    assert provenance.differs_from_lock() == {"pandas": "3.0.6 (lock 3.1.1)"}
    monkeypatch.setattr(provenance, "package_versions", lambda _: {"pandas": "3.1.1"})
    assert provenance.differs_from_lock() == {"numpy": "missing (lock 2.4.6 or 2.5.5)"}


@pytest.mark.parametrize(
    ("packages", "why"),
    [
        (
            {"numpy": "2.0 (lock 2.4)"},
            "Your packages differ from the lock: numpy 2.0 (lock 2.4). Run `make setup`",
        ),
        (
            {},
            "Your packages are those of the lock. If you changed code that draws, or a kernel's "
            "header, run `ladder publish`",
        ),
    ],
)
def test_another_figure_or_table_is_named_with_its_cause(copy, monkeypatch, packages, why):
    monkeypatch.setattr(publish, "differs_from_lock", lambda: packages)
    drawn = copy.parent / "redrawn" / A
    for number in range(publish.NAMED + 2):
        (drawn / "figures" / f"new-{number}.svg").write_text("new")
    (drawn / "figures" / "performance-warm.svg").write_text("another")
    (drawn / "best.csv").unlink()
    first = ", ".join(f"figures/new-{number}.svg" for number in range(publish.NAMED))
    message = (
        "missing: best.csv; differ from SHA256SUMS: figures/performance-warm.svg; not in "
        f"SHA256SUMS: {first} and 2 more. {why}"
    )
    with pytest.raises(InputError, match=f"nvidia-a/default: {re.escape(message)}"):
        publish.check_drawn(copy / A, drawn)


def test_all_is_drawn_and_summed_again(copy, published):
    shutil.copy(published.parents[1] / "README.md", copy.parents[1])
    sums = copy / A / "SHA256SUMS"
    before = sums.read_text()
    sums.write_text(re.sub(r"^\w+(?=  .*/best\.csv$)", 64 * "0", before, flags=re.MULTILINE))
    assert sums.read_text() != before
    assert list(publish.redraw(copy)) == [copy / A, copy / B]
    assert sums.read_text() == before


def test_damaged_missing_and_added_data_are_named_with_advice(copy):
    folder = copy / A / RUN
    path = folder / "samples" / "05_register_tile.float32.parquet"
    rows, session = records.read(path)
    rows[0]["samples_us"][0] *= 2  # with a checksum of its own that is right
    records.write(path, rows, session)
    (folder / "environment.json").unlink()
    shutil.copy(path, folder / "samples" / "06_more.float32.parquet")
    (folder / "remarks.txt").write_text("not drawn from")
    message = (
        f"{copy / A}: missing: {RUN}/environment.json; differ from SHA256SUMS: "
        f"{RUN}/samples/05_register_tile.float32.parquet; not in SHA256SUMS: "
        f"{RUN}/samples/06_more.float32.parquet. Where it is committed, restore it: git checkout"
    )
    with pytest.raises(InputError, match=re.escape(message)):
        publish.check_data(copy / A)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "abc  best.csv\n",
            r"line \d+: got 'abc  best\.csv'; expected a checksum, two blanks and a path",
        ),
        ("", "missing; expected the checksums that `ladder publish` writes.*git checkout"),
    ],
)
def test_checksums_that_are_none(copy, line, message):
    path = copy / A / "SHA256SUMS"
    if line:
        path.write_text(path.read_text() + line)
    else:
        path.unlink()
    with pytest.raises(InputError, match=f"SHA256SUMS: {message}"):
        publish.check_data(copy / A)


def test_a_page_that_shows_what_is_not_drawn(copy):
    root = copy.parents[1]
    written(
        root / "docs" / "x.md",
        "![a](../results/published/nvidia-b/default/figures/gpus-warm.svg) ![b](img/y.svg)",
    )
    assert publish.pictures(root) == {(copy / B / "figures" / "gpus-warm.svg").resolve()}
    with pytest.raises(
        InputError,
        match=r"gpus-warm\.svg: shown by a page, but nothing of that name is drawn from .*nvidia-b",
    ):
        publish.refresh(copy, B)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            "environment.json",
            '"dirty": false',
            '"dirty": true',
            r"environment\.json was made from a checkout with changes",
        ),
        (
            "environment.json",
            '"fingerprint": {',
            '"fingerprint": {"simulated": true, ',
            "x: measured on a simulated GPU; expected a real",
        ),
        ("environment.json", "^.*$", "x", r"x/environment\.json: "),
        ("resources.csv", "^.*$", "x", r"x/resources\.csv: "),
    ],
)
def test_what_is_damaged_or_of_no_commit_or_of_no_device_is_not_published(
    measured, tmp_path, file, old, new, message
):
    shutil.copytree(measured / "nvidia-a", tmp_path / "x")
    path = tmp_path / "x" / file
    text, count = re.subn(old, new, path.read_text(), count=1, flags=re.DOTALL)
    assert count == 1
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        publish.publish(tmp_path / "x", tmp_path / "published", "why")
    assert not (tmp_path / "published").exists()


def test_what_simulated_gpus_gave_says_so(gpus):
    (gpu,) = detect.detect_gpus()
    assert provenance.describe(gpu)["fingerprint"]["simulated"] is True


@pytest.mark.parametrize(
    ("folder", "why", "message"),
    [
        (
            "nvidia-a",
            "",
            r"WHY: missing; expected a sentence for .*index\.yaml that says why .*a is",
        ),
        (".", "why", r"no environment\.json, resources\.csv and samples"),
        ("A b/x", "why", r"index\.yaml: .*nvidia-a/A b.*; expected DEVICE/CAMPAIGN"),
    ],
)
def test_what_is_no_dataset_or_has_no_reason_is_refused(measured, tmp_path, folder, why, message):
    shutil.copytree(measured / "nvidia-a", tmp_path / "A b" / "x")
    shutil.copytree(measured / "nvidia-a", tmp_path / "nvidia-a")
    with pytest.raises(InputError, match=message):
        publish.publish(tmp_path / folder, tmp_path / "published", why)
    assert not (tmp_path / "published").exists()


def test_what_is_published_already_is_left_as_it_is(copy):
    before = files(copy)
    with pytest.raises(InputError, match=rf"{RUN}: is published already; expected another folder"):
        publish.publish(copy / A / RUN, copy, "why")
    assert files(copy) == before
