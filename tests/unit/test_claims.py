"""What the project says was measured is what the committed data say, and how a value is judged by
itself.
"""

import math

import numpy as np
import pytest
import yaml
from ladder.analysis.repeatability import Limit
from ladder.claims import definitions, evidence, report
from ladder.claims import judge as judged
from ladder.claims.definitions import Claim
from ladder.claims.evidence import Finding
from ladder.claims.judge import FAILED, REPRODUCED, UNSURE
from ladder.core.files import ROOT
from ladder.model import campaign_file
from ladder.model.kernel_file import discover
from ladder.pipeline.published import Published
from ladder.storage.dataset_layout import PUBLISHED

CLAIMS = {claim.id: claim for claim in definitions.read(ROOT)}


def test_the_campaign_has_all_that_the_claims_ask_of_a_dataset():
    path = ROOT / "config" / "reproduce.yaml"
    data = yaml.safe_load(path.read_text()) | {
        "kernels": Published(ROOT / PUBLISHED, {}).ids(["float32"])
    }
    plan = campaign_file.load(data, "reproduce.yaml", discover(ROOT))
    labels = {
        kind: {problem.label for problem in plan.problems(kind, "float32")}
        for kind in ("cuda", "cpu")
    }
    names = {kernel.name for kernel in plan.kernels.values()}
    for claim in CLAIMS.values():
        if claim.table in ("best", "pairs") and not claim.whole:
            wanted = (
                claim.rows["problem"]
                if isinstance(claim.rows["problem"], list)
                else [claim.rows["problem"]]
            )
            assert set(map(str, wanted)) <= labels[claim.where.get("kind", "cuda")], claim.id
            assert claim.rows.get("kernel", "01_naive_uncoalesced") in names, claim.id
            states = (
                claim.rows["state"]
                if isinstance(claim.rows["state"], list)
                else [claim.rows["state"]]
            )
            assert set(states) <= {*plan.limits.states, "sustained"}, claim.id


def test_another_machine_is_within_the_prediction_interval():
    """Of the mean over machines: 95 % of all machines are, however few the mean is over."""
    random, inside = np.random.default_rng(4), []
    for _ in range(4000):
        logs = random.normal(scale=0.01, size=5)
        low, high = (
            math.exp(logs[:4].mean() + side * 3.1824 * logs[:4].std(ddof=1) / 2) for side in (-1, 1)
        )
        mean = Finding((), "", math.exp(logs[:4].mean()), low, high, 5, {}, machines=4)
        inside.append(abs(logs[4] - logs[:4].mean()) <= mean.prediction.at(0.95))
    assert np.mean(inside) == pytest.approx(0.95, abs=0.015)
    assert mean.prediction.degrees == 3  # of machines, not of a run's processes


def test_a_failure_has_no_interval_that_says_nothing():
    entry = {
        "id": "a",
        "says": "S.",
        "value": 1.0,
        "low": 0.0,
        "high": 1228.64,
        "limit": None,
        "published": None,
        "dataset": "d",
    }
    assert report.failure(entry) == "S. Here 1 (95 % interval not known). a, d"
    page = report.page([entry | {"where": "here", "state": FAILED}])
    assert '<td class="number">not known<' in page
    assert "1229" not in page


def claim(**given):
    return Claim(**{"id": "a", "says": "s", "where": {}, "value": "x", "table": "best"} | given)


def finding(value, half=0.0, processes=5):
    return Finding((), "", value, value * math.exp(-half), value * math.exp(half), processes, {})


def test_a_sentence_has_its_numbers_or_leaves_the_parentheses_out():
    with_numbers = claim(
        holds="value", says="It is {value}, or {value%} (95 % interval {low} to {high%})."
    )
    assert (
        judged.say(with_numbers, finding(1.0, 0.01))
        == "It is 1, or 100 % (95 % interval 0.99 to 101 %)."
    )
    assert judged.say(with_numbers, None) == "It is …, or …."


