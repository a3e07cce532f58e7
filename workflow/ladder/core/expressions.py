"""Arithmetic expressions of kernel headers, evaluated without `eval`.

The language: integers and floats, names, `+ - * / // % **`, comparisons (chained too), `and or
not`, `x if c else y`,
`ceil_div(a, b)`, `min(...)`, `max(...)`. Division by zero, unknown names and results past 2**63 are
errors.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from ladder.core.errors import InputError

Number = int | float | bool

MAX_LENGTH = 1000
"""The most characters of an expression. The parser's own recursion limit lies far beyond."""
MAX_DEPTH = 40
LIMIT = 2**63


def ceil_div(a: int, b: int) -> int:
    """Return the least integer not below `a / b`."""
    return -(-a // b)


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}
_COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CPP: dict[type, str] = {
    ast.Add: "({} + {})",
    ast.Sub: "({} - {})",
    ast.Mult: "({} * {})",
    ast.Div: "({} / {})",
    ast.FloorDiv: "floor_div({}, {})",
    ast.Mod: "mod({}, {})",
    ast.Pow: "std::pow({}, {})",
    ast.USub: "(-{})",
    ast.UAdd: "(+{})",
    ast.Not: "double(!{})",
    ast.Eq: "{} == {}",
    ast.NotEq: "{} != {}",
    ast.Lt: "{} < {}",
    ast.LtE: "{} <= {}",
    ast.Gt: "{} > {}",
    ast.GtE: "{} >= {}",
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"ceil_div": ceil_div, "min": min, "max": max}


@lru_cache(maxsize=4096)
def _parse(text: str) -> ast.expr:
    if len(text) > MAX_LENGTH:
        raise InputError(
            f"the expression has {len(text)} characters; at most {MAX_LENGTH} are allowed"
        )
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"`{text}` is not an expression: {error}") from None
    _check(tree, text, 0)
    return tree


def _check(node: ast.expr, text: str, depth: int) -> None:
    """Refuse every construct outside the language before anything is computed."""
    if depth > MAX_DEPTH:
        raise InputError(f"`{text}` is nested more than {MAX_DEPTH} deep")
    match node:
        case ast.Constant(value=int() | float()) | ast.Name():
            parts: list[ast.expr] = []
        case ast.BinOp(left, op, right) if type(op) in _BINARY:
            parts = [left, right]
        case ast.UnaryOp(op, operand) if type(op) in _UNARY:
            parts = [operand]
        case ast.BoolOp(_, values):
            parts = values
        case ast.Compare(left, ops, comparators) if all(type(op) in _COMPARE for op in ops):
            parts = [left, *comparators]
        case ast.IfExp(test, body, orelse):
            parts = [test, body, orelse]
        case ast.Call(ast.Name(name), args, []) if name in _FUNCTIONS:
            if len(args) < 2 or (name == "ceil_div" and len(args) != 2):
                raise InputError(
                    f"`{text}`: {name} takes {'two' if name == 'ceil_div' else 'two or more'} "
                    "arguments"
                )
            parts = args
        case _:
            raise InputError(
                f"`{text}`: `{ast.get_source_segment(text.strip(), node)}` is not allowed in an "
                "expression"
            )
    for part in parts:
        _check(part, text, depth + 1)


