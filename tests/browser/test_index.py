"""The page to look around in, in headless Chromium: it asks for nothing, says no error, and draws
what is chosen.
"""

import json
import os
import re
import shutil

import pytest
import synthetic
from ladder.analysis.dataset import Dataset
from ladder.core.files import ROOT
from ladder.figures import explorer
from ladder.model.kernel_file import discover
from ladder.storage import csv_files
from ladder.storage.dataset_layout import INDEXED
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

KERNELS = (
    "01_naive_uncoalesced",
    "03_shared_tile",
    "05_register_tile",
    "10_block_tile_128",
    "cublas",
    "cublas_tf32",
)
PROBLEMS = [(256, 256, 256), (1024, 1024, 1024), (4096, 4096, 4096), (64, 4096, 4096)]
NUMBERS = r"[\d.]+ \[[\d.]+, [\d.]+\]"
"""A value and its interval."""
ONCE = "03_shared_tile"
WIDE, PHONE = (1280, 900), (390, 844)
HANGS_S = 600
"""Seconds after which the page hangs: a safety limit and no expectation, however busy the machine
is.
"""
DRAWN = """
const [before, done] = arguments, drawn = () => Number(document.body.dataset.drawn || 0) > before;
if (drawn()) done();
else new MutationObserver((_, it) => { if (drawn()) { it.disconnect(); done(); } }).observe(document.body, {attributes: true});
"""
"""Waits in the page until it has drawn again."""
CLAIM = {
    "id": "made-up",
    "says": "Rung 10 is slower than cuBLAS.",
    "where": "any GPU; measured on nvidia-a",
    "state": "not reproduced",
    "value": 1.02,
    "low": 1.01,
    "high": 1.03,
    "published": 0.97,
    "limit": 1.01,
    "dataset": "nvidia-a",
}
GAINS = [
    CLAIM | {"id": f"gains:{rung}", "says": f"A rung gains: {rung} over 01 at 256.", "state": state}
    for rung, state in (("02", "reproduced"), ("03", "not distinguishable"), ("04", "reproduced"))
]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """Two made-up datasets of GPUs, and one that calls itself a CPU's, as the page reads them."""
    by_name, folder = {}, tmp_path_factory.mktemp("datasets")
    for seed, name in enumerate(("nvidia-a", "nvidia-b", "cpu-c")):
        speed = 0.001 if name == "cpu-c" else 1 + 0.2 * seed
        synthetic.write(
            folder / name,
            seed,
            device=name,
            problems=PROBLEMS,
            kernels=KERNELS,
            processes=3,
            speed=speed,
        )
        dataset = Dataset.open(folder / name, discover(ROOT).values())
        made, environment = dataset.tables(), dataset.environment
        if name == "cpu-c":
            environment |= {"kind": "cpu", "peaks": {"fp32_tflops": made["best"]["tflops"].max()}}
        if name == "nvidia-b":  # as where the energy was counted once
            counted = made["best"].index[
                made["best"]["energy_j"].notna() & (made["best"]["kernel"] == ONCE)
            ]
            made["best"].loc[counted, ["energy_low_j", "energy_high_j"]] = made["best"]["energy_j"]
            made["best"].loc[counted, "energy_processes"] = 1
        for table in INDEXED:
            csv_files.write_csv(made[table], folder / name / f"{table}.csv")
        by_name[name] = (
            {table: csv_files.read_csv(folder / name / f"{table}.csv") for table in INDEXED},
            environment,
        )
    return by_name