SIGN = {"holds": "low > 1", "fails": "high < 1"}
NEAR = {"holds": "near_low <= value <= near_high"}


WHOLE = {"which": {"verdict": "slower"}, "holds": "count == 0"}


@pytest.mark.parametrize(
    ("given", "state", "marks", "usual", "stands"),
    [
        (SIGN, FAILED, ["disturbed"], [], False),
        (SIGN, UNSURE, ["disturbed"], [], False),
        (SIGN, REPRODUCED, ["disturbed"], [], True),  # in spite of others
        (NEAR, REPRODUCED, ["disturbed"], [], False),  # a wide interval is near to anything
        (SIGN, REPRODUCED, ["unsteady"], [], False),
        (SIGN, FAILED, ["throttled"], [], True),
        (NEAR, FAILED, ["throttled"], [], False),
        (NEAR, FAILED, ["throttled"], ["throttled"], True),  # as it was published
        (NEAR, REPRODUCED, ["throttled"], [], True),
        (WHOLE, FAILED, ["unsteady"], [], False),
        (WHOLE, REPRODUCED, ["unsteady"], [], True),
        (WHOLE, FAILED, ["throttled"], [], True),
        (NEAR, FAILED, [], [], True),
    ],
)
def test_marks_leave_open_what_they_could_have_caused(given, state, marks, usual, stands):
    assert judged.stands(claim(**given), state, marks, usual) is stands


@pytest.mark.parametrize(
    ("given", "value", "published", "limit", "count", "state"),
    [
        (SIGN, finding(1.05, 0.01), None, None, 1, REPRODUCED),
        (SIGN, finding(1.005, 0.01), None, None, 1, UNSURE),
        (SIGN, finding(0.95, 0.01), None, None, 1, FAILED),
        (SIGN, finding(1.05, 0.01), None, Limit(0.06), 1, UNSURE),  # runs differ by more
        (SIGN, finding(0.97, 0.02), None, None, 1, FAILED),
        (SIGN, finding(0.97, 0.02), None, None, 50, UNSURE),  # one of fifty may be off so far
        (NEAR, finding(1.02, 0.01), finding(1.0, 0.01), Limit(0.03), 1, REPRODUCED),
        (NEAR, finding(1.05, 0.01), finding(1.0, 0.01), Limit(0.03), 1, FAILED),
        (NEAR, finding(0.95, 0.01), finding(1.0, 0.01), Limit(0.03), 1, FAILED),
        (NEAR, finding(1.04, 0.01), finding(1.0, 0.01), Limit(0.03), 20, UNSURE),
        (NEAR, finding(1.044, 0.01), finding(1.0, 0.01), Limit(0.03), 4, FAILED),
        # four machines tell less of what is rare
        (NEAR, finding(1.044, 0.01), finding(1.0, 0.01), Limit(0.03, 3), 4, UNSURE),
        # what was published is not known better
        (NEAR, finding(1.04, 0.01), finding(1.0, 0.05), Limit(0.001), 1, REPRODUCED),
        (NEAR, finding(1.01, 0.01), finding(1.0, 0.01), None, 1, REPRODUCED),
        # how far runs differ is not known
        (NEAR, finding(1.05, 0.01), finding(1.0, 0.01), None, 1, UNSURE),
    ],
)
def test_how_a_value_is_judged(given, value, published, limit, count, state):
    assert judged.judge(claim(**given), value, published, limit, count) == state


def test_rows_are_chosen_by_values_and_by_patterns():
    rows = [{"kernel": name, "k": 3} for name in ("01_first", "63_cutlass", "cublas")]
    kernels = {
        "[0-5]*": ["01_first"],
        "*_*": ["01_first", "63_cutlass"],
        "cublas": ["cublas"],
        "[0-5]": [],
    }
    for pattern, names in kernels.items():
        assert [
            row["kernel"] for row in evidence._chosen(rows, {"kernel": pattern, "k": [3, 4]})
        ] == names
    assert evidence._chosen(rows, {"kernel": ["cublas", "0*"], "k": 4}) == []
