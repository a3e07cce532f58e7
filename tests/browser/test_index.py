"""The page of results in headless Chromium: it loads the rows that are asked for and nothing else,
says no error, and its charts, tables and texts are those of the data.
"""

import json
import os
import shutil

import pytest
import synthetic
from ladder.analysis.dataset import Dataset
from ladder.core.places import HOME
from ladder.figures import explorer
from ladder.model.kernel_file import discover
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

KERNELS = ("03_shared_tile", "05_register_tile", "cublas")
PROBLEMS = [(256, 256, 256), (4096, 4096, 4096), (64, 4096, 4096)]
SIZES = {"wide": (1280, 900), "phone": (390, 844)}
HANGS_S = 600
"""Seconds after which the page hangs: a safety limit and no expectation."""
CLAIM = {"id": "gains", "says": "Rung 10 gains.", "state": "not reproduced", "value": 1.02}
POINTS = ".chart circle"


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
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "nvidia-a"
    written = synthetic.write(folder, problems=PROBLEMS, kernels=KERNELS, processes=3)
    dataset = Dataset.open(written, discover(HOME).values())
    return dataset.best, dataset.environment


@pytest.fixture(params=SIZES)
def page(browser, given, request, tmp_path):
    """The page at one width, when its first chart is drawn."""
    width, height = SIZES[request.param]
    file = write(tmp_path, {"nvidia-a": given, "nvidia-b": given})
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    browser.get_log("performance"), browser.get_log("browser")
    browser.get(file.as_uri())
    wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, POINTS))
    return browser


def write(folder, datasets):
    (folder / explorer.FOLDER).mkdir()
    for name, text in explorer.files("Made up", datasets, [CLAIM]).items():
        (folder / name).write_text(text)
    return folder / "index.html"


