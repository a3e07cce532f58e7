"""The claims of `config/claims.yaml`, read and checked."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ladder.core import yaml_schema
from ladder.core.errors import InputError
from ladder.core.expressions import names_in
from ladder.storage.dataset_layout import CLAIMS

IDENTITY = ("pair", "kernel", "other", "element_type", "problem", "state")
"""Columns that say what a row is about."""

Key = tuple[str, ...]
"""What tells the things that a claim is about apart."""


@dataclass(frozen=True)
class Claim:
    """One claim; the fields are the keys of config/README.md."""

    id: str
    says: str
    where: Mapping[str, str]
    value: str
    holds: str
    said_in: Sequence[str]
    table: str = ""
    study: str = ""
    list: str = ""
    rows: Mapping[str, Any] = field(default_factory=dict)
    which: Mapping[str, Any] | None = None
    low: str = ""
    high: str = ""
    when: str = ""
    fails: str = ""

    @property
    def whole(self) -> bool:
        """Whether it is about all rows together, not about each."""
        return self.which is not None or (bool(self.study) and not self.list)

    @property
    def single(self) -> bool:
        """Whether it is about one thing, which its `rows` name."""
        return {"kernel", "problem"} <= set(self.rows) and not any(isinstance(value, list) for value in self.rows.values())

    @property
    def near(self) -> bool:
        """Whether it is about being near to what was published."""
        return "near_low" in names_in(self.holds)

    @property
    def relative(self) -> bool:
        """Whether it is about what was published."""
        return bool(self.when) or self.near or "published" in names_in(self.holds)

    @property
    def place(self) -> str:
        """Where it holds, in words."""
        if "device" in self.where:
            return self.where["device"]
        if "compute_capability" in self.where:
            return f"any GPU of compute capability {self.where['compute_capability']}"
        return {"cuda": "any GPU", "cpu": "any CPU", "": "any machine"}[self.where.get("kind", "")]

    def applies(self, environment: Mapping[str, Any]) -> bool:
        """Whether it holds where something was measured."""
        known = {**environment.get("attributes", {}), **environment}
        return all(str(known.get(name)) == value for name, value in self.where.items())


def read(root: Path) -> list[Claim]:
    """The claims of a checkout. Raises `InputError` that names the claim and the key of a mistake."""
    path = root / CLAIMS
    data = yaml_schema.load(yaml_schema.read(path), str(CLAIMS))
    yaml_schema.check(data, "claims", str(CLAIMS))
    claims = [
        Claim(**given | {name: str(given[name]) for name in ("value", "low", "high", "when", "holds", "fails") if name in given})
        for given in data
    ]
    twice = [id for id, count in Counter(claim.id for claim in claims).items() if count > 1]
    if twice:
        raise InputError(f"{CLAIMS}: id: got {twice[0]!r} twice; expected each once")
    for claim in claims:
        for name in ("value", "low", "high", "when", "holds", "fails"):
            try:
                names_in(getattr(claim, name) or 0)
            except InputError as error:
                raise InputError(f"{CLAIMS}: {claim.id}: {name}: {error}") from None
    return claims
