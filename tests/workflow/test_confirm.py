"""The confirmation in the pipeline itself, on the CPU for real."""

import json
import shutil

import numpy as np
import pytest
from ladder import records
from planted import C_RIGHT, c_kernel

CAMPAIGN = """
campaign: again
devices: [cpu]
architectures: [sm_80]
kernels: [cpu/01_naive_ijk, cpu/02_reordered_ikj, cpu/90_twin, cpu/91_twin, cpu/92_late]
problems: {cpu: [{square: 96}, [33, 17, 65]]}
measure: {states: [warm, cold], min_samples: 5, max_samples: 5, target: 1.0e-06}
confirm: {processes: 3, rounds: 5, within: 0.5, seconds: 60}  # on a busy machine, too, no launch is too long to be timed cold, and five times
"""
TWIN = c_kernel("twin", C_RIGHT)
LATE = """
  static int processes = 0;
  if (processes == 0) { /* a line for every process that calls */
    FILE *file = fopen("{0}", "a+");
    fputs("x\\n", file);
    processes = ftell(file) / 2;
    fclose(file);
  }
""" + C_RIGHT + """
  if (processes > 2) C[0] += 1;
"""  # fmt: skip
"""Right in the first two processes, those of the sweep and of the beginning of the confirmation."""


@pytest.fixture(scope="module")
def done(make_project):
    project = make_project()
    for name in ("90_twin", "91_twin"):
        project.write(f"kernels/cpu/{name}.c", TWIN)
    late = c_kernel("late", LATE.replace("{0}", str(project.folder / "calls"))).replace(
        "#include", "#include <stdio.h>\n#include", 1
    )
    project.write("kernels/cpu/92_late.c", late)
    project.log = project.ok("--configfile", project.campaign(CAMPAIGN), "--until", "figures", code=2)
    return project


def path(project, name="confirmed.parquet"):
    (found,) = project.folder.glob(f"results/again/cpu-*/{name}")
    return found


def test_the_published_tables_come_from_fresh_processes(done):
    rows, session = records.read(path(done))
    assert session["children"] >= 3
    names = {(r["kernel"], r["problem_state"]) for r in (row | {"problem_state": (row["m"], row["state"])} for row in rows)}
    assert names >= {
        (kernel, (m, state)) for kernel in ("02_reordered_ikj", "blas_1") for m in (33, 96) for state in ("warm", "cold")
    }
    best = done.table("again/cpu-*/best.csv")
    good = best[best["kernel"] != "92_late"]
    assert set(good["interval"]) == {"between-process"}
    assert set(good["processes"]) == {3}
    assert set(good["samples"]) == {15}
    assert ((good["ratio_low"] < good["ratio"]) & (good["ratio"] < good["ratio_high"])).all()
    assert ((good["within_low"] <= good["ratio"] * 1.0001) & (good["ratio"] <= good["within_high"] * 1.0001)).all()
    (row,) = best[(best["kernel"] == "01_naive_ijk") & (best["problem"] == "96") & (best["state"] == "warm")].to_dict("records")
    mine = [r for r in rows if (r["kernel"], r["m"], r["state"]) == ("01_naive_ijk", 96, "warm")]
    medians = [np.median(np.log(np.divide(r["reference_us"], r["samples_us"]))) for r in mine]
    assert row["ratio"] == pytest.approx(np.exp(np.mean(medians)), rel=1e-4)
    costs = done.table("again/cpu-*/costs.csv").set_index("job")
    assert costs.loc["confirmed", "children"] == session["children"]
    assert costs.loc["confirmed", "wall_seconds"] > 0


