"""The campaign measures what the claims are about, and how a value is judged by itself."""

import math

import numpy as np
import pytest
import yaml
from ladder.analysis.repeatability import Limit
from ladder.claims import definitions, evidence, report
from ladder.claims import judge as judged
from ladder.claims.definitions import COUNT, NEAR, SIGN, Claim
from ladder.claims.evidence import Data, Finding
from ladder.claims.judge import FAILED, REPRODUCED, UNSURE
from ladder.core import verdicts
from ladder.core.places import HOME
from ladder.model import campaign_file
from ladder.model.kernel_file import discover
from ladder.storage.dataset_layout import PUBLISHED
from ladder.storage.published_index import featured, kernel_ids


def test_the_campaign_has_all_that_the_claims_ask_of_a_dataset():
    data = yaml.safe_load((HOME / "config" / "reproduce.yaml").read_text())
    data["kernels"] = kernel_ids(featured(HOME / PUBLISHED).values(), ["float32"])
    plan = campaign_file.load(data, "reproduce.yaml", discover(HOME))
    names = {kernel.name for kernel in plan.kernels.values()}
    for claim in definitions.read(HOME):
        if claim.test != COUNT:
            problems = plan.problems(claim.where.get("kind", "cuda"), "float32")
            assert set(claim.rows["problem"]) <= {problem.label for problem in problems}, claim.id
            assert set(claim.rows.get("kernel", ())) <= names, claim.id
            assert set(claim.rows["state"]) <= {*plan.limits.states, "sustained"}, claim.id
    asked = {claim.id: claim for claim in definitions.read(HOME)}
    for entry in judged.read_published(HOME):  # each item of each claim
        item = asked[judged.claim_of(entry)].item(tuple(entry["key"]))
        assert {item[name] for name in ("kernel", "other") if name in item} <= names, entry["id"]


def finding(value, half=0.0, processes=5, machines=0):
    return Finding((), value, value * math.exp(-half), value * math.exp(half), processes, machines)


def claim(test, **given):
    return Claim("a", given.pop("says", "s"), {}, "best", test, **given)


def test_another_machine_is_within_the_prediction_interval():
    """Of the mean over machines: 95 % of all machines are, however few the mean is over."""
    random, inside = np.random.default_rng(4), []
    for _ in range(4000):
        *logs, other = random.normal(scale=0.01, size=5)
        half = 3.1824 * np.std(logs, ddof=1) / 2
        mean = finding(math.exp(np.mean(logs)), half, machines=4)
        inside.append(abs(other - np.mean(logs)) <= mean.prediction.at(0.95))
    assert np.mean(inside) == pytest.approx(0.95, abs=0.015)
    assert mean.prediction.degrees == 3  # of machines, not of a run's processes


def test_a_machine_has_one_value_however_often_it_was_measured():
    values = [("a", 1.0), ("a", 1.02), ("b", 1.1), ("c", 1.2)]
    findings = [
        (Data("", {"attributes": {"uuid": uuid}}, {}), finding(value, 0.1))
        for uuid, value in values
    ]
    mean = evidence.over_machines(findings)
    logs = np.log([math.sqrt(1.02), 1.1, 1.2])
    assert math.log(mean.value) == pytest.approx(logs.mean())
    half = 4.3027 * logs.std(ddof=1) / math.sqrt(3)
    assert math.log(mean.high / mean.value) == pytest.approx(half, rel=1e-4)
    assert mean.machines == 3
    of_one = evidence.over_machines(findings[:2])
    assert of_one.value == pytest.approx(math.sqrt(1.02))
    assert math.log(of_one.high / of_one.value) == pytest.approx(0.1)  # that of its first run
    assert (of_one.machines, of_one.prediction) == (1, None)


def test_a_failure_has_no_interval_that_says_nothing():
    numbers = {"value": 1.0, "low": 0.0, "high": 1228.64, "limit": None, "published": None}
    entry = {"id": "a", "says": "S.", "where": "here", "state": FAILED, "dataset": "d", **numbers}
    assert report.failure(entry) == "S. Here 1 (interval not known). a, d"
    assert "1229" not in report.page([entry])


def test_a_sentence_has_its_numbers_or_leaves_the_parentheses_out():
    says = "It is {value}, {value±}, {value%} or {value±%} ({machines} GPUs)."
    expected = "It is 1, 1.00 ± 0.01, 100 % or 100 ± 1 % (3 GPUs)."
    assert judged.say(claim(NEAR, says=says), finding(1.0, 0.01, machines=3)) == expected
    assert judged.say(claim(NEAR, says=says), None) == "It is …, …, … or …."


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((1.064, 1.062, 1.0655), "1.064 ± 0.002"),
        ((3.305, 3.235, 3.377), "3.31 ± 0.07"),
        ((0.9526, 0.951, 0.9542, True), "95.3 ± 0.2 %"),
        ((0.01887, 0.01879, 0.01895, True), "1.887 ± 0.008 %"),
        ((1.0, 0.95, 1.096), "1.0 ± 0.1"),
        ((123.4, 111.0, 140.0), "123 ± 17"),
        ((2.0, 2.0, 2.0), "2"),
        ((1.0, 0.0, 1228.64), "1 (interval not known)"),
    ],
)
def test_a_value_has_as_many_digits_as_are_known(numbers, text):
    assert verdicts.plus_minus(*numbers) == text