def loaded(page):
    """The files that the page has asked for since the last call, in order."""
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    return [
        message["params"]["request"]["url"].rpartition("/")[2]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


def wait(browser, condition):
    WebDriverWait(browser, HANGS_S).until(lambda _: condition())


def choose(page, selector, value):
    Select(every(page, selector)[0]).select_by_value(value)


def every(page, selector):
    return page.find_elements(By.CSS_SELECTOR, selector)


def test_it_loads_the_rows_on_show_says_no_error_and_is_no_wider_than_the_screen(page):
    assert loaded(page) == ["index.html", "0-0.js"]
    assert page.get_log("browser") == []
    wide, screen = page.execute_script(
        "return [document.documentElement.scrollWidth, window.innerWidth]"
    )
    assert wide <= screen
    (chart,) = every(page, ".chart svg")
    assert chart.rect["x"] >= 0
    assert chart.rect["x"] + chart.rect["width"] <= screen


def test_charts_show_the_chosen_state_of_the_dataset_that_is_opened(page, given):
    best = given[0][given[0]["tflops"].notna()]
    for state in ("cold", "warm"):
        choose(page, "select[name=state]", state)
        expected = int((best["state"] == state).sum())
        wait(page, lambda expected=expected: len(every(page, POINTS)) == expected)
    every(page, "main > details > summary")[1].click()
    wait(page, lambda: len(every(page, POINTS)) == 2 * expected)
    section = every(page, "main > details")[1]
    if section.find_elements(By.CSS_SELECTOR, ".chart details:not([open])"):
        section.find_element(By.CSS_SELECTOR, ".chart summary").click()
    section.find_elements(By.CSS_SELECTOR, ".legend button")[0].click()
    hidden = int((best["state"] == "warm").sum() / len(KERNELS))
    wait(page, lambda: len(every(page, POINTS)) == 2 * expected - hidden)


def test_tables_are_sorted_by_a_click_and_copied_as_text(page, given):
    page.execute_script("navigator.clipboard.writeText = text => { window.copied = text; }")
    rates = given[0]["tflops"].dropna().sort_values()
    for ascending in (True, False):
        every(page, ".rows th button")[5].click()
        every(page, ".rows .copy")[1].click()
        head, *lines = [
            line.split("\t") for line in page.execute_script("return copied").split("\n")
        ]
        assert head[:6] == ["kernel", "% of baseline", "problem", "type", "state", "TFLOP/s"]
        shown = [float(line[5].partition(" ± ")[0]) for line in lines if line[5]]
        assert shown == pytest.approx(list(rates if ascending else rates[::-1]), rel=0.05)
    every(page, ".rows .copy")[0].click()
    markdown = page.execute_script("return copied").split("\n")
    assert [markdown[0], markdown[2]] == [f"| {' | '.join(row)} |" for row in (head, lines[0])]
    every(page, "main > details > summary")[2].click()
    every(page, "main > details:nth-of-type(3) .copy")[0].click()
    assert page.execute_script("return copied").endswith("| Rung 10 gains. | not reproduced |")


def test_a_value_is_shown_with_half_its_interval_rounded_to_one_digit(page):
    for value, half, text in ((6.43, 0.2, "6.4 ± 0.2"), (1234.5, 20, "1230 ± 20"), (2, 9, "2 ± ?")):
        row = {"x": value, "x low": value - half, "x high": value + half}
        assert page.execute_script("return shown(arguments[0], 'x')", row) == text


def test_it_opens_with_a_finding_in_percent_and_explains_its_words(page):
    assert every(page, ".finding")[0].text.startswith("float32, warm: kernels are distinguishably")
    assert Select(every(page, "select[name=quantity]")[0]).first_selected_option.text == (
        "% of baseline"
    )
    warm = every(page, ".rows td abbr")[0]
    assert warm.text == "warm" and "caches" in warm.get_attribute("title")
    narrow = page.execute_script("return window.innerWidth") < 500
    assert (every(page, ".chart details")[0].get_attribute("open") is None) == narrow
    assert page.execute_script(
        "return document.querySelectorAll('.rows td')[1].getBoundingClientRect().right < innerWidth"
    )


def test_lines_join_sizes_of_one_alignment_only(page):
    page.execute_script("""
      for (const row of LOADED["0-0"].rows) if (row.problem === "4096") row.problem = "4095";
      show(document.querySelector("main > details"), "0-0");
    """)
    joined = [line.get_attribute("points").split() for line in every(page, ".chart polyline")]
    assert [len(points) for points in joined] == [1, 1] * len(KERNELS)


def test_it_is_dark_where_the_reader_wants_that(page):
    scheme = {"name": "prefers-color-scheme", "value": "dark"}
    seen = []
    for features in ([scheme], []):
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        seen.append(page.find_element(By.TAG_NAME, "body").value_of_css_property("color"))
    assert seen == ["rgba(230, 230, 230, 1)", "rgba(26, 26, 26, 1)"]


@pytest.fixture
def larger(browser, given, tmp_path):
    """The page of ten thousand rows: 100 problems of 100 kernels."""
    sizes = [16 * place for place in range(1, 101) for _ in range(100)]
    best = (
        given[0]
        .iloc[[0] * len(sizes)]
        .reset_index(drop=True)
        .assign(
            **dict.fromkeys("mnk", sizes),
            problem=list(map(str, sizes)),
            kernel=[f"{kernel:02}_made" for kernel in range(100)] * 100,
            state="warm",
            element_type="float32",
            tflops=1.0,
            ratio=0.5,
        )
    )
    browser.get_log("performance"), browser.get_log("browser")
    browser.get(write(tmp_path, {"nvidia-a": (best, given[1])}).as_uri())
    wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, POINTS))
    return browser


def test_of_a_large_dataset_it_loads_and_shows_what_is_asked_for(larger, tmp_path):
    assert loaded(larger) == ["index.html", "0-0.js"]
    sizes = {path.name: path.stat().st_size for path in tmp_path.rglob("*.*s*")}
    assert len(sizes) == 5 and max(sizes.values()) < 700_000
    assert (tmp_path / "index.html").stat().st_size < 30_000
    for piece in ("0-1", "0-0"):  # a file is loaded once
        choose(larger, ".piece", piece)
        wait(larger, lambda: every(larger, POINTS))
        assert len(every(larger, ".rows tbody tr")) == 500
        assert len(every(larger, POINTS)) == 40 * 20
    assert loaded(larger) == ["0-1.js"]
    assert every(larger, ".rows .count")[0].text == "The first 500 of 2000 rows; the copy has all."
    assert larger.get_log("browser") == []


def test_alone_it_has_the_overview(browser, given, tmp_path):
    file = write(tmp_path, {"nvidia-a": given})
    (tmp_path / explorer.FOLDER).rename(tmp_path / "elsewhere")
    browser.get(file.as_uri())
    wait(browser, lambda: "is not beside this page" in every(browser, ".chart")[0].text)
    states = given[0].loc[given[0]["ratio"].notna(), ["state", "kernel"]].drop_duplicates()
    shown = every(browser, "tbody tr")
    assert len(shown) == len(states) + 1  # and the claim
    assert shown[0].text.endswith(" float32 warm 3")
    browser.get_log("browser")  # has the file that is missing
