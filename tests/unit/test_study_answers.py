"""Every study has a question and words its answer, and is in the guide."""

import json
import re

import pytest
from ladder.claims import study
from ladder.claims.answers import STUDIES
from ladder.core.errors import InputError
from ladder.devices import detect
from ladder.publishing import page_answers, pages
from ladder.publishing.page_data import Story
from planted import ROOT, written

LAUNCHES = {"warm": 102.0, "cold": 97.0, "cold_long": 101.0, "cold_single": 110.0}
KERNEL_TUNER = {"configurations": 110, "version": "1.5.0"}
COST = {"measure_s": 200.0, "busy_share": 0.8, "peak_host_memory_gb": 1}
MEASURED = {
    "adversary": (
        {"tried": 12345, "seconds": 600.2, "spoiled": 0, "worst": {"share": 0.21, "units": 18.3, "sgemm_units": 26.1}},
        "12,345 600 0 21 18.3 26.1",
    ),
    "agreement": (
        {"rows": [{"size": 512, "name": "cublas", "ours": LAUNCHES, "theirs": dict.fromkeys(LAUNCHES, 100.0)}],
         "context": [{"size": 512, "name": "torch.mm", "ours": {"warm": 99}, "theirs": {"warm": 100, "cold": 100}}],
         "second_stream": [{"size": 512, "name": "cublas", "warm": 103, "cold": 107},
                           {"size": 512, "name": "torch.mm", "warm": 104, "cold": 105}]},
        "512 +2.0 -3.0 +1.0 +10.0 -1.0 +7.0",
    ),
    "benchmark": (
        {"campaign_s": 400.0, "confirm_share": 0.31, "gauntlet_share": 0.06, "nothing_to_do_s": 2.0, "campaign_mb": 12.3,
         "environment_mb": 2190.0, "measure_jobs": {"d": COST}},
        "400 31.0 6.0 2.0 12 2.2 80 200 2",
    ),
    "checks": (
        {"tests": {"a": "passed", "b": "passed", "c": "failed"}, "sanitizer": {"memcheck": {"errors": 0, "launches": 180}}},
        "2 1 0 0 180",
    ),
    "random_problems": (
        {"problems": 1234, "launches": {"30": 7000, "31": 2345}, "seconds": 600.3, "incorrect": 1},
        "1,234 9,345 2 2,345 600 1",
    ),
    "disturbance": (
        {"cores": 16, "pairs": 6, "rows": [{"busy_to_quiet": 1.001}, {"busy_to_quiet": 0.997}]},
        "16 6 -0.30 2",
    ),
    "faults": (
        {"faults": [{"what": "an endless loop", "as_told": False}, {"what": "NaN", "as_told": True}]},
        "2",
    ),
    "fuzz": (
        {what: {"answered": 1000, "refused": 234} for what in ("expressions", "headers", "campaigns")},
        "1,234 1,234 1,234",
    ),
    "kernel_tuner_compare": (
        {"kernel": "cuda/06_x", "runs": [{"cores": 1, "kernel_tuner": KERNEL_TUNER, "faster": 2.04, "faster_without_compiling": 1}]},
        "06 1.5.0 110 2.0 1 1.0",
    ),
    "kernel_tuner_times": (
        {"size": 2048, "ours_us": 100.0, "like_it_us": 103.0, "kernel_tuner_us": {"nvcuda": 104.0},
         "effects": {"launched": {"host": [1.02, 1.01, 1.03]}, "values": {"constant": [0.99, 0.98, 1.0]}}},
        "2048 +3.0 +4.0 +2.0 -1.0",
    ),
    "kill": (
        {"kills": 50, "measurements_a_campaign": 28, "measurements_lost": 0, "measurements_begun_again": 18},
        "50 28 6 95 18",
    ),
    "neighbours": (
        {"cores": 2, "sizes": [256, 1024], "pairs": 6, "rows": [{"beside": 1.004, "unsettled": 1.3}, {"beside": 0.99, "unsettled": 1}]},
        "2 03 256 1024 -1.0 6 +30.0",
    ),
    "placement": (
        {"rows": [
            {"aligned": {"ratio": 1.21, "cublas_us": 100, "rung_us": 80}, "elsewhere": [{"cublas_us": 103, "rung_us": 79.6}]},
            {"aligned": {"ratio": 0.99, "cublas_us": 10, "rung_us": 10}, "elsewhere": [{"cublas_us": 10, "rung_us": 10}]},
        ]},
        "2 1 2 ×1.100 +3.0 -0.5",
    ),
    "power_limit": (
        {"held_seconds": 0.5, "sm_count": 132, "rows": [
            {"size": 4096, "configuration": "BM=128",
             "held": {"whole": {"us": 800, "clock_mhz": 1300, "power_w": 680}, "split": {"us": 70, "clock_mhz": 1700, "power_w": 650},
                      "product": {"us": 720, "clock_mhz": 1250, "power_w": 690}},
             "products": {"128 x 128": {"us": 240, "clock_mhz": 1170, "power_w": 679},
                          "128 x 256": {"us": 220, "clock_mhz": 1257, "power_w": 688}}},
        ]},
        "4096 21 800 1300 680 73 70 720 1250 690 85 128 256 220 1257 688 92 730",
    ),
    "registers": (
        {"patterns": [{"measured": 0.5, "model": 0.49}, {"measured": 0.98, "model": 1}], "write_back": {"4": 1, "8": 1.5, "16": 4},
         "unwaited": {"4": 0.1, "8": 1.08, "16": 1.8},
         "lengths": [{"multiply_adds": 512, "clocks": 1.01}, {"multiply_adds": 8192, "clocks": 1.25}]},
        "2 +2.0 0.50 0.98 4 8 16 1.00 1.50 4.00 0.10 1.08 1.80 1.01 8 1.25 128",
    ),
    "tried": (
        {"changes": [{"low": 0.9, "high": 0.95}, {"low": 1.01, "high": 1.02}, {"low": 0.99, "high": 1.01}]},
        "3 1 1",
    ),
    "repeat": (
        {"runs": [{}, {}], "machines": 2, "same_machine": {"pairs": 0}, "same_held_out": {"pairs": 0},
         "other_machine": {"pairs": 2, "rows": 200, "covered": 0.955},
         "held_out": {"pairs": 2, "rows": 400, "covered": 0.93, "least": {"of": "GPU-74c4c37d-bdf1", "rows": 10, "covered": 0.8}},
         "twins": {"pairs": 40, "called_different": 0.025, "interval_leaves_out_1": 0.075},
         "null": {"pairs": 0}},
        "2 2 95.5 200 2 93.0 400 2 80.0 10 74 2.5 40 7.5 1",
    ),
    "elsewhere": (
        {"states": {"reproduced": 12, "not reproduced": 1}, "not_reproduced": ["gains:a:b"], "took_part": False, "seconds": 250.4},
        "12 1 250",
    ),
    "saves": (
        {"kind": "cuda", "first_s": 12.3, "again_s": 2.0, "watch_s": 0.5, "campaign_s": 21.0},
        "2.0 12.3 0.5 21.0",
    ),
    "several_gpus": (
        {"cores": 8, "runs": [{"gpus": 4, "wall_s": 100.0}, {"gpus": 1, "wall_s": 400.0}]},
        "100 4 400 8",
    ),
    "slowed": (
        {"kernel": "15_x", "percent": 3, "slowed": {"not reproduced": ["ratio-x", "b"]}, "as_it_is": {"not reproduced": []}},
        "15 3",
    ),
    "tensor": (
        {"held_seconds": 3.0, "rows": [
            {"size": 1000, "together": {"rung_us": 50, "sgemm_us": 100}, "alone": {"rung_us": 50, "sgemm_us": 90},
             "held": {"rung_us": 40, "sgemm_us": 100, "rung_j": 0.5, "sgemm_j": 1.25}, "unfit": {"rung_us": 100, "sgemm_us": 51}},
        ]},
        "1000 ×2.00 ×1.80 ×2.50 3 1000 50 0.5 20 1.25 ×0.51",
    ),
    "two_percent": (
        {"percent": 2, "slowed": 40, "found": 0.95, "alike": 10, "called": 0.1, "rows": []},
        "40 2 1024 95.0 10 10.0",
    ),
    "thin": (
        {"side": 1024, "lines": [{"fixed_us": 450.0, "row_us": 9.9}, {"fixed_us": 270.0, "row_us": 10.3}]},
        "1024 450 9.9 04 270 10.3 60",
    ),
    "false_positives": (
        {"device": "d", "machines": [], "alike": 400, "called": 0.03, "sure": 0,
         "held_out": {"alike": 200, "called": 0.04}, "slowed": 100, "found": 0.95},
        "3.0 400 0.0 4.0 200 100 1024 2 95.0",
    ),
}  # fmt: skip
"""What each could have measured, and the numbers that its answer must have, in order."""


