"""Translate a Triton kernel into PTX, in Triton's own environment: `python -I triton_child.py 90 <
request.json`, into made.json.

The request is `Kernel.source` of a Triton kernel. Triton interprets the text of `@triton.jit`
functions, and calls every host function that the text can reach: `tl.core.inspect.os.system(…)` in
a kernel runs. `check` therefore allows only what a kernel needs. It finds mistakes and what would
leave stale results; it is no sandbox. Imports nothing of the project, and needs no GPU and no
torch.
"""

import ast
import json
import re
import sys
from pathlib import Path

ARGUMENTS = ("M", "N", "K", "alpha", "A", "lda", "B", "ldb", "beta", "C", "ldc")
TYPES = {"float32": "fp32", "float64": "fp64", "float16": "fp16", "bfloat16": "bf16"}
OPTIONS = {"WARPS": "num_warps", "STAGES": "num_stages"}
"""Parameters that Triton's compiler gets as options."""
PTX_VERSION = 90
"""The newest that ptxas of CUDA 13.0 reads."""
IMPORTS = ("import triton", "import triton.language as tl")
ALLOWED = {
    "abs",
    "advance",
    "arange",
    "assume",
    "bfloat16",
    "broadcast",
    "broadcast_to",
    "cast",
    "cat",
    "cdiv",
    "clamp",
    "constexpr",
    "dot",
    "exp",
    "exp2",
    "expand_dims",
    "flip",
    "float16",
    "float32",
    "float64",
    "fma",
    "full",
    "gather",
    "int1",
    "int16",
    "int32",
    "int64",
    "int8",
    "interleave",
    "join",
    "load",
    "log",
    "log2",
    "make_block_ptr",
    "max",
    "max_constancy",
    "max_contiguous",
    "maximum",
    "min",
    "minimum",
    "multiple_of",
    "num_programs",
    "permute",
    "program_id",
    "range",
    "ravel",
    "reshape",
    "rsqrt",
    "split",
    "sqrt",
    "static_assert",
    "static_range",
    "store",
    "sum",
    "swizzle2d",
    "trans",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "umulhi",
    "view",
    "where",
    "zeros",
    "zeros_like",
}
"""Functions and types of `triton.language` in kernels."""
REFUSED = {
    "make_tensor_descriptor": "tensor descriptors need scratch memory that Triton allocates",
    "inline_asm_elementwise": "inline assembly can do anything to memory",
}
BUILTINS = ("min", "max", "range", "len", "int", "float", "bool", "True", "False", "None")
METADATA = {
    "num_ctas": (1, "cluster launch"),
    "launch_cooperative_grid": (False, "cooperative launch"),
    "launch_pdl": (False, "programmatic dependent launch"),
    "tensordesc_meta": ([], "tensor descriptors made by the host"),
    "global_scratch_size": (0, "scratch memory"),
    "profile_scratch_size": (0, "profiling"),
}
"""What a kernel must not ask its launcher for, with the only value allowed and its name in
messages.
"""


def refuse(line: int, why: str) -> None:
    """End the process with a message about a line."""
    sys.exit(f"line {line}: {why}")


def check(text: str) -> None:
    """End the process if the file has more than imports of Triton, constants and `@triton.jit`
    functions.
    """
    tree = ast.parse(text)
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for statement in tree.body:
        _check_statement(statement)
    _check_names(tree, functions)


def _check_statement(node: ast.stmt) -> None:
    if isinstance(node, ast.Import | ast.ImportFrom):
        if ast.unparse(node) not in IMPORTS:
            refuse(node.lineno, f"got {ast.unparse(node)}; expected {' and '.join(IMPORTS)} only")
    elif isinstance(node, ast.FunctionDef):
        _check_function(node)
    elif isinstance(node, ast.Assign):
        value = node.value
        if (
            isinstance(value, ast.Call)
            and ast.unparse(value.func) == "tl.constexpr"
            and len(value.args) == 1
        ):
            value = value.args[0]
        if not isinstance(value, ast.Constant) or not all(
            isinstance(target, ast.Name) for target in node.targets
        ):
            refuse(node.lineno, "expected a name and a constant")
    elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        refuse(
            node.lineno,
            f"got {ast.unparse(node)[:60]}; expected imports, constants and functions with "
            "@triton.jit",
        )


