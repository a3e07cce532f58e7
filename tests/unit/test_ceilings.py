"""The least time a problem can take, by hand, and the peak that is measured beside what the clock
allows.
"""

import pytest
from ladder.compiling import issue_model
from ladder.compiling.compile import compile_support
from ladder.model.hardware_limits import flop_per_clock, least_us, measured_peak, peak_tflops
from ladder.model.problem import Problem


def gpu(**attributes):
    given = {
        "compute_capability": "9.0",
        "sm_count": 100,
        "max_sm_clock_mhz": 1000,
        "cache_bytes": 10**6,
    }
    return {
        "kind": "cuda",
        "attributes": given | attributes,
        "peaks": {"fp32_tflops": 20.0, "copy_tb_s": 4.0},
    }


CPU = {
    "kind": "cpu",
    "attributes": {"cores": 4, "cache_bytes": 10**6},
    "peaks": {"fp32_tflops": 0.1, "copy_tb_s": 1e-4},
}


def test_lanes_of_an_sm():
    assert flop_per_clock(gpu()) == 2 * 128 * 100
    assert flop_per_clock(gpu(compute_capability="8.0")) == 2 * 64 * 100
    assert flop_per_clock(CPU) is None


@pytest.mark.parametrize(
    ("environment", "element_type", "tensor_cores", "expected"),
    [
        (gpu(), "float32", False, 25.6),
        (gpu(), "float16", False, 4 * 25.6),
        (gpu(), "bfloat16", False, 4 * 25.6),
        (gpu(), "float32", True, 409.6),
        (gpu(compute_capability="8.0"), "float32", True, 204.8),
        # of one that is not in the table, the most there is
        (gpu(compute_capability="12.0"), "float16", True, 1638.4),
        (gpu(max_sm_clock_mhz=None), "float32", False, 30.0),  # half again what was measured
        (CPU, "float32", False, 1.6),  # whatever was measured: other work may have had the cores
    ],
)
def test_the_peak(environment, element_type, tensor_cores, expected):
    assert peak_tflops(environment, element_type, tensor_cores) == pytest.approx(expected)


def test_a_measured_peak_is_that_of_the_element_type():
    measured = {"fp32_tflops": 20.0, "tensor_16_bit_tflops": 300.0, "tensor_8_bit_tflops": 500.0}
    names = "float32", "float16", "bfloat16", "float8_e4m3", "float64"
    peaks = [measured_peak(gpu() | {"peaks": measured}, name) for name in names]
    assert peaks == [20.0, 300.0, 300.0, 500.0, None]
    assert measured_peak(gpu(), "float16") is None  # data from before it was measured


def test_the_least_time_is_that_of_operations_or_of_what_fits_no_cache():
    # 2e9 operations at 25.6 TFLOP/s; 12 MB, of which 11 at 5 TB/s take 2.2 us
    computing = Problem(1000, 1000, 1000)
    assert least_us(gpu(), computing, False) == pytest.approx(78.125)
    assert least_us(gpu(), computing, True) == pytest.approx(2e9 / 409.6e12 * 1e6)
    moving = Problem(1000, 1000, 1)  # 4.008 MB, of which 3.008
    assert least_us(gpu(), moving, False) == pytest.approx(3.008e6 / 5e12 * 1e6)
    assert least_us(gpu(cache_bytes=10**7), moving, False) == pytest.approx(2e6 / 25.6e12 * 1e6)
    # nor does the copy measured bound it
    assert least_us(CPU, computing, False) == pytest.approx(2e9 / 1.6e12 * 1e6)


@pytest.mark.slow
def test_the_loop_that_measures_the_peak_issues_a_multiply_add_in_nearly_every_clock():
    assert issue_model.multiply_adds_per_clock(compile_support("cuda", issue_model.MODELED)) > 0.995
