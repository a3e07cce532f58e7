"""Read and check the claims of `config/claims.yaml`."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ladder.core import yaml_schema
from ladder.core.errors import InputError
from ladder.core.expressions import names_in
from ladder.storage.dataset_layout import CLAIMS

IDENTITY = ("pair", "kernel", "other", "element_type", "problem", "state")
"""The columns that identify a row."""

NOTHING = "not measured yet"
"""The state of an item that the data lack."""
Key = tuple[str, ...]
"""The key of an item. A claim about many rows has one item per row; any other claim has one
item.
"""


@dataclass(frozen=True)
class Claim:
    """A claim; the fields are the keys of config/README.md."""

    id: str
    says: str
    where: Mapping[str, str]
    table: str
    value: str
    holds: str
    rows: Mapping[str, Any] = field(default_factory=dict)
    which: Mapping[str, Any] | None = None
    low: str = ""
    high: str = ""
    when: str = ""
    fails: str = ""

    @property
    def whole(self) -> bool:
        """Whether the claim is about all rows together, not about each row."""
        return self.which is not None

    @property
    def single(self) -> bool:
        """Whether the claim is about the one row that its `rows` name."""
        return {"kernel", "problem"} <= set(self.rows) and not any(
            isinstance(value, list) for value in self.rows.values()
        )

    @property
    def near(self) -> bool:
        """Whether the claim says that a value is near the published one."""
        return "near_low" in names_in(self.holds)

    @property
    def relative(self) -> bool:
        """Whether the claim refers to published values."""
        return bool(self.when) or self.near or "published" in names_in(self.holds)

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


def read(root: Path) -> list[Claim]:
    """Return the claims of a checkout. Raises `InputError` that names the claim and the key of a
    mistake.
    """
    path = root / CLAIMS
    data = yaml_schema.load(yaml_schema.read(path), str(CLAIMS))
    yaml_schema.check(data, "claims", str(CLAIMS))
    claims = [
        Claim(
            **given
            | {
                name: str(given[name])
                for name in ("value", "low", "high", "when", "holds", "fails")
                if name in given
            }
        )
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
