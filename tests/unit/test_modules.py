"""The package's modules keep their order, and a stage knows all that it depends on."""

import ast

from ladder import sources
from planted import ROOT

ORDER = [
    "clock", "simulation", "units", "jobs", "sources", "expressions", "statistics", "yamlfile", "dictionary", "kernels", "campaign",
    "ceilings",
    "environment", "study", "templates", "cubin", "issue", "compile", "devices", "devices.meter", "devices.cpu",
    "devices.nvml", "devices.cuda_operands", "devices.cuda", "baselines",
    "baselines.blas", "baselines.cublas", "gauntlet", "diagnosis", "verify", "timing", "records", "targets", "worker",
    "start", "child", "lock", "progress", "probe", "measure", "confirm", "verdicts", "measurements", "confirmed", "tables",
    "models", "aggregate", "counters", "contestants", "bench", "wording", "trial", "result",
    "figures.dataset", "figures.page", "figures.scaling", "figures.rungs", "figures.roofline", "figures.issue",
    "figures.parameters", "figures.accuracy", "figures.samples", "figures.compilers", "figures.devices", "figures.changes",
    "figures.counters", "figures", "index", "publish", "repeat", "claims", "judged", "reproduced",
    "story.data", "story.parts", "story", "compare", "__main__",
]  # fmt: skip
"""A module imports only from those before it."""


def modules():
    package = ROOT / "workflow" / "ladder"
    for path in package.rglob("*.py"):
        name = ".".join(path.relative_to(package).with_suffix("").parts).removesuffix(".__init__")
        if name != "__init__":
            yield name


def test_no_import_goes_against_the_order():
    assert sorted(modules()) == sorted(ORDER)
    for index, module in enumerate(ORDER):
        assert sources.imports(module) <= set(ORDER[:index]), module


def test_no_import_of_the_package_is_missed():
    for module in modules():
        asked = set()
        for node in ast.walk(ast.parse(sources.path(module).read_text())):
            if isinstance(node, ast.Import):
                assert not any(alias.name.startswith("ladder") for alias in node.names), module
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, module
                if node.module.split(".")[0] == "ladder":
                    base = node.module.removeprefix("ladder").removeprefix(".")
                    asked |= {f"{base}.{alias.name}".strip(".") for alias in node.names}
        asked = {name if sources.exists(name) else name.rpartition(".")[0] for name in asked} - {""}
        assert sources.imports(module) >= asked, module


def test_figures_and_tables_touch_no_device():
    drawing = sources.closure("aggregate", "figures", "statistics")
    assert not {"devices", "devices.cuda", "devices.cpu", "baselines", "compile", "worker", "environment"} & drawing
    for module in drawing:
        assert "pycuda" not in sources.path(module).read_text()


def test_a_digest_follows_what_is_imported():
    assert {"devices.cuda", "baselines.cublas", "verify", "expressions"} <= sources.closure("worker")
    assert "figures" not in sources.closure("measure", "worker")
    assert sources.digest("tables") != sources.digest("figures")


def test_the_contributing_guide_names_every_module():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert [module for module in ORDER if f"`{module}`" not in text] == []
