"""Faults planted in our kernels in PTX and Triton, and what the gauntlet must say of each."""

from dataclasses import dataclass
from pathlib import Path

from ladder.core.places import HOME
from planted import written

PTX, TRITON = "64_ptx.ptx", "65_triton.py"


@dataclass(frozen=True)
class Planted:
    """A fault of a kernel of ours."""

    file: str
    what: str
    edits: dict[str, str]
    """Pieces of the text, and what stands in their place."""
    reason: str
    """A regular expression that the verdict's reason matches; its status is `incorrect`."""

    def write(self, folder: Path) -> Path:
        """Write the kernel with its fault below a folder of kernels; return its path."""
        text = (HOME / "kernels" / "cuda" / self.file).read_text()
        for right, wrong in self.edits.items():
            assert right in text, self
            text = text.replace(right, wrong, 1)
        return written(folder / "cuda" / self.file, text)


PLANTED = (
    Planted(PTX, "a leading dimension ignored", {"[lda];": "[K];"}, "padding"),
    Planted(
        PTX,
        "a guard left out",
        {"setp.ge.u32 %out, %col, %word;": "setp.gt.u32 %out, %col, %word;"},
        "outside C|exact|NaN",
    ),
    Planted(PTX, "C read although beta is 0", {"@%fresh bra store;": ""}, "NaN"),
    Planted(
        PTX,
        "sums cut off, not rounded",
        {"fma.rn.f32 %sum, %left": "fma.rz.f32 %sum, %left"},
        "Frobenius error",
    ),
    Planted(
        PTX,
        "a count that outlives a launch",
        {
            ".address_size 64": ".address_size 64\n.global .u32 calls;",
            "store:": "  atom.global.add.u32 %word, [calls], 1;\nstore:",
        },
        "calls: state on the device that outlives a launch",
    ),
    Planted(TRITON, "TF32 where float32 was asked for", {'"ieee"': '"tf32"'}, "exact"),
    Planted(
        TRITON,
        "a leading dimension ignored",
        {"* ldb + col": "* N + col", "* ldb.to(tl.int64)": "* N"},
        "padding",
    ),
    Planted(
        TRITON, "a mask left out", {"inside = rows & cols": "inside = rows"}, "outside C|exact|NaN"
    ),
    Planted(
        TRITON, "the last step of K left out", {"range(0, K if": "range(0, K - BK if"}, "exact"
    ),
)
