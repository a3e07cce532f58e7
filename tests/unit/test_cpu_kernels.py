"""Every CPU rung against float64, on shapes that divide nothing, with leading dimensions, alpha and beta."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from ladder import kernels
from ladder.campaign import Problem
from ladder.compile import compile_kernel, compile_support
from ladder.devices.cpu import Cpu
from ladder.kernels import Configuration
from ladder.verify import judge
from ladder.worker import open_device
from planted import ROOT

SHAPES = [
    (1, 1, 1), (1, 7, 1), (1, 513, 31), (513, 1, 31), (31, 1, 513), (2, 3, 5), (17, 17, 17), (64, 64, 64), (65, 63, 7),
    (127, 129, 131), (12, 32, 256), (121, 513, 257), (241, 33, 385), (3, 256, 256), (10, 1000, 10), (256, 256, 256),
]  # fmt: skip
LAYOUTS = [
    {}, {"padding": 1}, {"padding": 16}, {"alpha": -1.5, "beta": 0.5}, {"alpha": 0.0, "beta": 1.0},
    {"alpha": 2.0, "beta": -1.0, "padding": 3}, {"alpha": 0.0, "beta": 0.0},
]  # fmt: skip
KERNELS = [kernel for kernel in kernels.discover(ROOT).values() if kernel.kind == "cpu"]
CASES = [(kernel, element_type) for kernel in KERNELS for element_type in kernel.element_types]


@pytest.fixture(scope="module")
def cpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cpu]:
    support = tmp_path_factory.mktemp("support") / "support.so"
    support.write_bytes(compile_support("cpu", "here"))
    device = open_device("cpu", "", support)
    yield device
    device.close()


@pytest.mark.parametrize(("kernel", "element_type"), CASES, ids=[f"{kernel.name}-{t}" for kernel, t in CASES])
def test_every_rung_is_right_everywhere(cpu: Cpu, kernel, element_type, tmp_path: Path):
    legal = [configuration for configuration, objection in kernel.expand({}, [element_type]) if not objection]
    default = Configuration(element_type, tuple(kernel.parameters.items()))
    chosen = list(dict.fromkeys([default, legal[0], legal[-1]]))
    rows = compile_kernel(kernel, [(configuration, "") for configuration in chosen], "here", tmp_path, 2)
    wrong = []
    for shape in SHAPES:
        for layout in LAYOUTS:
            problem = Problem(*shape, element_type=element_type, **layout)
            cpu.problem(problem)
            for configuration, row in zip(chosen, rows, strict=True):
                verdict = judge(cpu.check(cpu.kernel(kernel, configuration, (tmp_path / row.binary).read_bytes())), problem)
                if verdict.status != "correct":
                    wrong.append((configuration.label, problem, verdict.reason))
    assert not wrong, f"{len(wrong)} wrong, the first: {wrong[:3]}"


@pytest.mark.parametrize("name", ["blas_1", "blas_all"])
@pytest.mark.parametrize("element_type", ["float32", "float64"])
def test_blas_computes_a_times_b_on_rectangles(cpu: Cpu, name, element_type):
    for shape in [(3, 5, 7), (64, 32, 16), (129, 65, 33)]:
        for layout in LAYOUTS:
            problem = Problem(*shape, element_type=element_type, **layout)
            cpu.problem(problem)
            assert judge(cpu.check(cpu.baseline(name)), problem).status == "correct"
