"""Write a compiled kernel for use in another program: the cubin, how to launch it, and code in C++
and in Python that does so.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ladder.cli.best_rung import fastest_result
from ladder.cli.trial import check_type, compiled_alone
from ladder.compiling.toolchain import DEFAULT_ARCHITECTURE
from ladder.core import places
from ladder.core.errors import InputError, one_of
from ladder.core.expressions import cpp
from ladder.core.files import write_whole
from ladder.core.types import ELEMENT_TYPES
from ladder.devices.detect import detect_gpus
from ladder.model.kernel import ARGUMENTS, OF_BUILD, SCALES, Configuration, Kernel
from ladder.model.kernel_file import DEVICE_NAMES, everywhere
from ladder.model.tensor_map import data_type, expressions

HERE = Path(__file__).resolve().parent
CUBIN = "gemm.cubin"


def export(name: str, assignments: Sequence[str], element_type: str, layout: str) -> str:
    """Write the folder `results/export/KERNEL` and return what was written. Raises `InputError`."""
    kernel = _kernel(name)
    check_type(kernel, element_type)
    if layout not in kernel.layouts:
        raise InputError(
            f"--layout {layout}: expected one of the layouts in the header of {kernel.id}, "
            f"{', '.join(kernel.layouts)}"
        )
    gpus = detect_gpus()
    arch = kernel.architecture or (gpus[0].arch if gpus else DEFAULT_ARCHITECTURE)
    configuration = replace(_configuration(kernel, assignments, element_type), layout=layout)
    result = fastest_result(
        kernel,
        arch,
        element_type,
        configuration.label if assignments else "",
        gpus[0].slug if gpus else "",
        layout,
    )
    if assignments:
        why = "as given"
    elif result:
        configuration = Configuration.of(element_type, result["configuration"])
        why = f"the fastest one measured on {result['gpu']} at {result['problem']}"
    else:
        why = f"the default: no result of it for {arch}"
    entry = compiled_alone(kernel, configuration, arch)
    if entry.status != "compiled":
        raise InputError(
            f"{kernel.id}: {configuration.label}: {entry.reason}; expected a configuration that "
            f"compiles for {arch}"
        )
    folder = places.project() / "results" / "export" / kernel.name
    write(
        folder, kernel, configuration, arch, entry.binary.read_bytes(), vars(entry.resource), result
    )
    verdict = "not measured"
    if result:
        same = result["sha256"] == entry.resource.sha256
        binary = "the same binary" if same else "compiled again, to a different binary"
        verdict = (
            f"{result['status']} on {result['gpu']}, {result['time'][:10]}, "
            f"{result['dataset']}: {binary}"
        )
    return f"wrote {folder}: {configuration.label} ({why})\n  {verdict}"


def _kernel(name: str) -> Kernel:
    """Return the CUDA kernel of that name, or in that file. Raises `InputError` if there is
    none.
    """
    refused: dict[str, InputError] = {}
    kernels = everywhere(refused, [Path(name)] if Path(name).is_file() else [])
    kernel_id = f"cuda/{Path(name).stem}"
    if kernel_id in refused:
        raise refused[kernel_id]
    if kernel_id not in kernels and f"cpu/{Path(name).stem}" in kernels:
        raise InputError(f"{name}: got a CPU kernel; expected a CUDA kernel, which has a cubin")
    if kernel_id not in kernels:
        known = [kernel.name for kernel in kernels.values() if kernel.kind == "cuda"]
        raise InputError(f"{name}: no such CUDA kernel; {one_of(Path(name).stem, known)}")
    return kernels[kernel_id]


def _configuration(kernel: Kernel, assignments: Sequence[str], element_type: str) -> Configuration:
    """Return the configuration with some parameters given. The others have their defaults."""
    text = " ".join(assignments)
    try:
        given = Configuration.of(element_type, text)
    except ValueError:
        raise InputError(f"{text}: expected a configuration such as BM=64 BN=128") from None
    for assignment in text.split():
        name, is_given, _ = assignment.partition("=")
        if not is_given or name not in (*kernel.parameters, *OF_BUILD):
            raise InputError(
                f"{assignment}: expected a parameter of {kernel.id}, "
                f"{', '.join(kernel.parameters) or 'which has none'}"
            )
    parameters = {**kernel.parameters, **dict(given.parameters)}
    return Configuration(element_type, tuple(parameters.items()), given.build)


def write(
    folder: Path,
    kernel: Kernel,
    configuration: Configuration,
    arch: str,
    binary: bytes,
    resource: Mapping[str, Any],
    result: Mapping[str, Any] | None,
) -> None:
    """Write the files of a compiled configuration: `gemm.cubin`, `launch.json`, `gemm.h` and
    `gemm.py`.
    """
    names = {**kernel.parameters, **configuration.names()}
    if kernel.batch:
        names |= {"batch": 1}
    launches = [
        {
            "function": launch["function"],
            "grid": [*launch["grid"], 1, 1][:3],
            "block": block,
            "dynamic_shared": launch.get("dynamic_shared", 0),
            "when": launch.get("when", 1),
        }
        for launch, (_, block) in zip(kernel.geometry[1], kernel.blocks(names), strict=True)
    ]
    launch = {
        "kernel": kernel.id,
        "configuration": configuration.label,
        "element_type": configuration.element_type,
        "element_type_c": ELEMENT_TYPES[configuration.element_type].of_c.name,
        "architecture": arch,
        "cubin": CUBIN,
        "sha256": resource["sha256"],
        "compiler": " ".join(
            resource[key] for key in ("compiler", "version", "options") if resource[key]
        ),
        "arguments": [
            *ARGUMENTS.split(", "),
            *(SCALES.split(", ") if ELEMENT_TYPES[configuration.element_type].block else []),
            *(["void *workspace"] if kernel.workspace else []),
            *(f"CUtensorMap {entry['of'].lower()}_map" for entry in kernel.tensor_maps),
        ],
        "parameters": names,
        "where": dict(kernel.where),
        "needs": list(kernel.needs),
        "workspace": kernel.workspace or None,
        "tensor_maps": [expressions(entry, names) for entry in kernel.tensor_maps],
        "launches": launches,
        "measured": result,
    }
    expressions_of = json.dumps(
        [launch[key] for key in ("where", "needs", "workspace", "tensor_maps", "launches")]
    )
    launch["device"] = [name for name in DEVICE_NAMES if re.search(rf"\b{name}\b", expressions_of)]
    write_whole(folder / CUBIN, binary)
    write_whole(folder / "launch.json", (json.dumps(launch, indent=2) + "\n").encode())
    write_whole(folder / "gemm.py", (HERE / "exported.py").read_bytes())
    write_whole(folder / "gemm.h", _header(launch).encode())


def _header(launch: Mapping[str, Any]) -> str:
    """Return the C++ header, from its template and the content of `launch.json`."""
    named = {**launch["parameters"], **launch["where"]}
    workspace, element_type = launch["workspace"], launch["element_type"]
    across = {
        "LDA": "M" if launch["parameters"]["TRANS_A"] else "K",
        "LDB": "K" if launch["parameters"]["TRANS_B"] else "N",
    }
    maps, scales = range(len(launch["tensor_maps"])), ELEMENT_TYPES[element_type].block
    encoded = [
        _encode(entry, index, data_type(entry["of"], entry["size"], element_type))
        for index, entry in enumerate(launch["tensor_maps"])
    ]
    calls = [*encoded, *map(_call, launch["launches"])]
    if workspace:
        calls = [
            f"    const double bytes_ = std::max(4.0, whole({cpp(workspace)}));",
            "    check(cuMemAllocAsync(&workspace_, static_cast<size_t>(bytes_), stream_), "
            '"cuMemAllocAsync");',
            "    try {",
            *(f"  {call}" for call in calls),
            "    } catch (...) {",
            "      cuMemFreeAsync(workspace_, stream_);",
            "      throw;",
            "    }",
            '    check(cuMemFreeAsync(workspace_, stream_), "cuMemFreeAsync");',
        ]
    parts = {
        "KERNEL": launch["kernel"],
        "CONFIGURATION": launch["configuration"],
        "TYPE": element_type,
        "ARCH": launch["architecture"],
        "CLASS": f"Gemm_{launch['kernel'].split('/')[1].replace('-', '_')}",
        "ACC": ELEMENT_TYPES[element_type].accumulator,
        "CLUSTERS": "    clusters_ = clusters_of_four(device, shared_);\n"
        if "clusters_of_4" in launch["device"]
        else "",
        "NAMES": "".join(f"    const double {name} = {cpp(named[name])};\n" for name in named),
        "UNUSED": "".join(f", {name}" for name in named),
        "NEEDS": "".join(f'    expect({cpp(need)}, "{need}");\n' for need in launch["needs"]),
        "WORKSPACE": "    CUdeviceptr workspace_ = 0;\n" if workspace else "",
        "WORKSPACE_ARGUMENT": ", &workspace_" if workspace else "",
        "SCALES": "CUdeviceptr scales_a_, CUdeviceptr scales_b_, " if scales else "",
        "SCALE_ARGUMENTS": ", &scales_a_, &scales_b_" if scales else "",
        "MAPS": f"    CUtensorMap maps_[{len(maps)}];\n" if maps else "",
        "MAP_ARGUMENTS": "".join(f", &maps_[{index}]" for index in maps),
        "LAUNCHES": "\n".join(calls),
        **across,
        **{f"{name}_ARGUMENT": f"{size.lower()}_" for name, size in across.items()},
    }
    text = (HERE / "exported.h").read_text()
    for name, value in parts.items():
        text = text.replace(f"@{name}@", value)
    return text


def _call(launch: Mapping[str, Any]) -> str:
    """Return the line of C++ of one launch."""
    when = "" if launch["when"] == 1 else f"if ({cpp(launch['when'])}) "
    extents = [*map(cpp, launch["grid"]), *map(str, launch["block"]), cpp(launch["dynamic_shared"])]
    return f'    {when}launch("{launch["function"]}", {", ".join(extents)}, stream_, arguments_);'


def _encode(entry: Mapping[str, Any], index: int, data: str) -> str:
    """Return the line of C++ that encodes a tensor map."""
    start = "workspace_" if entry["of"] == "workspace" else f"{entry['of'].lower()}_"
    place = [entry[key] for key in ("at", "width", "height", "pitch")]
    numbers = ", ".join(map(cpp, (*place, *entry["box"], entry["swizzle"])))
    needed = "false" if entry["of"] == "C" else "true"
    return (
        f"    encode(maps_[{index}], {needed}, CU_TENSOR_MAP_DATA_TYPE_{data}, {start}, {numbers});"
    )