@pytest.fixture(scope="module")
def file(datasets, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(explorer.page("Made up", datasets, [*GAINS, CLAIM]))
    return path


@pytest.fixture(scope="module")
def browser():
    """Chromium; where it is absent the tests are skipped, but in CI, which installs it, they
    fail.
    """
    absent = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
    if absent:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            f"{absent[0]} is not installed (Debian's chromium and chromium-driver)"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    driver.set_script_timeout(HANGS_S)
    yield driver
    driver.quit()


class Page:
    def __init__(self, browser, file):
        self.browser, self.file = browser, file

    def open(self, choices="", size=WIDE, hidden="hidden="):
        """Open it anew, by default with all kernels; returns what it asked for and what the console
        said.
        """
        metrics = {
            "width": size[0],
            "height": size[1],
            "deviceScaleFactor": 1,
            "mobile": size == PHONE,
        }
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.browser.get("about:blank")
        self.logs()
        self.browser.get(f"{self.file.as_uri()}#{hidden}&{choices}")
        self.drawn(0)
        return self.logs()

    def logs(self):
        asked = [
            json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")
        ]
        urls = [
            it["params"]["request"]["url"]
            for it in asked
            if it["method"] == "Network.requestWillBeSent"
        ]
        return [
            url.partition("#")[0] for url in urls if url != "about:blank"
        ], self.browser.get_log("browser")

    def times(self):
        return int(self.browser.execute_script("return document.body.dataset.drawn || 0"))

    def drawn(self, before):
        self.browser.execute_async_script(DRAWN, before)

    def do(self, action):
        """Do what makes it draw again, and wait until it has."""
        before = self.times()
        action()
        self.drawn(before)

    def choose(self, name, value):
        field = Select(self.browser.find_element(By.CSS_SELECTOR, f"select[name={name}]"))
        self.do(lambda: field.select_by_value(value))

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def points(self):
        """The values that are drawn against size."""
        return self.all("#rates [aria-roledescription=point]")

    def heights(self):
        """How high they stand, from the top of their chart."""
        return self.browser.execute_script(
            "return arguments[0].map(it => it.getAttribute('transform'))", self.points()
        )

    def fact(self, name, side=1):
        """What is told of the chosen value."""
        (term,) = [it for it in self.all(f"#values > div:nth-child({side}) dt") if it.text == name]
        return term.find_element(By.XPATH, "following-sibling::dd").text

    def text(self, selector):
        return "\n".join(it.text for it in self.all(selector))


@pytest.fixture(scope="module")
def page(browser, file):
    return Page(browser, file)


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_it_asks_for_nothing_and_says_no_error(page, size):
    asked, messages = page.open("beside=nvidia-b&scale=log", size)
    assert asked == [page.file.as_uri()]
    assert [it for it in messages if it["level"] == "SEVERE"] == []
    assert len(page.all("svg.marks")) == 8  # squares, others, landscape and samples, of each


def test_what_it_may_do_is_only_to_draw(page):
    page.open()
    page.browser.execute_script("fetch('https://example.org').catch(() => {})")
    asked, messages = page.logs()
    assert asked == []
    assert any("Content Security Policy" in it["message"] for it in messages)


def test_every_choice_changes_what_is_drawn(page):
    page.open()
    assert len(page.points()) == len(KERNELS) * len(PROBLEMS)
    for name, value in (
        ("quantity", "percent"),
        ("scale", "log"),
        ("state", "cold"),
        ("quantity", "time"),
        ("dataset", "nvidia-b"),
    ):
        before = page.heights()
        page.choose(name, value)
        assert page.heights() != before, name
    page.choose("state", "sustained")
    page.choose("quantity", "energy")
    assert page.text("#rates h3") == "J, squares, sustained"
    assert len(page.points()) == len(KERNELS)  # counted on one problem


def test_it_opens_with_the_baseline_and_the_rungs_that_are_fastest_on_most_problems(page):
    page.open(hidden="")
    chosen = {box.get_attribute("value") for box in page.all("#kernels input") if box.is_selected()}
    assert chosen == set(KERNELS) - {"cublas_tf32"}
    page.do(page.all("#all")[0].click)
    assert "hidden=" in page.browser.current_url  # a link to all kernels opens with all
    assert len(page.points()) == len(KERNELS) * len(PROBLEMS)


def test_kernels_can_be_left_out(page):
    page.open()
    box = page.all("#kernels input[value=cublas_tf32]")[0]
    page.do(box.click)
    assert len(page.points()) == (len(KERNELS) - 1) * len(PROBLEMS)
    page.do(page.all("#none")[0].click)
    assert page.points() == []
    page.do(page.all("#all")[0].click)
    assert len(page.points()) == len(KERNELS) * len(PROBLEMS)


def test_two_datasets_stand_side_by_side_on_one_scale(page, datasets):
    page.open("kernel=05_register_tile&problem=4096")
    page.choose("beside", "nvidia-b")
    assert page.text("#rates h3").split("\n")[::2] == [
        "nvidia-a: TFLOP/s, squares, warm",
        "nvidia-b: TFLOP/s, squares, warm",
    ]
    left, right = (page.all(f"#rates > div:nth-child({i}) svg.marks")[0].rect for i in (1, 2))
    assert left["x"] + left["width"] <= right["x"]
    axes = [
        [it.text for it in page.all(f"#rates > div:nth-child({i}) .role-axis-label text")]
        for i in (1, 2)
    ]
    assert axes[0] == axes[1]
    values = [page.fact("TFLOP/s", i) for i in (1, 2)]
    assert values[0] != values[1]
    for name, value in zip(("nvidia-a", "nvidia-b"), values, strict=True):
        best = datasets[name][0]["best"].astype({"problem": str})
        row = best[
            (best["kernel"] == "05_register_tile")
            & (best["problem"] == "4096")
            & (best["state"] == "warm")
        ].iloc[0]
        numbers = [float(it) for it in re.findall(r"[\d.]+", value)]
        assert numbers == pytest.approx(
            [row["tflops"], row["tflops_low"], row["tflops_high"]], rel=1e-4
        )


def test_datasets_of_one_kind_stand_beside_each_other(page):
    """A CPU's lines would lie at the bottom of a GPU's axis."""
    page.open("dataset=nvidia-a")
    offered = [it.get_attribute("value") for it in page.all("select[name=beside] option")]
    assert offered == ["", "nvidia-b"]
    page.choose("beside", "nvidia-b")
    page.choose("dataset", "cpu-c")
    assert page.text("#rates h3").split("\n")[0] == "GFLOP/s, squares, warm"
    heights = [float(it.partition(",")[2].rstrip(")")) for it in page.heights()]
    assert max(heights) - min(heights) > 250  # of 360 pixels


def test_what_is_drawn_is_read_out(page):
    """The name of a point is what it is about and its value."""
    page.open("kernel=05_register_tile&problem=4096")
    labels = [it.get_attribute("aria-label") for it in page.points()]
    assert any(re.fullmatch(rf"05 register tile at 4096, TFLOP/s: {NUMBERS}", it) for it in labels)
    assert len(set(labels)) == len(labels) == len(KERNELS) * len(PROBLEMS)
    cell = page.all("#landscapes .mark-rect.role-mark path")[0].get_attribute("aria-label")
    assert re.fullmatch(r"05 register tile at [\d×]+, BM=\d+ .*: [\d.]+ TFLOP/s", cell)
    sample = page.all("#distributions .mark-symbol.role-mark path")[0].get_attribute("aria-label")
    assert re.fullmatch(r"05 register tile at 4096, process \d: [\d.]+ µs", sample)


def test_pointing_at_a_value_tells_all_of_it(page):
    page.open()
    # by size, then by kernel
    point = page.all("#rates [aria-roledescription=point]")[2 * len(KERNELS) + 2]
    ActionChains(page.browser).move_to_element(point).perform()
    WebDriverWait(page.browser, HANGS_S).until(lambda _: page.text("#vg-tooltip-element.visible"))
    tip = dict(
        line.split("\t")
        for line in page.browser.execute_script(
            "return [...document.querySelectorAll('#vg-tooltip-element tr')].map(row => "
            "[...row.cells].map(it => it.textContent).join('\\t'))"
        )
    )
    assert (tip["kernel"], tip["problem"], tip["marks"], tip["registers"]) == (
        "05 register tile",
        "4096",
        "none",
        "64",
    )
    assert (tip["intervals"], tip["n"]) == ("between-process", "24 samples in 3 processes")
    shapes = {"configuration": r"BM=\d+ .*", "occupancy": r"\d+ %, limited by .+"}
    for name, shape in (shapes | dict.fromkeys(("TFLOP/s", "% of cuBLAS", "µs"), NUMBERS)).items():
        assert re.fullmatch(shape, tip[name]), (name, tip[name])


def test_one_count_of_energy_has_no_range(page):
    page.open(f"dataset=nvidia-b&state=sustained&quantity=energy&problem=4096&kernel={ONCE}")
    assert page.text("#how").startswith("A dot is a value, its bar the range of its counts. ")
    assert re.fullmatch(r"[\d.]+", page.fact("J"))
    labels = {
        it.get_attribute("aria-label").split(" at 4096, J: ")[0]: it.get_attribute("aria-label")
        for it in page.points()
    }
    assert re.fullmatch(r"03 shared tile at 4096, J: [\d.]+", labels["03 shared tile"])
    assert re.fullmatch(
        rf"05 register tile at 4096, J: {NUMBERS}, range of 3 counts", labels["05 register tile"]
    )
    page.all("details summary")[0].click()
    assert [it.text for it in page.all("#table th")][3:5] == ["value", "range"]
    ranges = {row.text.split(" 4096 ")[0]: row for row in page.all("#table tbody tr")}
    assert ranges["nvidia-b 03 shared tile"].find_elements(By.TAG_NAME, "td")[4].text == ""
    assert "–" in ranges["nvidia-b 05 register tile"].find_elements(By.TAG_NAME, "td")[4].text


def test_a_click_leads_to_parameters_and_samples(page):
    page.open("kernel=01_naive_uncoalesced&problem=256")
    cells = len(page.all("#landscapes .mark-rect.role-mark path"))
    page.do(page.all("#rates [aria-roledescription=point]")[2 * len(KERNELS) + 2].click)
    assert (page.fact("kernel"), page.fact("problem")) == ("05 register tile", "4096")
    assert "rows are BM BN BK TM TN" in page.text("#landscapes h3")
    assert len(page.all("#landscapes .mark-rect.role-mark path")) != cells
    assert page.text("#distributions h3") == "05 register tile at 4096, warm"
    assert len(page.all("#distributions .mark-symbol.role-mark path")) == 3 * 8
    page.do(lambda: page.all("#landscapes .mark-rect.role-mark path")[0].click())
    assert page.fact("problem") == "256"


def test_everything_can_be_done_by_keyboard(page):
    page.open()
    body = page.all("body")[0]
    body.send_keys(Keys.TAB)
    assert page.browser.switch_to.active_element.get_attribute("name") == "dataset"
    page.do(lambda: page.browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN))
    assert page.all("#rates h3")[0].text.startswith("TFLOP/s")
    assert Select(page.all("select[name=dataset]")[0]).first_selected_option.text == "nvidia-b"
    for _ in range(40):
        here = page.browser.switch_to.active_element
        if here.tag_name == "input":
            break
        here.send_keys(Keys.TAB)
    page.do(lambda: here.send_keys(Keys.SPACE))
    assert len(page.points()) == (len(KERNELS) - 1) * len(PROBLEMS)
    page.all("details summary")[0].send_keys(Keys.ENTER)
    show = page.all("#table button[aria-label='show 03 shared tile at 256']")[0]
    page.do(lambda: show.send_keys(Keys.ENTER))
    assert (page.fact("kernel"), page.fact("problem")) == ("03 shared tile", "256")


