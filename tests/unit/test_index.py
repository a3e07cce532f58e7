"""What the page of results is made of; tests/browser looks at what it does."""

import html
import re

import pandas as pd
import pytest
import synthetic
from ladder.analysis.dataset import Dataset
from ladder.core.errors import InputError
from ladder.core.files import ROOT
from ladder.figures import explorer
from ladder.model.kernel_file import discover

KERNELS = ("05_register_tile", "20_tensor_cores", "cublas")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "nvidia-a"
    written = synthetic.write(folder, problems=synthetic.SMALL, kernels=KERNELS, processes=3)
    dataset = Dataset.open(written, discover(ROOT).values())
    return dataset.best, dataset.environment


@pytest.mark.parametrize(("kind", "factor"), [("cuda", 1), ("cpu", 1000)])
def test_one_light_file_has_what_best_says_and_is_the_same_for_the_same_data(made, kind, factor):
    best, environment = made[0], made[1] | {"kind": kind}
    reason = "wrong <b>" + 60 * "x"
    best = best.assign(reason=[reason, *best["reason"].iloc[1:]])
    page = explorer.page("A & B", {"nvidia-a": (best, environment)})
    assert page == explorer.page("A & B", {"nvidia-a": (best, environment)})
    assert 500_000 < len(page.encode()) < 2_000_000
    assert "<title>A &amp; B</title>" in page
    assert page.count("</script>") == 2
    shown = [
        re.findall("<td>(.*?)</td>", row) for row in page.partition("<script>")[0].split("<tr>")[1:]
    ]
    assert [row[0] for row in shown] == list(best["kernel"])
    assert html.unescape(shown[0][-1]) == reason
    rates = pd.to_numeric([row[4] for row in shown])
    assert rates == pytest.approx(factor * best["tflops"].to_numpy(), rel=1e-4, nan_ok=True)


def test_claims_that_are_none_are_named(tmp_path):
    path = tmp_path / "claims.json"
    path.write_text('[{"id": "a", "says": "b", "state": "reproduced"}]')
    assert "1 reproduced." in explorer.page("x", {}, explorer.read_claims(path))
    for text in ("{", "{}", '[{"id": "a"}]', "[1]"):
        path.write_text(text)
        with pytest.raises(
            InputError,
            match=r"claims\.json: .*expected judged claims\. Where .* remove it and run again",
        ):
            explorer.read_claims(path)
