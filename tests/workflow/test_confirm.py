"""The confirmation in the pipeline itself, on a simulated GPU whose cost model says how fast a
kernel is.
"""

import numpy as np
import pytest
from ladder.storage import samples
from planted import CU_RIGHT, cuda_kernel

pytestmark = pytest.mark.slow

CAMPAIGN = """
campaign: again
devices: [cuda]
kernels: ["cuda/8*"]
problems: {cuda: [{square: 8}]}
measure: {states: [warm, cold], min_samples: 5, max_samples: 5, max_seconds: 3600, target: 1.0e-06, race: false}
confirm: {processes: 3, rounds: 5, within: 0.5, seconds: 3600}
"""
BODIES = {
    "80_slow": "slow(1.5); right()",
    "81_fast": "right()",
    "82_twin": "right()",
    # correct in the first two processes, those of the sweep and of the beginning of the
    # confirmation
    "83_late": "open({0!r}, 'a').write(f'{{os.getpid()}}\\n'); right(); c[0, 0] += "
    "len(set(open({0!r}))) > 2",
}


@pytest.fixture(scope="module")
def done(make_project):
    """A project whose campaign was swept and confirmed."""
    project = make_project()
    for name, body in BODIES.items():
        code = body.format(str(project.folder / "calls"))
        kernel = cuda_kernel("planted", f"// python: {code}\n" + CU_RIGHT)
        project.write(f"kernels/cuda/{name}.cu", kernel.replace("BX: [8, 16]", "BX: [8]"))
    project.campaign(CAMPAIGN)
    project.simulate(name="Simulated")
    project.ok("--configfile", "config/test.yaml", "--until", "aggregate", code=2)
    return project


def confirmed(project):
    return samples.read(project.folder / "results" / "again" / "simulated" / "confirmed.parquet")


def test_the_published_tables_come_from_fresh_processes(done):
    rows, session = confirmed(done)
    assert session["children"] >= 3
    names = {(row["kernel"], row["m"], row["state"]) for row in rows}
    assert names >= {
        (kernel, 8, state)
        for kernel in ("80_slow", "81_fast", "cublas")
        for state in ("warm", "cold")
    }
    best = done.table("again/*/best.csv")
    good = best[best["kernel"] != "83_late"]
    assert set(good["interval"]) == {"between-process"}
    assert set(good["processes"]) == {3}
    assert set(good["samples"]) == {15}
    assert ((good["ratio_low"] < good["ratio"]) & (good["ratio"] < good["ratio_high"])).all()
    assert (
        (good["within_low"] <= good["ratio"] * 1.0001)
        & (good["ratio"] <= good["within_high"] * 1.0001)
    ).all()
    (row,) = best[(best["kernel"] == "80_slow") & (best["state"] == "warm")].to_dict("records")
    mine = [r for r in rows if (r["kernel"], r["m"], r["state"]) == ("80_slow", 8, "warm")]
    medians = [np.median(np.log(np.divide(r["reference_us"], r["samples_us"]))) for r in mine]
    assert row["ratio"] == pytest.approx(np.exp(np.mean(medians)), rel=1e-4)
    assert row["ratio"] == pytest.approx(1 / 1.5, rel=0.01)
    costs = done.table("again/*/costs.csv").set_index("job")
    assert costs.loc["confirmed", "children"] == session["children"]
    assert costs.loc["confirmed", "wall_seconds"] > 0


def test_pairs_decide_who_is_faster(done):
    pairs = done.table("again/*/pairs.csv")
    warm = pairs[pairs["state"] == "warm"]
    gain = warm[(warm["pair"] == "gain") & (warm["kernel"] == "81_fast")].iloc[0]
    assert (gain["other"], gain["verdict"]) == ("80_slow", "faster")
    # the interval leaves the truth out in one run of twenty
    assert gain["ratio"] == pytest.approx(1.5, rel=0.005)
    assert gain["high"] - gain["low"] < 0.05
    assert warm.loc[warm["pair"] == "null", ["kernel", "other"]].to_numpy().tolist() == [
        ["cublas", "cublas"]
    ]
    assert warm.loc[warm["pair"] == "twins", ["kernel", "other"]].to_numpy().tolist() == [
        ["81_fast", "82_twin"]
    ]
    controls = pairs[pairs["pair"].isin(["null", "twins"])]
    assert len(controls) == 2 * 2
    assert ((controls["low"] < 1.01) & (controls["high"] > 0.99)).all(), controls


def test_cold_is_measured_by_the_confirmation_alone(done):
    assert set(done.table("again/*/summary.csv")["state"]) == {"warm"}
    best = done.table("again/*/best.csv")
    assert {"cublas", "80_slow"} <= set(
        best[(best["state"] == "cold") & best["tflops"].notna()]["kernel"]
    )


def test_what_turns_incorrect_in_the_confirmation_is_correct_nowhere(done):
    late = done.table("again/*/summary.csv").query("kernel == '83_late'")
    assert set(late.loc[late["state"] == "warm", "status"]) == {"incorrect"}
    assert (
        late.loc[late["state"] == "warm", "reason"].str.startswith("in the confirmation, on ").all()
    )
    assert late["tflops"].isna().all()
    best = done.table("again/*/best.csv").query("kernel == '83_late'")
    assert set(best["status"]) == {"incorrect"}
    assert best["tflops"].isna().all()
