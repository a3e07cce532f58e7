"""Read the user's YAML and check it against a schema. Every message names the file, the key, the
value and what was expected.
"""

import json
import re
from collections.abc import Hashable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from ladder.core import store
from ladder.core.errors import InputError, one_of
from ladder.core.files import digest
from ladder.core.places import HOME

SCHEMAS = HOME / "workflow" / "schemas"
_AMBIGUOUS = re.compile(
    r"[-+]?0[0-9_]+|[-+]?[0-9][0-9_]*(:[0-9_.]+)+|[0-9]{4}-[0-9]{1,2}-[0-9].*"
    r"|[-+]?0x[0-9a-fA-F_]{99,}"
)
"""What YAML 1.1 reads as an octal number, a number to base 60, or a date: `010`, `1:30`,
`2024-11-29`. In YAML 1.2 none is that. And hexadecimal numbers that Python does not print.
"""
_TYPES = {
    "integer": lambda _, value: type(value) is int and abs(value) < 2**63,
    "number": lambda _, value: type(value) in (int, float) and abs(value) < 2**63,  # no NaN
}
_CODE = Path(__file__).read_text()


class _Loader(yaml.composer.Composer, yaml.CSafeLoader):
    """The safe loader, without what YAML accepts silently: duplicate keys, keys that are not text,
    and aliases, a few of which can stand for gigabytes.

    What is `_AMBIGUOUS` is text, so that a message shows it as it was written.

    Every job reads YAML, so the parser is libyaml's, which is fast. The composer above it is
    PyYAML's: libyaml's recurses without end.
    """

    def __init__(self, text: str) -> None:
        yaml.CSafeLoader.__init__(self, text)
        yaml.composer.Composer.__init__(self)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            alias: Any = self.peek_event()
            raise yaml.composer.ComposerError(
                None, None, "aliases (*) are not allowed", alias.start_mark
            )
        return super().compose_node(parent, index)

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
        resolve: Any = super().resolve
        ambiguous = kind is yaml.ScalarNode and _AMBIGUOUS.fullmatch(value)
        return self.DEFAULT_SCALAR_TAG if ambiguous else resolve(kind, value, implicit)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        seen: set[str] = set()
        for key in keys:
            if not isinstance(key, str) or key in seen:
                fault = "is given twice" if isinstance(key, str) else "is not text"
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key} {fault}", node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


# as in YAML 1.2; YAML 1.1 wants a point in it
_SMALL = re.compile(r"[-+]?[0-9]+e-[0-9]+")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _SMALL, list("-+0123456789"))


def read(path: Path) -> str:
    """Return the text of a user's file. Raises `InputError` if it cannot be read as UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors write a byte order mark first
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", error)
        raise InputError(f"{path}: cannot be read: {why}; expected text in UTF-8") from None


def load(text: str, source: str) -> Any:
    """Return the data in the YAML `text`. Messages call it `source`. Raises `InputError` if it is
    not valid YAML.

    What was read before is taken from the store: each start reads the same headers and campaigns.
    """
    key = digest(["read", _CODE, text])
    if kept := store.take(key):
        return json.loads(kept)
    try:
        data = _Loader(text).get_single_data()
    # a value that contradicts its tag, such as `!!int x`, makes PyYAML raise any exception
    except Exception as error:
        # what libyaml calls the text; `source` names it
        message = str(error).replace('in "<unicode string>", ', "")
        raise InputError(f"{source}: not valid YAML: {message}") from None
    with suppress(TypeError, ValueError):  # bytes and sets are no JSON, nor are endless numbers
        kept = json.dumps(data).encode()
        store.keep(key, kept)
        data = json.loads(kept)  # as the next read gets it
    return data


@lru_cache
def _schema(name: str) -> str:
    """Return the text of a schema in `schemas/`."""
    (path,) = SCHEMAS.glob(f"{name}.schema.*")  # JSON is YAML too
    return path.read_text()


@lru_cache
def _validator(schema: str) -> Any:
    # imported only for data that were not checked before
    from jsonschema import Draft202012Validator as Draft
    from jsonschema import validators

    extend: Any = validators.extend  # the draft takes 64.0 for a whole number
    strict = extend(Draft, type_checker=Draft.TYPE_CHECKER.redefine_many(_TYPES))
    return strict(load(_schema(schema), schema))


def check(data: Any, schema: str, source: str) -> None:
    """Raise `InputError` with every violation of a schema in `schemas/`, one per line. Data in
    which it found none before are not checked again.
    """
    key = digest(["checked", _CODE, _schema(schema), repr(data)])
    if store.take(key):
        return
    errors = sorted(
        _validator(schema).iter_errors(data),
        key=lambda error: [str(part) for part in error.absolute_path],
    )
    if errors:
        raise InputError("\n".join(dict.fromkeys(_complaint(error, source) for error in errors)))
    store.keep(key, b"valid")


def _complaint(error: Any, source: str) -> str:
    path = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path
    ).lstrip(".")
    where = f"{source}: {path}: " if path else f"{source}: "
    expected = error.schema.get("description", f"{error.validator} {error.validator_value}")
    if error.validator == "additionalProperties":
        known = sorted(error.schema.get("properties", {}))
        unknown = [key for key in error.instance if key not in known]
        return f"{where}unknown key {', '.join(map(repr, unknown))}; {one_of(unknown[0], known)}"
    if error.validator == "required":
        missing = [key for key in error.validator_value if key not in error.instance]
        return f"{where}missing key {', '.join(missing)}; expected {expected}"
    once = ", each once" if error.validator == "uniqueItems" else ""
    return f"{where}got {shorten(error.instance)}; expected {expected}{once}"


def typed(value: Any) -> Any:
    """Return `value` with numbers, true and false parsed as YAML does: `--config` of Snakemake
    leaves them as text in lists and mappings.
    """
    match value:
        case dict():
            return {key: typed(part) for key, part in value.items()}
        case list():
            return [typed(part) for part in value]
        case str():
            try:
                read = load(value, "")
            except InputError:
                return value
            return read if isinstance(read, int | float) else value
    return value


def shorten(value: Any, limit: int = 80) -> str:
    """Return `value` as JSON, cut to `limit` characters, for a message."""
    text = json.dumps(value, default=str)
    return text if len(text) <= limit else text[: limit - 1] + "…"
