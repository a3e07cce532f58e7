import pytest
from ladder import records, tables
from ladder.units import InputError


def row(**given):
    base = dict.fromkeys(records.SCHEMA.names)
    base |= {"device": "d", "kernel": "k", "configuration": "-", "element_type": "float32", "m": 100, "n": 100, "k": 100, "state": "warm",
             "status": "correct", "reference": "cublas", "samples_us": [2.0] * 10, "reference_us": [1.0] * 10}  # fmt: skip
    return base | given


def test_rates_and_ratios():
    (line,) = tables.summarise([row()], peak_tflops=2.0).to_dict("records")
    assert line["tflops"] == pytest.approx(1.0)  # 2e6 operations in 2 microseconds
    assert line["reference_tflops"] == pytest.approx(2.0)
    assert (line["ratio"], line["ratio_low"], line["ratio_high"]) == (0.5, 0.5, 0.5)
    assert line["peak_fraction"] == pytest.approx(0.5)
    assert (line["problem"], line["samples"]) == ("100", 10)


@pytest.mark.parametrize("status", ["incorrect", "timeout", "launch_error", "compile_error", "not_supported", "skipped"])
def test_what_is_not_correct_has_no_speed(status):
    (line,) = tables.summarise([row(status=status)], 1.0).to_dict("records")
    assert all(line[name] != line[name] for name in ("tflops", "ratio", "median_us", "peak_fraction"))  # NaN


def test_the_best_is_the_fastest_correct_one_and_ties_are_named():
    rows = [
        row(configuration="slow", samples_us=[3.0] * 10),
        row(configuration="fast", samples_us=[1.0, 1.1] * 5),
        row(configuration="tied", samples_us=[1.06] * 10),
        row(configuration="wrong", samples_us=[0.1] * 10, status="incorrect"),
        row(kernel="other", status="timeout"),
    ]
    (line,) = tables.best(tables.summarise(rows, 1.0)).to_dict("records")
    assert (line["kernel"], line["configuration"], line["configurations"], line["tied_with"]) == ("k", "fast", 4, "tied")


def test_two_environments_are_never_one_dataset(tmp_path):
    for name, driver in (("a", "580"), ("b", "590")):
        records.write(tmp_path / f"{name}.parquet", [row()], {"fingerprint": {"driver": driver, "device": "H"}})
    with pytest.raises(InputError, match=r'b\.parquet: measured in another environment: driver was "590"; expected "580"'):
        tables.load(sorted(tmp_path.glob("*.parquet")), {"fingerprint": {"driver": "580", "device": "H"}})
    with pytest.raises(
        InputError,
        match=r'a\.parquet: .*: device was "H"; expected "L", driver was "580"; expected "590", as in environment.json',
    ):
        tables.load(sorted(tmp_path.glob("*.parquet")), {"fingerprint": {"driver": "590", "device": "L"}})


def test_what_was_timed_beside_another_process_is_marked():
    (quiet, disturbed) = tables.summarise([row(other_processes=n, reason="") for n in (0, 2)], 1.0).to_dict("records")
    assert quiet["reason"] == ""
    assert disturbed["reason"] == "timed while 2 other process(es) computed on the device"
    assert disturbed["tflops"] == quiet["tflops"]


def test_what_lost_the_race_is_neither_best_nor_tied():
    rows = [
        row(configuration="finished", samples_us=[2.0] * 10),
        row(configuration="raced", samples_us=[1.0] * 5, reference_us=[0.4] * 5, stop="race"),
    ]
    summary = tables.summarise(rows, 1.0)
    assert summary["samples"].tolist() == [10, 5]
    (line,) = tables.best(summary).to_dict("records")
    assert (line["configuration"], line["configurations"], line["tied_with"]) == ("finished", 2, "")


def test_energy_clock_and_throttling():
    reasons = [0, 0x1, 0x4, 0x40 | 0x1]  # none, idle, power cap, heat
    given = row(
        samples_us=[2.0] * 4, reference_us=[1.0] * 4, energy_j=1e-4, sm_clock_mhz=1000.0, samples_throttle_reasons=reasons
    )
    environment = {"kind": "cuda", "attributes": {"compute_capability": "9.0", "sm_count": 2}}
    assert tables.flop_per_clock(environment) == 2 * 128 * 2
    assert tables.flop_per_clock({"kind": "cpu"}) is None
    (line,) = tables.summarise([given], 2.0, per_clock=2000.0).to_dict("records")
    assert line["tflop_per_j"] == pytest.approx(0.02)  # 2e6 operations for 1e-4 J
    assert line["clock_fraction"] == pytest.approx(0.5)  # 1 TFLOP/s of 2000 a clock at 1 GHz
    assert line["throttled_share"] == pytest.approx(0.5)
    assert (line["samples"], line["stop"]) == (4, None)
    (line,) = tables.summarise([row()], 2.0).to_dict("records")
    assert all(line[name] is None or line[name] != line[name] for name in ("tflop_per_j", "clock_fraction", "throttled_share"))
