"""Read and check the claims of `config/claims.yaml`."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ladder.core import yaml_schema
from ladder.core.errors import InputError
from ladder.storage.dataset_layout import CLAIMS

SIGN, NEAR, COUNT = "sign", "near", "count"
"""How a claim is tested: a ratio is above or below 1 as the published one is; it is near the
published one; rows are few.
"""
NOTHING = "not measured yet"
"""The state of an item that the data lack."""
IDENTITY = {
    "best": ("kernel", "element_type", "problem", "state"),
    "pairs": ("pair", "kernel", "other", "element_type", "problem", "state"),
}
"""The columns of each table that identify a row with a ratio."""
Key = tuple[str, ...]
"""The key of an item, the values of `IDENTITY`. A claim about ratios has one item per row; one that
counts rows has one item, with an empty key.
"""
Columns = Mapping[str, Sequence[str]]
"""Columns with the values that a row may have in them."""


@dataclass(frozen=True)
class Claim:
    """A claim; the fields are the keys of config/README.md."""

    id: str
    says: str
    where: Mapping[str, str]
    table: str
    test: str
    rows: Columns = field(default_factory=dict)
    over: float = 0
    up_to: float = math.inf
    which: Columns = field(default_factory=dict)
    share: float = 0

    @property
    def fixed(self) -> bool:
        """Whether some published data fix what is claimed, and only the others are tested."""
        return self.test == NEAR or self.over > 0

    def item(self, key: Key) -> dict[str, str]:
        """Return the columns of a key."""
        return dict(zip(IDENTITY[self.table], key, strict=True)) if key else {}

    def own(self, key: Key) -> dict[str, str]:
        """Return the columns of a key in which the claim's items differ."""
        return {
            name: value for name, value in self.item(key).items() if self.rows.get(name) != [value]
        }

    @property
    def place(self) -> str:
        """The place where the claim holds, as text."""
        if "device" in self.where:
            return self.where["device"]
        if "compute_capability" in self.where:
            return f"any GPU of compute capability {self.where['compute_capability']}"
        return {"cuda": "any GPU", "cpu": "any CPU", "": "any machine"}[self.where.get("kind", "")]

    def applies(self, environment: Mapping[str, Any]) -> bool:
        """Return whether the claim holds in the environment of a measurement."""
        known = {**environment.get("attributes", {}), **environment}
        return all(str(known.get(name)) == value for name, value in self.where.items())


def columns(data: Mapping[str, Any]) -> Columns:
    """Return columns with lists of their values as text: the data may have a single value."""
    return {
        name: [str(value) for value in (values if isinstance(values, list) else [values])]
        for name, values in data.items()
    }


def read(root: Path) -> list[Claim]:
    """Return the claims of a checkout. Raises `InputError` that names the claim and the key of a
    mistake.
    """
    data = yaml_schema.load(yaml_schema.read(root / CLAIMS), str(CLAIMS))
    yaml_schema.check(data, "claims", str(CLAIMS))
    for id, count in Counter(keys["id"] for keys in data).items():
        if count > 1:
            raise InputError(f"{CLAIMS}: id: got {id!r} twice; expected each once")
    for keys in data:
        keys |= {name: columns(keys.get(name, {})) for name in ("rows", "which")}
    return [Claim(**keys) for keys in data]
