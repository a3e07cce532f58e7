"""Compare the functions of a compiled kernel with the calls that the pipeline will make: names,
parameters and threads.
"""

import math
import struct
from dataclasses import dataclass

from ladder.compiling import cubin
from ladder.compiling.compilers import CompileError
from ladder.core.expressions import evaluate_int
from ladder.core.types import ELEMENT_TYPES
from ladder.model.kernel import Configuration, Kernel
from ladder.model.tensor_map import MAP_BYTES

ORDINALS = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
)
BATCH_BYTES = 32
"""Size of `Batch`, which lies at a multiple of 8 bytes."""
_PARAMETER, _EXACT_BLOCK, _LARGEST_BLOCK = 0x17, 0x10, 0x05
"""Attributes in `.nv.info.*`: one for each parameter, the block of `.reqntid`, and that of
`.maxntid` (`__launch_bounds__`).

As ptxas of CUDA 13 writes them for sm_75 to sm_120; `cuobjdump -elf` names them EIATTR_KPARAM_INFO,
EIATTR_REQNTID and EIATTR_MAX_THREADS.
"""


@dataclass
class Function:
    """What a cubin says of one `__global__` function."""

    parameters: dict[int, tuple[int, int]]
    """Offset and size of each parameter in bytes, by its number from 0 on."""
    exact_block: tuple[int, ...] = ()
    largest_block: tuple[int, ...] = ()


def functions(binary: bytes) -> dict[str, Function]:
    """Return the `__global__` functions of a cubin by name. Raises `ValueError` if the bytes are
    not a cubin.
    """
    by_name = {}
    for name, data in cubin.information(binary).items():
        function, at = Function({}), 0
        # an attribute: how it is stored, which one, and its value or the value's size
        while at + 4 <= len(data):
            stored, attribute, size = struct.unpack_from("<BBH", data, at)
            value, at = (
                (data[at + 4 : at + 4 + size], at + 4 + size) if stored == 4 else (b"", at + 4)
            )
            if attribute == _PARAMETER:
                _, number, offset, flags = struct.unpack("<IHHI", value)
                function.parameters[number] = offset, flags >> 18
            elif attribute == _EXACT_BLOCK:
                function.exact_block = struct.unpack("<3I", value)
            elif attribute == _LARGEST_BLOCK:
                function.largest_block = struct.unpack("<3I", value)
        by_name[name] = function
    return by_name


def check(
    kernel: Kernel, configuration: Configuration, binary: bytes, dynamic_shared: int = 0
) -> None:
    """Raise `CompileError` if a function that the pipeline calls is missing, or wants other
    parameters, threads or shared memory.

    The C compiler has compared the parameters of a CPU kernel with the prototype in
    `Kernel.source`.
    """
    cuda = kernel.kind == "cuda"
    declared = evaluate_int(kernel.dynamic_shared, configuration.names()) if dynamic_shared else 0
    if declared < dynamic_shared:
        raise CompileError(
            f"dynamic_shared: got {declared} bytes; expected {dynamic_shared} or more, which "
            "Triton's compiler laid out"
        )
    arguments = kernel.arguments(configuration)
    by_name = functions(binary) if cuda else dict.fromkeys(cubin.exported(binary), Function({}))
    for name, block in kernel.blocks(configuration.names()):
        if name not in by_name:
            before = {
                ".cu": 'extern "C" __global__ void',
                ".ptx": ".visible .entry",
                ".py": "@triton.jit def",
            }.get(kernel.path.suffix, "void")
            names = ", ".join(sorted(by_name)[:5]) or "none"
            raise CompileError(
                f"no function {name}; found {names}; expected {before} {name}({arguments})"
            )
        if cuda:
            _check_parameters(
                name,
                by_name[name],
                arguments,
                max(4, ELEMENT_TYPES[configuration.element_type].size),
            )
            _check_block(name, by_name[name], block)


def _check_parameters(name: str, function: Function, arguments: str, sum_size: int) -> None:
    """Raise `CompileError` unless the parameters of a function lie where a C compiler would put the
    arguments.

    Tensor maps come last. ptxas puts them elsewhere, and the driver knows where.
    """
    passed: list[tuple[int, int]] = []
    for argument in arguments.split(", "):
        size = (
            8
            if "*" in argument
            else {"Acc": sum_size, "Batch": BATCH_BYTES, "TensorMap": MAP_BYTES}.get(
                argument.split()[0], 4
            )
        )
        end = sum(passed[-1]) if passed else 0
        passed.append((-1 if size == MAP_BYTES else end + -end % min(size, 8), size))
    taken = [function.parameters[number] for number in sorted(function.parameters)]
    taken = [(-1 if size == MAP_BYTES else offset, size) for offset, size in taken]
    if taken == passed:
        return
    at = next(
        (at for at, pair in enumerate(zip(taken, passed, strict=False)) if pair[0] != pair[1]),
        min(len(taken), len(passed)),
    )
    argument = arguments.split(", ")[at].split()[-1].strip("*") if at < len(passed) else ""
    which = f"the {ORDINALS[at] if at < len(ORDINALS) else f'{at + 1}th'}" + (
        f", {argument}," if argument else ""
    )
    has = "is missing" if at >= len(taken) else f"has {_place(*taken[at])}"
    wants = _place(*passed[at]) if argument else "no more parameters"
    raise CompileError(
        f"{name} takes {len(taken)} parameters; expected the {len(passed)} of {name}({arguments}): "
        f"{which} {has}; expected {wants}"
    )


def _place(offset: int, size: int) -> str:
    return f"{size} bytes" + (f" at offset {offset}" if offset >= 0 else "")


def _check_block(name: str, function: Function, block: tuple[int, int, int]) -> None:
    """Raise `CompileError` if a function cannot be launched with the header's block."""
    asked, exact = (" x ".join(map(str, extents)) for extents in (block, function.exact_block))
    if exact and exact != asked:
        raise CompileError(
            f"{name} is compiled for blocks of {exact} threads; expected {asked}, the header's "
            "block"
        )
    threads, most = math.prod(block), math.prod(function.largest_block)
    if function.largest_block and threads > most:
        raise CompileError(
            f"{name} is compiled for at most {most} threads a block (__launch_bounds__); expected "
            f"{threads} or more, the header's block"
        )