def test_on_a_phone_nothing_is_wider_than_the_page(page):
    page.open("beside=nvidia-b", PHONE)
    wide = page.browser.execute_script(
        "return [document.documentElement.scrollWidth, window.innerWidth]"
    )
    assert wide == [PHONE[0], PHONE[0]]
    charts = [it.rect for it in page.all("svg.marks")]
    assert all(it["x"] >= 0 and it["x"] + it["width"] <= PHONE[0] for it in charts)
    assert charts[2]["y"] > charts[0]["y"] + charts[0]["height"]  # the other dataset is below


def test_what_is_chosen_can_be_handed_on(page):
    page.open()
    page.choose("quantity", "percent")
    page.choose("problem", "256")
    address, drawn = page.browser.current_url, page.heights()
    page.open(address.partition("#")[2])
    assert page.heights() == drawn
    assert page.fact("problem") == "256"


def test_claims_are_shown_with_their_state(page):
    page.open()
    assert page.text("#states") == "✗ 1 not reproduced, ≈ 1 not distinguishable, ✓ 2 reproduced"
    summaries = page.all("#groups summary")  # what was not reproduced first
    assert [it.text.split("\n") for it in summaries] == [
        ["Rung 10 is slower than cuBLAS.", "✗ 1 not reproduced · any GPU; measured on nvidia-a"],
        [
            "A rung gains.",
            "≈ 1 not distinguishable, ✓ 2 reproduced · any GPU; measured on nvidia-a",
        ],
    ]
    assert not any(it.is_displayed() for it in page.all("#groups tbody tr"))
    for summary in summaries:
        summary.send_keys(Keys.ENTER)
    rows = [it.text for it in page.all("#groups tbody tr")]
    assert rows[0] == "✗ not reproduced 1.02 [1.01, 1.03] 0.97 ×1.01 nvidia-a"
    assert rows[1].startswith("03 over 01 at 256. ≈ not distinguishable")
    assert [it[:2] for it in rows[2:]] == ["02", "04"]