def test_who_is_faster_is_told_by_pairs(done):
    pairs = done.table("again/cpu-*/pairs.csv")
    warm = pairs[(pairs["state"] == "warm") & (pairs["problem"] == "96")]
    gain = warm[(warm["pair"] == "gain") & (warm["kernel"] == "02_reordered_ikj")].iloc[0]
    assert (gain["other"], gain["verdict"]) == ("01_naive_ijk", "faster")
    assert gain["low"] > 1.2
    assert warm.loc[warm["pair"] == "null", ["kernel", "other"]].to_numpy().tolist() == [["blas_1", "blas_1"]]
    assert warm.loc[warm["pair"] == "twins", ["kernel", "other"]].to_numpy().tolist() == [["90_twin", "91_twin"]]
    controls = pairs[pairs["pair"].isin(["null", "twins"])]
    assert ((controls["low"] < 2) & (controls["high"] > 0.5)).all(), controls  # on a busy machine intervals are wide
    assert len(controls) == 2 * 2 * 2


def test_cold_is_the_confirmations_and_drawn_apart(done):
    assert set(done.table("again/cpu-*/summary.csv")["state"]) == {"warm"}
    best = done.table("again/cpu-*/best.csv")
    cold = best[(best["state"] == "cold") & best["tflops"].notna()]
    assert set(cold["repeats"]) == {1}  # after a flush of the caches
    assert {"blas_1", "blas_all", "01_naive_ijk"} <= set(cold["kernel"])
    (figures,) = (done.folder / "results" / "again").glob("cpu-*/figures")
    assert (figures / "performance-cold.svg").exists()
    assert not list(figures.glob("parameters-*-cold.*"))


def test_what_turns_wrong_in_the_confirmation_is_correct_nowhere(done):
    late = done.table("again/cpu-*/summary.csv").query("kernel == '92_late'")
    assert set(late.loc[late["state"] == "warm", "status"]) == {"incorrect"}
    assert late.loc[late["state"] == "warm", "reason"].str.startswith("in the confirmation, on ").all()
    assert late["tflops"].isna().all()
    best = done.table("again/cpu-*/best.csv").query("kernel == '92_late'")
    assert set(best["status"]) == {"incorrect"}
    assert best["tflops"].isna().all()


def test_what_was_killed_goes_on_where_its_journal_ends(done):
    before, _ = records.read(path(done))
    journal = path(done, "journals/confirmed.journal")
    lines = journal.read_bytes().splitlines(keepends=True)
    kept = {json.loads(line.partition(b" ")[2])["key"] for line in lines[:5]}
    journal.write_bytes(b"".join(lines[:5]) + lines[5][:100])
    done.ok("--configfile", "config/test.yaml", "--forcerun", "confirm", "--until", "confirm")
    after, session = records.read(path(done))
    assert session["measured"] > 0
    now = {(r["key"], r["kernel"], r["configuration"]): r["samples_us"] for r in after}
    for row in before:
        same = now.get((row["key"], row["kernel"], row["configuration"])) == row["samples_us"]
        assert same == (row["key"] in kept) or row["samples_us"] is None


def test_it_can_be_left_out(done):
    text = CAMPAIGN.replace("processes: 3", "processes: 0").replace("again", "swept").replace(", cpu/92_late", "")
    done.write("config/swept.yaml", text)
    tables = shutil.ignore_patterns("confirmed*", "summary.csv", "best.csv", "pairs.csv", "costs.csv", "figures")
    shutil.copytree(done.folder / "results" / "again", done.folder / "results" / "swept", ignore=tables)  # as it was swept there
    done.ok("--configfile", "config/swept.yaml", "--until", "aggregate")
    assert not list(done.folder.glob("results/swept/cpu-*/confirmed.*"))
    best = done.table("swept/cpu-*/best.csv")
    assert set(best["interval"]) == {"within-run"}
    assert set(best["processes"]) == {1}
    assert best["marks"].str.contains("few").all()
    pairs = done.table("swept/cpu-*/pairs.csv")
    assert set(pairs["pair"]) == {"gain"}
    assert set(pairs["verdict"]) == {"not confirmed"}
    assert "confirmed" not in set(done.table("swept/cpu-*/costs.csv")["job"])
