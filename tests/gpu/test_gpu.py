"""What only a GPU can show. Run with `pytest -m gpu` on a machine that has one."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import faults
import numpy as np
import pytest
from ladder import environment, kernels
from ladder.campaign import Problem
from ladder.compile import compile_kernel, compile_support
from ladder.devices import buffer_elements
from ladder.devices import cpu as host
from ladder.units import ELEMENT_TYPES
from ladder.verify import judge
from ladder.worker import open_device
from planted import ROOT, Project, cuda_kernel

pytestmark = pytest.mark.gpu

SHAPES = [
    (1, 1, 1), (1, 7, 1), (1, 513, 31), (513, 1, 31), (31, 1, 513), (2, 3, 5), (17, 17, 17), (31, 33, 29), (64, 64, 64),
    (65, 63, 7), (127, 129, 131), (128, 128, 8), (129, 127, 9), (257, 255, 253), (256, 256, 3), (3, 256, 256), (509, 503, 499),
    (1000, 10, 1000), (10, 1000, 1000), (96, 160, 224),
]  # fmt: skip
LAYOUTS = [
    {}, {"padding": 1}, {"padding": 4}, {"alpha": -1.5, "beta": 0.5}, {"alpha": 0.0, "beta": 1.0},
    {"alpha": 2.0, "beta": -1.0, "padding": 3}, {"alpha": 0.0, "beta": 0.0},
]  # fmt: skip


@pytest.fixture(scope="module")
def gpu() -> Iterator[object]:
    device = environment.detect_gpus()[0]
    support = Path("/tmp/gemm-ladder-test-support.cubin")
    support.write_bytes(compile_support("cuda", device.arch))
    opened = open_device("cuda", device.uuids[0], support)
    opened.arch = device.arch
    yield opened
    opened.close()


KERNELS = [kernel for kernel in kernels.discover(ROOT).values() if kernel.kind == "cuda"]
CASES = [(kernel, element_type) for kernel in KERNELS for element_type in kernel.element_types]


@pytest.mark.parametrize(("kernel", "element_type"), CASES, ids=[f"{kernel.name}-{t}" for kernel, t in CASES])
def test_every_configuration_is_right_on_every_shape_and_layout(gpu, kernel, element_type, tmp_path):
    rows = compile_kernel(kernel, list(kernel.expand({}, [element_type])), gpu.arch, tmp_path, 8)
    wrong = []
    problems = [Problem(*shape, element_type=element_type, **layout) for shape in SHAPES for layout in LAYOUTS]
    legal = [configuration for configuration, objection in kernel.expand({}, [element_type]) if not objection]
    by_slug = {row.slug: row for row in rows}
    assert all(by_slug[configuration.slug].status == "compiled" for configuration in legal)
    for problem in problems:
        gpu.problem(problem)
        for configuration in legal:
            launch = gpu.kernel(kernel, configuration, (tmp_path / by_slug[configuration.slug].binary).read_bytes())
            verdict = judge(gpu.check(launch), problem)
            if verdict.status != "correct":
                wrong.append((configuration.label, problem, verdict.reason))
    assert not wrong, f"{len(wrong)} wrong, the first: {wrong[:3]}"


@pytest.mark.parametrize("kernel", KERNELS, ids=[kernel.name for kernel in KERNELS])
def test_operands_may_begin_anywhere(gpu, kernel, tmp_path):
    """A and B on addresses that are no multiple of 16: vector loads give way."""
    import pycuda.driver as cuda

    configuration, _ = next(item for item in kernel.expand({}, ["float32"]) if not item[1])
    (row,) = compile_kernel(kernel, [(configuration, "")], gpu.arch, tmp_path, 1)
    problem = Problem(132, 136, 68)
    for offset_a, offset_b in ((1, 0), (0, 2), (3, 3)):
        gpu.problem(problem)
        for name, offset in (("a", offset_a), ("b", offset_b)):
            aligned = getattr(gpu, name)
            size = problem.m * problem.k if name == "a" else problem.k * problem.n
            shifted = int(gpu.allocate(size + 4, 4)) + 4 * offset
            cuda.memcpy_dtod(shifted, int(aligned), 4 * size)
            setattr(gpu, name, shifted)
        launch = gpu.kernel(kernel, configuration, (tmp_path / row.binary).read_bytes())
        assert judge(gpu.check(launch), problem).status == "correct"


@pytest.mark.parametrize("name", ["cublas", "cublas_tf32"])
def test_cublas_computes_a_times_b_on_rectangles(gpu, name):
    for shape in [(3, 5, 7), (64, 32, 16), (129, 65, 33)]:
        for layout in LAYOUTS:
            problem = Problem(*shape, **layout)
            gpu.problem(problem)  # whose reference is checked against the host's arithmetic
            assert judge(gpu.check(gpu.baseline(name)), problem, tf32=name == "cublas_tf32").status == "correct"


def test_tf32_does_not_pass_for_float32(gpu):
    for size in (512, 2048, 8192):
        problem = Problem(size, size, size)
        gpu.problem(problem)
        assert judge(gpu.check(gpu.baseline("cublas_tf32")), problem).status == "incorrect"


@pytest.mark.parametrize("element_type", list(ELEMENT_TYPES))
def test_the_comparison_on_the_device_is_that_on_the_host(gpu, element_type):
    import pycuda.driver as cuda
    from ladder.devices import Launch

    problem = Problem(33, 65, 17, element_type=element_type, padding=2, beta=0.5)
    gpu.problem(problem)
    size = ELEMENT_TYPES[element_type].size
    one = np.ones(1, element_type)

    def spoil() -> None:  # an element of C, a canary in a row's padding, one before C and one after
        for index in (5 * problem.ldc + 3, 6 * problem.ldc - 1, -7, problem.m * problem.ldc + 9):
            cuda.memcpy_htod(gpu.c + index * size, one)

    def call() -> None:
        gpu.baseline("cublas").call()
        gpu.stream.synchronize()
        spoil()

    errors = gpu.check(Launch(call))
    buffer = np.empty(buffer_elements(problem), element_type)
    reference, scale = np.empty((problem.m, problem.n)), np.empty((problem.m, problem.n))
    for array, source in ((buffer, gpu.c_buffer), (reference, gpu._reference), (scale, gpu._scale)):
        cuda.memcpy_dtoh(array, source)
    expected = host.compare(buffer, problem, reference, scale)
    assert errors.stray == expected.stray == 3
    assert errors.wild == expected.wild == 0
    for name in ("diff2", "ref2", "scale2", "worst"):
        assert getattr(errors, name) == pytest.approx(getattr(expected, name), rel=1e-9)


def test_a_kernel_that_misbehaves_is_a_row_and_harms_no_other(project: Project):
    for name, fault in faults.GPU.items():
        project.write(f"kernels/cuda/{name}.cu", cuda_kernel(name, fault.body))
    project.ok("--configfile", project.campaign("""
