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
from ladder.core.errors import InputError
from ladder.devices import detect, simulation
from ladder.figures import draw
from ladder.storage import published_index
from ladder.storage import samples as records
from planted import ROOT, written

KERNELS = ("03_shared_tile", "05_register_tile", "cublas")
UUID = "GPU-5dee03ff-2a9f-8e77-ad15-8f2e57df1677"
A, B = (f"nvidia-{letter}/default" for letter in "ab")
NUMPY = toolchain.package_versions(["numpy"])["numpy"]
CUBLAS = dict(provenance.LOCKED.findall((ROOT / provenance.LOCK).read_text()))["nvidia-cublas"]
RUN, LATER = "2026-01-01T0123-5dee", "2026-01-01T0223-5dee"


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Datasets of two devices, and a later one of the second, as campaigns leave them, with three
    kernels on three problems.
    """
    folder = tmp_path_factory.mktemp("measured") / "default"
    devices = (("nvidia-a", "nvidia-a", 1), ("nvidia-b", "nvidia-b", 1), ("later", "nvidia-b", 2))
    for seed, (name, device, hour) in enumerate(devices):
        facts = {"time": f"2026-01-01T0{hour}:23:45+00:00", "fingerprint": {"uuids": [UUID]}}
        synthetic.write(
            folder / name,
            seed,
            device=device,
            problems=synthetic.SMALL,
            kernels=KERNELS,
            processes=3,
            **facts,
        )
    return folder


@pytest.fixture(scope="module", autouse=True)
def drawn():
    """Figures are files that say what they are of: tests/figures is about what is drawn."""

    def draw_all(tables, environment, folder, threads):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("performance", "ladder", "samples"):
            for state in ("warm", "cold"):
                (folder / f"{name}-{state}.svg").write_text(
                    f"{name} {state} {environment['device']} {tables['best'].to_csv()}"
                )

    def draw_comparison(tables, environments, stem):
        stem.with_suffix(".svg").write_text(" ".join(environments))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draw, "draw_all", draw_all)
        patch.setattr(draw, "draw_comparison", draw_comparison)
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
    publish.draw(folder / A / RUN, root / "results" / "redrawn" / A, 1)
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
    samples = [
        f"samples/{job}.float32.parquet"
        for job in ("03_shared_tile", "05_register_tile", "baselines")
    ]
    data = [
        "SHA256SUMS",
        *(
            f"{RUN}/{name}"
            for name in ("confirmed.parquet", "environment.json", "resources.csv", *samples)
        ),
    ]
    assert files(published / B) == sorted(data)
    assert files(published / A) == sorted([*data, "figures/performance-warm.svg"])
    sums = publish.read_sums(published / A)
    assert (
        sums["figures/performance-warm.svg"]
        == sums[f"../../../redrawn/{A}/figures/performance-warm.svg"]
    )
    drawn = {name.removeprefix(f"../../../redrawn/{A}/") for name in sums if name.startswith("..")}
    assert {
        "best.csv",
        "rounds.csv",
        "figures/ladder-cold.svg",
        "figures/samples-warm.svg",
        "resources.csv",
    } <= drawn
    assert set(publish.read_sums(published)) == {"../redrawn/compared-cuda.svg"}


def test_what_is_drawn_again_is_the_same_to_the_byte(published):
    publish.check_data(published / A)
    publish.check_drawn(published / A, published.parent / "redrawn" / A)
    done = subprocess.run(
        ["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=published / A, check=False
    )
    assert done.returncode == 0  # the form is that of the command


OF_REPEAT = {"confirmed.parquet", "environment.json", "resources.csv"}


def test_a_repeat_keeps_its_confirmation_and_nothing_is_drawn_from_it(copy, measured):
    before = publish.read_sums(copy / B)
    with pytest.raises(
        InputError,
        match=r"--repeat: got nvidia-b/default/.*-5dee; expected a featured run of nvidia-b/default",
    ):
        publish.publish(measured / "nvidia-b", copy, "again", repeat=True)
    publish.publish(measured / "later", copy, "again", repeat=True)
    assert set(files(copy / B / LATER)) == OF_REPEAT
    assert published_index.read(copy)[B] == {
        "featured": RUN,
        "runs": {RUN: "shown", LATER: "again"},
    }
    sums = publish.read_sums(copy / B)
    assert {name: sha256 for name, sha256 in sums.items() if LATER not in name} == before
    assert {name for name in sums if LATER in name} == {f"{LATER}/{name}" for name in OF_REPEAT}
    publish.check_data(copy / B)
    (copy / B / LATER / "confirmed.parquet").write_bytes(b"else")
    with pytest.raises(
        InputError, match=rf"differ from SHA256SUMS: {LATER}/confirmed\.parquet\. Where"
    ):
        publish.check_data(copy / B)


@pytest.mark.parametrize("swept", [True, False])
def test_the_latest_is_featured_and_the_one_before_becomes_a_repeat(copy, measured, swept):
    if not swept:
        shutil.rmtree(copy / B / RUN / "samples")
    publish.publish(measured / "later", copy, "newer code")
    assert published_index.read(copy)[B] == {
        "featured": LATER,
        "runs": {RUN: "shown", LATER: "newer code"},
    }
    assert set(files(copy / B / RUN)) == OF_REPEAT
    assert published_index.featured(copy)[B] == copy / B / LATER
    publish.check_data(copy / B)
    (copy / B / LATER / "confirmed.parquet").unlink()  # a campaign may leave the confirmation out
    publish.publish(measured / "nvidia-b", copy, "shown again")
    assert published_index.read(copy)[B] == {"featured": RUN, "runs": {RUN: "shown again"}}
    assert not (copy / B / LATER).exists()


def described(source, folder, **python):
    """A copy of a dataset whose environment says other things of Python."""
    shutil.copytree(source, folder)
    path = folder / "environment.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"python": python}))
    return folder


@pytest.mark.parametrize(
    "python",
    [
        {"packages": {}, "differs_from_lock": {"nvidia-cublas": f"13.1.1.3 (lock {CUBLAS})"}},
        {"packages": {"nvidia-cublas": "13.1.1.3", "numpy": NUMPY}},  # older than that key
    ],
)
def test_a_dataset_with_other_packages_than_the_lock_is_named_in_the_index(
    copy, measured, tmp_path, python
):
    source = described(measured / "later", tmp_path / "default" / "later", **python)
    words, before = f"nvidia-cublas 13.1.1.3 (lock {CUBLAS})", published_index.read(copy)
    with pytest.raises(
        InputError, match=rf"later: measured with {re.escape(words)}; expected .*--not-from-lock"
    ):
        publish.publish(source, copy, "other cuBLAS", repeat=True)
    assert published_index.read(copy) == before
    publish.publish(source, copy, "other cuBLAS", repeat=True, not_from_lock=True)
    index = published_index.read(copy)
    assert index[B]["not_from_lock"] == {LATER: words}
    environment = json.loads((copy / B / LATER / "environment.json").read_text())
    assert published_index.from_lock(index, f"{B}/{LATER}", environment) == f"no: {words}"


def test_whether_the_packages_were_those_of_the_lock(copy, measured, tmp_path):
    source = described(
        measured / "later", tmp_path / "default" / "later", packages={}, differs_from_lock={}
    )
    publish.publish(source, copy, "from the lock", repeat=True)
    index = published_index.read(copy)
    assert "not_from_lock" not in index[B]
    for run, known in ((LATER, "yes"), (RUN, "not known")):  # the latter's environment says nothing
        environment = json.loads((copy / B / run / "environment.json").read_text())
        assert published_index.from_lock(index, f"{B}/{run}", environment) == known


def test_packages_are_compared_with_every_version_in_the_lock(monkeypatch, tmp_path):
    (tmp_path / "envs").mkdir()
    lock = (
        "numpy==2.4.6 ; python_full_version < '3.12' \\\n    --hash=sha256:0\nnumpy==2.5.5 \\\n "
        "   # via pandas==9\npandas==3.1.1\n"
    )
    (tmp_path / provenance.LOCK).write_text(lock)
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
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


OTHER_PACKAGES = {
    "numpy": (
        {"numpy": "2.0 (lock 2.4)"},
        "Your packages differ from the lock: numpy 2.0 (lock 2.4). Run `make setup`",
    ),
    "none": (
        {},
        "Your packages are those of the lock. If you changed code that draws, or a kernel's "
        "header, run `ladder publish`",
    ),
}


@pytest.mark.parametrize(("packages", "why"), OTHER_PACKAGES.values(), ids=OTHER_PACKAGES)
def test_another_figure_or_table_is_named_with_its_cause(copy, monkeypatch, packages, why):
    monkeypatch.setattr(publish, "differs_from_lock", lambda: packages)
    drawn = copy.parent / "redrawn" / A
    for number in range(publish.NAMED + 2):
        (drawn / "figures" / f"new-{number}.svg").write_text("new")
    (drawn / "figures" / "ladder-warm.svg").write_text("another")
    (drawn / "best.csv").unlink()
    more = (
        "figures/new-0.svg, figures/new-1.svg, figures/new-2.svg, figures/new-3.svg, "
        "figures/new-4.svg and 2 more"
    )
    message = (
        "missing: best.csv; differ from SHA256SUMS: figures/ladder-warm.svg; not in "
        f"SHA256SUMS: {more}. {why}"
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
    group, folder = copy / A, copy / A / RUN
    path = folder / "samples" / "05_register_tile.float32.parquet"
    rows, session = records.read(path)
    rows[0]["samples_us"][0] *= 2  # with a checksum of its own that is right
    records.write(path, rows, session)
    (folder / "environment.json").unlink()
    shutil.copy(path, folder / "samples" / "06_more.float32.parquet")
    (folder / "remarks.txt").write_text("not drawn from")
    with pytest.raises(InputError) as refused:
        publish.check_data(group)
    text = str(refused.value)
    assert f"missing: {RUN}/environment.json; " in text
    assert f"differ from SHA256SUMS: {RUN}/samples/05_register_tile.float32.parquet; " in text
    assert f"not in SHA256SUMS: {RUN}/samples/06_more.float32.parquet. " in text
    assert "git checkout" in text
    assert "remarks" not in text
    assert "baselines" not in text


def test_swapped_samples_are_named(copy):
    path, other = (copy / A / RUN / "samples" / f"{name}.float32.parquet" for name in KERNELS[:2])
    first = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(first)
    message = (
        rf"03_shared_tile\.float32\.parquet, "
        rf"{RUN}/samples/05_register_tile\.float32\.parquet\. Where"
    )
    with pytest.raises(InputError, match=message):
        publish.check_data(copy / A)


def test_checksums_that_are_none(copy):
    path = copy / A / "SHA256SUMS"
    path.write_text(path.read_text() + "abc  best.csv\n")
    number = path.read_text().count("\n")
    message = (
        rf"SHA256SUMS: line {number}: got 'abc  best.csv'; expected a checksum, two blanks "
        rf"and a path"
    )
    with pytest.raises(InputError, match=message):
        publish.check_data(copy / A)
    path.unlink()
    message = (
        "SHA256SUMS: missing; expected the checksums that `ladder publish` writes.*git checkout"
    )
    with pytest.raises(InputError, match=message):
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


def test_no_command_offers_simulated_gpus():
    for path in (ROOT / "workflow").rglob("*"):
        if path.suffix in (".py", ".smk") and path.name != "simulation.py":
            assert simulation.VARIABLE not in path.read_text(), path


def test_what_is_no_dataset_or_has_no_reason_is_refused(measured, tmp_path):
    published = tmp_path / "published"
    with pytest.raises(
        InputError,
        match=r"WHY: missing; expected a sentence for .*index\.yaml that says why .*nvidia-a is "
        r"kept",
    ):
        publish.publish(measured / "nvidia-a", published, "")
    with pytest.raises(InputError, match=r"no environment\.json, resources\.csv and samples"):
        publish.publish(tmp_path, published, "why")
    shutil.copytree(measured / "nvidia-a", tmp_path / "A b" / "x")
    with pytest.raises(
        InputError, match=r"index\.yaml: .*nvidia-a/A b.*; expected DEVICE/CAMPAIGN"
    ):
        publish.publish(tmp_path / "A b" / "x", published, "why")
    assert not published.exists()


def test_what_is_published_already_is_left_as_it_is(copy):
    before = files(copy)
    with pytest.raises(InputError, match=rf"{RUN}: is published already; expected another folder"):
        publish.publish(copy / A / RUN, copy, "why")
    assert files(copy) == before