def _check_names(tree: ast.Module, functions: set[str]) -> None:
    names = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    names |= (
        {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        | functions
        | {*BUILTINS, "triton", "tl"}
    )
    whole = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if node.id not in names:
                refuse(
                    node.lineno,
                    f"got {node.id}; expected a name of the kernel or one of {', '.join(BUILTINS)}",
                )
            if node.id in ("triton", "tl") and (
                id(node) not in whole or isinstance(node.ctx, ast.Store)
            ):
                refuse(node.lineno, f"got {node.id} by itself; expected {node.id}.NAME")
        elif isinstance(node, ast.Attribute):
            _check_attribute(node)
        elif isinstance(node, ast.Import | ast.ImportFrom) and node not in tree.body:
            refuse(node.lineno, "expected imports at the beginning only")


def _check_function(node: ast.FunctionDef) -> None:
    if [ast.unparse(decorator) for decorator in node.decorator_list] != ["triton.jit"]:
        refuse(node.lineno, f"{node.name}: expected the decorator @triton.jit and no other")
    for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
        if not isinstance(default, ast.Constant):
            refuse(default.lineno, "expected defaults to be constants")
    for argument in [*node.args.args, *node.args.kwonlyargs]:
        if argument.annotation and ast.unparse(argument.annotation) != "tl.constexpr":
            refuse(argument.lineno, "expected no annotation but tl.constexpr")


def _check_attribute(node: ast.Attribute) -> None:
    name, root = ast.unparse(node), ast.unparse(node.value)
    if root == "tl" and node.attr in REFUSED:
        refuse(node.lineno, f"got {name}: {REFUSED[node.attr]}")
    if (
        node.attr.startswith("_")
        or (root.startswith(("tl.", "triton.")) and isinstance(node.value, ast.Attribute))
        or (root == "tl" and node.attr not in ALLOWED)
        or (root == "triton" and node.attr not in ("jit", "cdiv"))
    ):
        refuse(
            node.lineno,
            f"got {name}; expected a function or type of triton.language that kernels use",
        )


def main(capability: int) -> None:
    """Read the request, and write made.json: the PTX, its architecture and the shared memory it
    needs.
    """
    request = json.loads(sys.stdin.read())
    check(request["text"])
    path = Path("kernel.py")
    path.write_text(request["text"])
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    sys.path.insert(0, "")  # Triton wants the text of a function, so it has to be of a module
    gemm = getattr(__import__("kernel"), "gemm", None)
    if not isinstance(gemm, triton.JITFunction):
        sys.exit("no function gemm; expected one with @triton.jit")
    parameters, names = request["parameters"], tuple(gemm.arg_names)
    constants = {name: value for name, value in parameters.items() if name not in OPTIONS}
    if names[: len(ARGUMENTS)] != ARGUMENTS or set(names[len(ARGUMENTS) :]) != set(constants):
        expected = ", ".join([*ARGUMENTS, *(f"{name}: tl.constexpr" for name in constants)])
        sys.exit(f"gemm takes {', '.join(names)}; expected {expected}")
    element = TYPES[request["element_type"]]
    signature = (
        dict.fromkeys(names, "i32")
        | dict.fromkeys("ABC", f"*{element}")
        | dict.fromkeys(constants, "constexpr")
    )
    signature |= dict.fromkeys(("alpha", "beta"), "fp64" if element == "fp64" else "fp32")
    divisible = {(names.index(name),): [["tt.divisibility", 16]] for name in request["multiples"]}
    options = {OPTIONS[name]: value for name, value in parameters.items() if name in OPTIONS} | {
        "ptx_version": PTX_VERSION
    }
    try:
        made = triton.compile(
            ASTSource(gemm, signature, constants, divisible),
            GPUTarget("cuda", capability, 32),
            options,
        )
    except triton.CompilationError as error:
        sys.exit(str(error))
    for name, (value, feature) in METADATA.items():
        if getattr(made.metadata, name, value) != value:
            sys.exit(
                f"the kernel uses {feature}, which the pipeline does not offer: {name} is "
                f"{getattr(made.metadata, name)}"
            )
    # Triton's launcher passes two pointers more, to the two scratch memories, which have no bytes
    ptx, removed = re.subn(
        r",\s*\.param \.u64[^,)]*gemm_param_11,\s*\.param \.u64[^,)]*gemm_param_12\b",
        "",
        made.asm["ptx"],
    )
    if removed != 1:
        sys.exit(
            "expected Triton's two scratch pointers after the arguments of gemm, as Triton "
            f"{triton.__version__} has them"
        )
    arch = ptx.partition("\n.target ")[2].split()[0]
    Path("made.json").write_text(
        json.dumps({"ptx": ptx, "arch": arch, "shared": made.metadata.shared})
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
