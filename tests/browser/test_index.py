"""The page of results in headless Chromium: it asks for nothing, says no error, and its charts,
tables and texts are those of the data.
"""

import json
import os
import shutil

import pytest
import synthetic
from ladder.analysis.dataset import Dataset
from ladder.core.files import ROOT
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
POINTS = "[aria-roledescription=point]"


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
    dataset = Dataset.open(written, discover(ROOT).values())
    return dataset.best, dataset.environment


@pytest.fixture(params=SIZES)
def page(browser, given, request, tmp_path):
    """The page at one width, when its first chart is drawn."""
    width, height = SIZES[request.param]
    file = tmp_path / "index.html"
    file.write_text(explorer.page("Made up", {"nvidia-a": given, "nvidia-b": given}, [CLAIM]))
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    browser.get_log("performance"), browser.get_log("browser")
    browser.get(file.as_uri())
    wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, POINTS))
    return browser


def wait(browser, condition):
    WebDriverWait(browser, HANGS_S).until(lambda _: condition())


def every(page, selector):
    return page.find_elements(By.CSS_SELECTOR, selector)


def test_it_asks_for_nothing_says_no_error_and_is_no_wider_than_the_screen(page):
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert asked == [page.current_url]
    assert page.get_log("browser") == []
    wide, screen = page.execute_script(
        "return [document.documentElement.scrollWidth, window.innerWidth]"
    )
    assert wide <= screen
    (chart,) = every(page, "svg.marks")
    assert chart.rect["x"] >= 0
    assert chart.rect["x"] + chart.rect["width"] <= screen


def test_charts_show_the_chosen_state_of_the_dataset_that_is_opened(page, given):
    best = given[0][given[0]["tflops"].notna()]
    for state in ("cold", "warm"):
        Select(every(page, "select[name=state]")[0]).select_by_value(state)
        expected = int((best["state"] == state).sum())
        wait(page, lambda expected=expected: len(every(page, POINTS)) == expected)
    every(page, "summary")[1].click()
    wait(page, lambda: len(every(page, POINTS)) == 2 * expected)


def test_tables_are_sorted_by_a_click_and_copied_as_text(page, given):
    page.execute_script("navigator.clipboard.writeText = text => { window.copied = text; }")
    rates = given[0]["tflops"].dropna().sort_values()
    for ascending in (True, False):
        every(page, "th button")[4].click()
        every(page, ".copy")[0].click()
        head, *lines = [
            line.split("\t") for line in page.execute_script("return copied").split("\n")
        ]
        assert head[:5] == ["kernel", "problem", "type", "state", "rate"]
        shown = [float(line[4]) for line in lines if line[4]]
        assert shown == pytest.approx(list(rates if ascending else rates[::-1]), rel=1e-4)