def _value(node: ast.expr, names: Mapping[str, Number]) -> Any:
    match node:
        case ast.Constant(value):
            result: Any = value
        case ast.Name(name):
            if name not in names:
                raise InputError(
                    f"unknown name `{name}`; known: {', '.join(sorted(names)) or 'none'}"
                )
            result = names[name]
        case ast.BinOp(left, op, right):
            a, b = _value(left, names), _value(right, names)
            if isinstance(op, ast.Pow) and not (0 <= b <= 64 and abs(a) <= LIMIT):
                raise InputError(f"the exponent {b} is outside 0..64")
            result = _BINARY[type(op)](a, b)
        case ast.UnaryOp(op, operand):
            result = _UNARY[type(op)](_value(operand, names))
        case ast.BoolOp(op, values):
            result = (
                all(_value(v, names) for v in values)
                if isinstance(op, ast.And)
                else any(_value(v, names) for v in values)
            )
        case ast.Compare(left, ops, comparators):
            result, a = True, _value(left, names)
            for compare, right in zip(ops, comparators, strict=True):
                b = _value(right, names)
                result, a = result and _COMPARE[type(compare)](a, b), b
        case ast.IfExp(test, body, orelse):
            result = _value(body if _value(test, names) else orelse, names)
        case ast.Call(ast.Name(name), args):
            result = _FUNCTIONS[name](*(_value(arg, names) for arg in args))
        case _:  # pragma: no cover - _check refuses every other node
            raise AssertionError(ast.dump(node))
    if not -LIMIT < result < LIMIT:  # NaN and infinities fail too
        raise InputError(f"`{ast.unparse(node)}` is outside the range of 64-bit integers")
    return result


def names_in(expression: str | int | float) -> set[str]:
    """Return the names an expression refers to. Raises `InputError` if it is not an expression."""
    return set(_names_in(str(expression)))


@lru_cache(maxsize=4096)
def _names_in(text: str) -> frozenset[str]:
    nodes = list(ast.walk(_parse(text)))
    called = {
        node.func.id
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return frozenset(node.id for node in nodes if isinstance(node, ast.Name)) - called


def evaluate(expression: str | int | float, names: Mapping[str, Number]) -> Number:
    """Return the value of `expression`; `names` maps each name to its value.

    Raises `InputError` for anything outside the language, an unknown name, a division by zero, or
    an absolute value of 2**63 or more.
    """
    try:
        result: Number = _value(_parse(str(expression)), names)
    except InputError as error:
        raise InputError(
            f"expression `{expression}`: {error}"
            if str(expression) not in str(error)
            else str(error)
        ) from None
    except OverflowError:
        raise InputError(
            f"expression `{expression}`: a value in it is outside the range of 64-bit integers"
        ) from None
    except (ArithmeticError, TypeError, ValueError) as error:
        raise InputError(f"expression `{expression}`: {error}") from None
    return result


def evaluate_int(expression: str | int | float, names: Mapping[str, Number]) -> int:
    """Return the value of an expression that is a count. Raises `InputError` as `evaluate` does, or
    if the value is not a whole number.
    """
    value = evaluate(expression, names)
    if value != int(value):
        raise InputError(f"expression `{expression}` gives {value}; expected a whole number")
    return int(value)


def cpp(expression: str | int | float) -> str:
    """Return the expression in C++, on doubles. `floor_div`, `ceil_div` and `mod` are functions
    that the code around it has.
    """
    return _cpp(_parse(str(expression)))


def _cpp(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=int() | float() as value):
            return repr(float(value))
        case ast.Name(name):
            return name
        case ast.BinOp(left, op, right):
            return _CPP[type(op)].format(_cpp(left), _cpp(right))
        case ast.UnaryOp(unary, operand):
            return _CPP[type(unary)].format(_cpp(operand))
        case ast.BoolOp(joint, values):
            return f"double({(' && ' if isinstance(joint, ast.And) else ' || ').join(map(_cpp, values))})"
        case ast.Compare(left, ops, rights):
            pairs = zip([left, *rights], ops, rights, strict=False)
            return f"double({' && '.join(_CPP[type(compare)].format(_cpp(a), _cpp(b)) for a, compare, b in pairs)})"
        case ast.IfExp(test, body, orelse):
            return f"({_cpp(test)} ? {_cpp(body)} : {_cpp(orelse)})"
        case ast.Call(ast.Name("ceil_div"), args):
            return f"ceil_div({', '.join(map(_cpp, args))})"
        case ast.Call(ast.Name(name), args):
            return f"std::{name}<double>({{{', '.join(map(_cpp, args))}}})"
    raise AssertionError(ast.dump(node))  # pragma: no cover - _check refuses every other node
