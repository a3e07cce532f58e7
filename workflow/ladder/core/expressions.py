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
TOO_LARGE = "is outside the range of 64-bit integers"


def ceil_div(a: int, b: int) -> int:
    """Return the least integer not below `a / b`."""
    return -(-a // b)


_OPERATORS: dict[type, tuple[Callable[..., Any], str]] = {
    ast.Add: (operator.add, "({} + {})"),
    ast.Sub: (operator.sub, "({} - {})"),
    ast.Mult: (operator.mul, "({} * {})"),
    ast.Div: (operator.truediv, "({} / {})"),
    ast.FloorDiv: (operator.floordiv, "floor_div({}, {})"),
    ast.Mod: (operator.mod, "mod({}, {})"),
    ast.Pow: (operator.pow, "std::pow({}, {})"),
    ast.USub: (operator.neg, "(-{})"),
    ast.UAdd: (operator.pos, "(+{})"),
    ast.Not: (operator.not_, "double(!{})"),
    ast.Eq: (operator.eq, "{} == {}"),
    ast.NotEq: (operator.ne, "{} != {}"),
    ast.Lt: (operator.lt, "{} < {}"),
    ast.LtE: (operator.le, "{} <= {}"),
    ast.Gt: (operator.gt, "{} > {}"),
    ast.GtE: (operator.ge, "{} >= {}"),
}
"""How each operator is computed, and its form in C++; in `_FUNCTIONS` each function."""
_FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "ceil_div": (ceil_div, "ceil_div({})"),
    "min": (min, "std::min<double>({{{}}})"),
    "max": (max, "std::max<double>({{{}}})"),
}
_SYNTAX = (
    ast.Name,
    ast.Load,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.And,
    ast.Or,
    ast.Compare,
    ast.IfExp,
    *_OPERATORS,
)
"""All that an expression may consist of, beside numbers and calls."""


@lru_cache(maxsize=4096)
def _parse(text: str) -> ast.expr:
    if len(text) > MAX_LENGTH:
        raise InputError(
            f"the expression has {len(text)} characters; at most {MAX_LENGTH} are allowed"
        )
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # YAML takes a comma in a list for the end of an element
        hint = "; in a list, one with a comma is written in quotes" if "(" in text else ""
        raise InputError(f"`{text}` is not an expression: {error}{hint}") from None
    _check(tree, text, 0)
    return tree


def _check(node: ast.AST, text: str, depth: int) -> None:
    """Refuse every construct outside the language before anything is computed."""
    if depth > MAX_DEPTH:
        raise InputError(f"`{text}` is nested more than {MAX_DEPTH} deep")
    match node:
        case ast.Constant(value=int() | float()):
            pass
        case ast.Call(ast.Name(name), args, []) if name in _FUNCTIONS:
            if len(args) < 2 or (name == "ceil_div" and len(args) > 2):
                raise InputError(f"`{text}`: {name} has {len(args)} arguments; expected two")
        case _ if not isinstance(node, _SYNTAX):
            part = ast.get_source_segment(text.strip(), node) or text
            raise InputError(f"`{text}`: `{part}` is not allowed in an expression")
    for child in ast.iter_child_nodes(node):
        _check(child, text, depth + 1)


def _value(node: ast.expr, names: Mapping[str, Number]) -> Any:
    match node:
        case ast.Constant(value):
            result: Any = value
        case ast.Name(name):
            result = names[name]
        case ast.BinOp(left, op, right):
            a, b = _value(left, names), _value(right, names)
            if isinstance(op, ast.Pow) and not (0 <= b <= 64 and abs(a) <= LIMIT):
                raise InputError(f"the exponent {b} is outside 0..64")
            result = _OPERATORS[type(op)][0](a, b)
        case ast.UnaryOp(op, operand):
            result = _OPERATORS[type(op)][0](_value(operand, names))
        case ast.BoolOp(op, values):
            every_or_some = all if isinstance(op, ast.And) else any
            result = every_or_some(_value(value, names) for value in values)
        case ast.Compare(left, ops, comparators):
            result, a = True, _value(left, names)
            for compare, right in zip(ops, comparators, strict=True):
                b = _value(right, names)
                result, a = result and _OPERATORS[type(compare)][0](a, b), b
        case ast.IfExp(test, body, orelse):
            result = _value(body if _value(test, names) else orelse, names)
        case ast.Call(ast.Name(name), args):
            result = _FUNCTIONS[name][0](*(_value(arg, names) for arg in args))
        case _:  # pragma: no cover - _check refuses every other node
            raise AssertionError(ast.dump(node))
    if not -LIMIT < result < LIMIT:  # NaN and infinities fail too
        raise InputError(f"`{ast.unparse(node)}` {TOO_LARGE}")
    return result


@lru_cache(maxsize=4096)
def names_in(expression: str | int | float) -> frozenset[str]:
    """Return the names an expression refers to. Raises `InputError` if it is not an expression."""
    nodes = ast.walk(_parse(str(expression)))
    return frozenset(node.id for node in nodes if isinstance(node, ast.Name)) - _FUNCTIONS.keys()


def evaluate(expression: str | int | float, names: Mapping[str, Number]) -> Number:
    """Return the value of `expression`; `names` maps each name to its value.

    Raises `InputError` for anything outside the language, an unknown name, a division by zero, or
    an absolute value of 2**63 or more.
    """
    if isinstance(expression, int) and -LIMIT < expression < LIMIT:
        return expression
    used = names_in(expression)
    if unknown := used - names.keys():
        reason = f"unknown name {', '.join(sorted(unknown))}; known: {', '.join(sorted(names))}"
        raise InputError(f"expression `{expression}`: {reason}")
    return _evaluated(str(expression), tuple(used), *(names[name] for name in used))


@lru_cache(maxsize=1 << 16, typed=True)
def _evaluated(text: str, names: tuple[str, ...], *values: Number) -> Number:
    """Return the value of an expression. A kernel's are evaluated for each of its configurations and
    problems, but few are of all of a problem's sizes and of all parameters.
    """
    try:
        result: Number = _value(_parse(text), dict(zip(names, values, strict=True)))
    except OverflowError:
        raise InputError(f"expression `{text}`: a value in it {TOO_LARGE}") from None
    except (InputError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"expression `{text}`: {error}") from None
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
            return _OPERATORS[type(op)][1].format(_cpp(left), _cpp(right))
        case ast.UnaryOp(unary, operand):
            return _OPERATORS[type(unary)][1].format(_cpp(operand))
        case ast.BoolOp(joint, values):
            sign = " && " if isinstance(joint, ast.And) else " || "
            return f"double({sign.join(map(_cpp, values))})"
        case ast.Compare(left, ops, rights):
            pairs = zip(ops, [left, *rights], rights, strict=False)
            tests = [_OPERATORS[type(op)][1].format(_cpp(a), _cpp(b)) for op, a, b in pairs]
            return f"double({' && '.join(tests)})"
        case ast.IfExp(test, body, orelse):
            return f"({_cpp(test)} ? {_cpp(body)} : {_cpp(orelse)})"
        case ast.Call(ast.Name(name), args):
            return _FUNCTIONS[name][1].format(", ".join(map(_cpp, args)))
    raise AssertionError(ast.dump(node))  # pragma: no cover - _check refuses every other node