@pytest.mark.parametrize("name", MEASURED)
def test_an_answer_has_the_measured_numbers(name):
    measured, numbers = MEASURED[name]
    assert re.findall(r"(?<![\w.])[×+-]?\d(?:[\d.,]*\d)?", STUDIES[name].answer(measured)) == numbers.split()
    assert 0 < len(STUDIES[name].short(measured).split()) <= 12


def test_every_study_has_one_form_and_stands_in_the_guide():
    assert sorted(STUDIES) == sorted(MEASURED)
    guide = (ROOT / "CONTRIBUTING.md").read_text().partition("## Studies")[2]
    for name, entry in STUDIES.items():
        assert entry.question.endswith("?")
        assert f"| `{name}`" in guide
        script = re.search(r"[\w/]+\.py", entry.run)
        assert not script or (ROOT / script[0]).exists()
    assert list(STUDIES) == sorted(STUDIES)  # the order of docs/evidence.md


@pytest.fixture
def answered(tmp_path, monkeypatch):
    """A checkout with one study and a committed answer to it; returns the folder, the study and the answer's path."""
    only = study.Study("checks", "How many?", lambda n: f"{n} of them", lambda n: f"{n}", "run it")
    monkeypatch.setattr(study, "ROOT", tmp_path)
    monkeypatch.setattr(page_answers, "STUDIES", {"checks": only})
    path = only.write(detect.detect_cpu(), 3, binaries={"a": "sha"}, software={"b": "1"})
    answer = json.loads(path.read_text())
    answer["provenance"]["project"] = {"commit": "abc", "dirty": False}
    committed = written(tmp_path / "results" / "published" / "studies" / path.name, json.dumps(answer))
    return tmp_path, only, committed