@pytest.mark.parametrize(
    ("test", "state", "marks", "usual", "stands"),
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
        (COUNT, FAILED, ["unsteady"], [], False),
        (COUNT, REPRODUCED, ["unsteady"], [], True),
        (COUNT, FAILED, ["throttled"], [], True),
        (NEAR, FAILED, [], [], True),
    ],
)
def test_marks_leave_open_what_they_could_have_caused(test, state, marks, usual, stands):
    assert judged.stands(claim(test), state, marks, usual) is stands


GAIN, LOSS, EXACT = finding(1.2, 0.01), finding(0.8, 0.01), finding(1.0, 0.01)


@pytest.mark.parametrize(
    ("test", "value", "published", "limit", "count", "state"),
    [
        (SIGN, finding(1.05, 0.01), GAIN, None, 1, REPRODUCED),
        (SIGN, finding(1.05, 0.01), LOSS, None, 1, FAILED),
        (SIGN, finding(1.005, 0.01), GAIN, None, 1, UNSURE),
        (SIGN, finding(0.95, 0.01), GAIN, None, 1, FAILED),
        (SIGN, finding(0.95, 0.01), LOSS, None, 1, REPRODUCED),
        (SIGN, finding(1.05, 0.01), GAIN, Limit(0.06), 1, UNSURE),  # runs differ by more
        (SIGN, finding(0.97, 0.02), GAIN, None, 1, FAILED),
        (SIGN, finding(0.97, 0.02), GAIN, None, 50, UNSURE),  # one of fifty may be off so far
        (NEAR, finding(1.02, 0.01), EXACT, Limit(0.03), 1, REPRODUCED),
        (NEAR, finding(1.05, 0.01), EXACT, Limit(0.03), 1, FAILED),
        (NEAR, finding(0.95, 0.01), EXACT, Limit(0.03), 1, FAILED),
        (NEAR, finding(1.04, 0.01), EXACT, Limit(0.03), 20, UNSURE),
        (NEAR, finding(1.044, 0.01), EXACT, Limit(0.03), 4, FAILED),
        # four machines tell less of what is rare
        (NEAR, finding(1.044, 0.01), EXACT, Limit(0.03, 3), 4, UNSURE),
        # what was published is not known better
        (NEAR, finding(1.04, 0.01), finding(1.0, 0.05), Limit(0.001), 1, REPRODUCED),
        (NEAR, finding(1.01, 0.01), EXACT, None, 1, REPRODUCED),
        # wide intervals are near anything
        (NEAR, finding(1.0, 0.2, processes=2), EXACT, Limit(0.03), 1, UNSURE),
        (NEAR, finding(0.9, 0.2, processes=2), EXACT, Limit(0.03), 1, UNSURE),
        (NEAR, finding(1.01, 0.02), EXACT, None, 1, UNSURE),
        # how far runs differ is not known
        (NEAR, finding(1.05, 0.01), EXACT, None, 1, UNSURE),
    ],
)
def test_how_a_ratio_is_judged(test, value, published, limit, count, state):
    assert judged.judge(claim(test), value, published, limit, count) == state


@pytest.mark.parametrize(
    ("share", "counted", "of", "state"),
    [
        (0, 0, 100, REPRODUCED),
        (0, 1, 100, FAILED),
        (0.05, 9, 100, REPRODUCED),  # 5, and two standard deviations for chance
        (0.05, 10, 100, FAILED),
    ],
)
def test_how_a_count_is_judged(share, counted, of, state):
    value = Finding((), counted, counted, counted, rows=["row"] * counted, of=of)
    assert judged.judge(claim(COUNT, share=share), value, None, None, 1) == state


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["[0-5]*"], ["01_first"]),
        (["*_*"], ["01_first", "63_cutlass"]),
        (["cublas", "0*"], ["01_first", "cublas"]),
        (["[0-5]"], []),
    ],
)
def test_rows_are_chosen_by_values_and_by_patterns(patterns, names):
    rows = [{"kernel": name, "k": 3} for name in ("01_first", "63_cutlass", "cublas")]
    found = evidence.chosen(rows, {"kernel": patterns, "k": ["3", "4"]})
    assert [row["kernel"] for row in found] == names
    assert evidence.chosen(rows, {"kernel": patterns, "k": ["4"]}) == []