campaign: faults
devices: [cuda]
kernels: ["cuda/9*"]
problems: {cuda: [[130, 129, 127], {square: 256}]}
measure: {min_samples: 10, max_samples: 10, timeout_seconds: 10, target: 0.05}
"""))  # fmt: skip
    summary = project.table("faults/*/summary.csv")
    assert len(summary) == 2 * (2 * len(faults.GPU) + 2)
    for name, fault in faults.GPU.items():
        rows = summary[summary["kernel"] == name]
        assert set(rows["status"]) == {fault.status}, rows[["status", "reason"]].to_string()
        assert rows["reason"].fillna("").str.contains(fault.reason).all(), rows["reason"].tolist()
        assert rows["tflops"].notna().all() == (fault.status == "correct")
        assert rows["tflops"].isna().all() == (fault.status != "correct")


def test_what_runs_below_ncu_launches_a_configuration(gpu, tmp_path):
    device, kernel = environment.detect_gpus()[0], KERNELS[0]
    configuration = next(c for c, objection in kernel.expand({}, ["float32"]) if not objection)
    (row,) = compile_kernel(kernel, [(configuration, "")], gpu.arch, tmp_path, 1)
    task = {
        "uuid": device.uuids[0],
        "support": "/tmp/gemm-ladder-test-support.cubin",
        "kernel": str(kernel.path),
        "configuration": configuration.label,
        "binary": str(tmp_path / row.binary),
        "problem": {"m": 256, "n": 256, "k": 256},
    }
    done = subprocess.run(
        [sys.executable, "-m", "ladder.counters", json.dumps(task)],
        cwd=ROOT / "workflow",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_cold_launches_take_turns_on_copies_that_together_exceed_the_l2(gpu):
    import pycuda.driver as cuda

    problem = Problem(256, 256, 256)
    gpu.problem(problem)
    launch = gpu.baseline("cublas")
    (cold,) = gpu.time_round([gpu.repeated(launch, 400, cold=True)], cold=True)
    (warm,) = gpu.time_round([gpu.repeated(launch, 400)], cold=False)
    assert len(gpu._sets) * sum(gpu._bytes) > 2 * gpu.device.get_attribute(cuda.device_attribute.L2_CACHE_SIZE)
    assert cold > warm
    results = []
    for _, _, c in gpu._sets:
        results.append(np.empty((problem.m, problem.n), np.float32))
        cuda.memcpy_dtoh(results[-1], c)
    assert np.isfinite(results[0]).all()
    assert all((result == results[0]).all() for result in results)


def test_energy_is_about_the_power_times_the_time(gpu):
    gpu.problem(Problem(4096, 4096, 4096))
    launch = gpu.baseline("cublas")
    times = [gpu.time_round([launch], cold=False)[0] for _ in range(20)]
    joules = gpu.energy(launch, int(1e6 / np.median(times)))
    if joules is None:
        pytest.skip("the board counts no energy")
    limit = gpu.describe()["power_limit_w"]
    assert 0.2 * limit < joules / (np.median(times) * 1e-6) < 1.1 * limit


def test_rounds_read_clocks_and_power(gpu):
    gpu.problem(Problem(1024, 1024, 1024))
    gpu.time_round([gpu.repeated(gpu.baseline("cublas"), 1000)], cold=False)
    assert 300 < gpu.reading["sm_clock_mhz"] < 3000
    assert 50 < gpu.reading["power_w"] < 1500
    assert gpu.reading["throttle_reasons"] >= 0
