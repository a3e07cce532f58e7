"""The confirmation in the pipeline itself, on a simulated GPU whose cost model says how fast a
kernel is.
"""

from itertools import product

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
measure: {sample_us: 10, states: [warm, cold], min_samples: 5, max_samples: 5, max_seconds: 3600, target: 1.0e-06, race: false}
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
    names = {(row["kernel"], row["state"]) for row in rows}
    assert names >= set(product(("80_slow", "81_fast", "cublas"), ("warm", "cold")))
    best = done.table("again/*/best.csv")
    good = best[best["kernel"] != "83_late"]
    expected = ["between-process", 3, 15]
    assert (good[["interval", "processes", "samples"]] == expected).all(axis=None)
    assert good["ratio"].between(good["ratio_low"], good["ratio_high"], "neither").all()
    assert (good["within_low"] <= good["ratio"] * 1.0001).all()
    assert (good["ratio"] <= good["within_high"] * 1.0001).all()
    row = best[(best["kernel"] == "80_slow") & (best["state"] == "warm")].squeeze()
    mine = [row for row in rows if (row["kernel"], row["state"]) == ("80_slow", "warm")]
    medians = [np.median(np.log(np.divide(r["reference_us"], r["samples_us"]))) for r in mine]
    assert row["ratio"] == pytest.approx(np.exp(np.mean(medians)), rel=1e-4)
    assert row["ratio"] == pytest.approx(1 / 1.5, rel=0.01)
    costs = done.table("again/*/costs.csv").set_index("job")
    assert costs.loc["confirmed", "children"] == session["children"]
    assert costs.loc["confirmed", "wall_seconds"] > 0


def test_pairs_decide_who_is_faster(done):
    pairs = done.table("again/*/pairs.csv").set_index("pair")
    gain = pairs[(pairs["state"] == "warm") & (pairs["kernel"] == "81_fast")].loc["gain"]
    assert (gain["other"], gain["verdict"]) == ("80_slow", "faster")
    # the interval leaves the truth out in one run of twenty
    assert gain["ratio"] == pytest.approx(1.5, rel=0.005)
    assert gain["high"] - gain["low"] < 0.05
    controls = pairs.loc[["null", "twins"]]
    assert len(controls) == 2 * 2  # warm and cold
    assert set(controls[["kernel", "other"]].itertuples(index=False, name=None)) == {
        ("cublas", "cublas"),
        ("81_fast", "82_twin"),
    }
    assert ((controls["low"] < 1.01) & (controls["high"] > 0.99)).all(), controls


def test_cold_is_measured_by_the_confirmation_alone(done):
    assert set(done.table("again/*/summary.csv")["state"]) == {"warm"}
    best = done.table("again/*/best.csv")
    assert {"cublas", "80_slow"} <= set(
        best[(best["state"] == "cold") & best["tflops"].notna()]["kernel"]
    )


def test_what_turns_incorrect_in_the_confirmation_is_correct_nowhere(done):
    for name in ("summary", "best"):
        late = done.table(f"again/*/{name}.csv").query("kernel == '83_late'")
        assert set(late["status"]) == {"incorrect"}
        assert late["tflops"].isna().all()
        if name == "summary":
            assert late["reason"].str.startswith("in the confirmation, on ").all()