def test_an_answer_says_where_it_comes_from(answered, capsys):
    _, _, committed = answered
    here = detect.detect_cpu()
    assert committed.name == f"checks.{here.slug}.json"
    answer = json.loads(committed.read_text())
    assert (answer["question"], answer["measured"]) == ("How many?", 3)
    provenance = answer["provenance"]
    assert (provenance["name"], provenance["binaries"], provenance["software"]) == (here.name, {"a": "sha"}, {"b": "1"})
    assert {"time", "project", "command", "host", "python", "compiler"} <= set(provenance)


def test_the_evidence_has_the_committed_answers(answered):
    folder, _, committed = answered
    text, here = "<!-- table: answers -->old<!-- end --><!-- table: details -->old<!-- end -->", detect.detect_cpu().slug
    filled = pages.fill(text, Story(folder))
    assert f"| How many? | 3 | `{here}` | [`checks`](#checks) |" in filled
    link = f"[`{committed.name}`](../results/published/studies/{committed.name})"
    assert f"### `checks`\n\nHow many?\n\n- 3 of them (`{here}`)\n\nCommand: `run it`. Data: {link}." in filled
    assert "3 of them" in pages.fill("so: <!-- value: study checks --><!-- end -->", Story(folder))
    committed.write_text(json.dumps(json.loads(committed.read_text()) | {"outdated": "it is 4"}))
    filled = pages.fill(text, Story(folder))
    assert "| How many? | 3 (outdated: it is 4) |" in filled
    assert f"- 3 of them (`{here}`) (outdated: it is 4)\n" in filled
    committed.unlink()
    filled = pages.fill(text, Story(folder))
    assert "| How many? | Not measured yet | – | [`checks`](#checks) |" in filled
    assert "- not measured yet\n\nCommand: `run it`.\n" in filled


@pytest.mark.parametrize("project", [{"commit": "abc", "dirty": True}, {"commit": None, "dirty": None}])
def test_an_answer_that_no_commit_made_is_refused(answered, project):
    folder, only, committed = answered
    answer = json.loads(committed.read_text())
    committed.write_text(json.dumps(answer | {"provenance": answer["provenance"] | {"project": project}}))
    with pytest.raises(InputError, match=r"checks.*json: measured from a checkout with changes or without a commit"):
        only.sentences(folder)
