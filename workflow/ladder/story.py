"""Fill in what docs/ladder.md takes from the published data: `python -m ladder.story` rewrites the file in place.

Such a part stands between `<!-- table: NAME ARGUMENTS -->`, or `<!-- value: … -->` within a line, and `<!-- end -->`. All else is written by
hand and holds no number of ours, so the text cannot contradict the data.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ladder.environment import ROOT
from ladder.expressions import evaluate, evaluate_int
from ladder.figures import BASELINE_NAME, Dataset
from ladder.jobs import clear_errors
from ladder.kernels import Configuration, Kernel, discover
from ladder.statistics import geometric_mean
from ladder.tables import is_baseline, read_csv
from ladder.units import KINDS, InputError

DOCUMENT = ROOT / "docs" / "ladder.md"
NOTHING = "not measured yet"
PART = re.compile(r"<!-- (table|value): ([^>]+?) -->.*?<!-- end -->", re.DOTALL)

Row = Mapping[str, Any]


class Story:
    """The kernels of a checkout and what is published of them: the first dataset of each device kind, warm, in float32."""

    def __init__(self, root: Path) -> None:
        self.kernels = {kernel.name: kernel for kernel in discover(root).values()}
        self.data: dict[str, Dataset] = {}
        for path in sorted((root / "results" / "published").glob("*/environment.json")):
            environment = json.loads(path.read_text())
            summary, best = (read_csv(path.with_name(f"{name}.csv")) for name in ("summary", "best"))
            summary, best = (table[table["element_type"] == "float32"].astype({"problem": str}) for table in (summary, best))
            self.data.setdefault(environment["kind"], Dataset(summary, best, summary, environment, "warm"))

    def ladder(self, kind: str) -> list[str]:
        """The names of a kind's kernels in their order."""
        return [name for name, kernel in self.kernels.items() if kernel.kind == kind]

    def dataset(self, kernel: str) -> Dataset | None:
        """What is published about devices of the kernel's kind."""
        return self.data.get(self.kernels[kernel].kind) if kernel in self.kernels else None

    def best(self, kernel: str, problem: str, data: Dataset | None = None) -> Row | None:
        """The kernel's best configuration on a problem."""
        data = data or self.dataset(kernel)
        if data is None:
            return None
        rows = data.best[(data.best["kernel"] == kernel) & (data.best["problem"] == problem)].to_dict("records")
        return rows[0] if rows else None

    def gain(self, kernel: str, problem: str) -> float | None:
        """How many times as fast as the rung below the kernel is, each at its best."""
        below = self.below(kernel)
        mine, theirs = self.best(kernel, problem), self.best(below, problem) if below else None
        return mine["tflops"] / theirs["tflops"] if mine and theirs else None

    def below(self, kernel: str) -> str | None:
        """The rung below."""
        ladder = self.ladder(self.kernels[kernel].kind) if kernel in self.kernels else []
        index = ladder.index(kernel) if ladder else 0
        return ladder[index - 1] if index else None


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[int] = (0,)) -> str:
    """A Markdown table; the columns `words` hold words and are set left, the others numbers, set right."""
    if not rows:
        return NOTHING.capitalize() + "."
    places = [i % len(columns) for i in words]
    lines = [columns, ["---" if i in places else "---:" for i in range(len(columns))], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _unmeasured(name: str, columns: int) -> list[str]:
    return [name, NOTHING, *["–"] * (columns - 2)]


def _number(value: float | None, sign: str = "") -> str:
    if value is None:
        return "–"
    return f"{sign}{value:,.0f}" if abs(value) >= 100 or isinstance(value, int) else f"{sign}{value:#.3g}"


def _percent(value: float) -> str:
    return f"{_number(100 * value)} %"


def _shown(problem: str) -> str:
    return problem.replace("x", " × ")


def _code(kernel: str) -> str:
    return BASELINE_NAME.get(kernel, f"`{kernel}`")


def _parameters(row: Row) -> dict[str, int]:
    """`BM=64 BN=32` as names and values."""
    pairs = [pair.split("=") for pair in str(row["configuration"]).split() if "=" in pair]
    return {name: int(value) for name, value in pairs}


def _names(kernel: Kernel, row: Row) -> dict[str, Any]:
    """The names of the header's expressions for a configuration and its problem."""
    m, n, k = row["m"], row["n"], row["k"]
    configuration = Configuration(row["element_type"], tuple(_parameters(row).items()))
    return {**configuration.names(), "M": m, "N": n, "K": k, "lda": k, "ldb": n, "ldc": n}


def _lacks(kernel: Kernel) -> str:
    """What the kernel's own comment says holds it back."""
    words = []
    for line in kernel.text.partition("What holds it back:")[2].splitlines():
        words.append(line.strip().removeprefix("//").removeprefix("*").removesuffix("*/").strip())
        if not words[-1] or line.rstrip().endswith("*/"):
            break
    return " ".join(filter(None, words)).replace("*", r"\*") or "–"


def device(story: Story, kind: str) -> str:
    """What was measured on."""
    if kind not in story.data:
        return NOTHING.capitalize() + "."
    data = story.data[kind]
    e = data.environment
    attributes, project = e["attributes"], e["project"]
    facts = {
        "device": e["name"],
        "multiprocessors (SMs)": attributes.get("sm_count"),
        "compute capability": attributes.get("compute_capability"),
        "measured FP32 peak": f"{_number(data.peak)} {data.unit}",
        "measured copy bandwidth": f"{_number(e['peaks']['copy_tb_s'])} TB/s" if e["peaks"].get("copy_tb_s") else None,
        "the vendor's library": attributes.get("library"),
        "date and commit": f"{e['time'][:10]}, `{(project['commit'] or 'unknown')[:10]}`",
    }
    return _table(["", ""], [[name, str(value)] for name, value in facts.items() if value is not None], words=(0, 1))


def best(story: Story, kind: str, problem: str) -> str:
    """The whole ladder on one problem."""
    data = story.data.get(kind)
    rows = []
    for kernel in [*story.ladder(kind), *(data.baselines if data else [])]:
        row = story.best(kernel, problem, data)
        if row is None or data is None:
            rows.append(_unmeasured(_code(kernel), 7))
            continue
        gain = None if is_baseline(kernel) else story.gain(kernel, problem)
        rows.append([
            _code(kernel), _number(float(row["median_us"])), _number(data.rate(row["tflops"])), _number(gain, "×"), _percent(row["ratio"]),
            "–" if kernel == "cublas_tf32" else _percent(row["peak_fraction"]), f"`{row['configuration']}`",
        ])  # fmt: skip
    unit, reference = (data.unit, BASELINE_NAME.get(data.reference, data.reference)) if data else ("rate", "the baseline")
    columns = ["rung", "time, µs", unit, "over the rung below", f"of {reference}", "of the peak", "best configuration"]
    return _table(columns, rows, words=(0, -1))


def rung(story: Story, kernel: str, *problems: str) -> str:
    """One rung on some problems, beside the rung below and the reference."""
    data, rows = story.dataset(kernel), []
    for problem in problems:
        row = story.best(kernel, problem)
        if row is None or data is None:
            rows.append(_unmeasured(_shown(problem), 6))
            continue
        declared = story.kernels[kernel]
        blocks = (
            math.prod(evaluate_int(extent, _names(declared, row)) for extent in declared.grid)
            if declared.kind == "cuda"
            else None
        )
        rows.append([
            _shown(problem), _number(data.rate(row["tflops"])), _number(story.gain(kernel, problem), "×"), _percent(row["ratio"]),
            _number(blocks), f"`{row['configuration']}`",
        ])  # fmt: skip
    unit, reference = (data.unit, BASELINE_NAME.get(data.reference, data.reference)) if data else ("rate", "the baseline")
    return _table(
        ["M × N × K", unit, "over the rung below", f"of {reference}", "blocks", "best configuration"], rows, words=(0, -1)
    )


def compare(story: Story, kernel: str, parameter: str, problem: str) -> str:
    """The rates for every value of one parameter, the others fixed in each row."""
    data = story.dataset(kernel)
    if data is None:
        return NOTHING.capitalize() + "."
    chosen = data.summary[(data.summary["kernel"] == kernel) & (data.summary["problem"] == problem)]
    rates: dict[str, dict[int, str]] = {}
    for row in chosen[chosen["tflops"].notna()].to_dict("records"):
        others = _parameters(row)
        value = others.pop(parameter, 0)
        label = " ".join(f"{name}={at}" for name, at in others.items())
        rates.setdefault(label, {})[value] = _number(data.rate(row["tflops"]))
    values = sorted({value for row in rates.values() for value in row})
    rows = [[f"`{label}`", *(row.get(value, "–") for value in values)] for label, row in rates.items()]
    return _table([f"{data.unit}, {_shown(problem)}", *(f"{parameter}={value}" for value in values)], rows)


def methods(story: Story, kind: str, problem: str) -> str:
    """Method, global reads, time, and what it lacks: the table of the source "General Matrix Multiplication", for every rung."""
    rows = []
    for name in story.ladder(kind):
        kernel, row = story.kernels[name], story.best(name, problem)
        each, time = "–", NOTHING
        if row is not None:
            time = _number(float(row["median_us"]))
            each = _number(evaluate(kernel.global_reads, _names(kernel, row)) / (row["m"] * row["n"] * row["k"]))
        rows.append([kernel.title, f"`{kernel.global_reads.replace(' ', '')}`", each, time, _lacks(kernel)])
    return _table(["method", "global reads", "reads / MNK", "time, µs", "what it lacks"], rows, words=(0, 1, -1))


def gains(story: Story, kind: str) -> str:
    """Every rung against the rung below over all problems."""
    data, rows = story.data.get(kind), []
    for kernel in story.ladder(kind)[1:]:
        problems = list(dict.fromkeys(data.best["problem"])) if data else []
        found = [(gain, problem) for problem in problems if (gain := story.gain(kernel, problem)) is not None]
        if not found:
            rows.append(_unmeasured(_code(kernel), 5))
            continue
        faster = sum(gain > 1 for gain, _ in found)
        ends = [f"{_number(gain, '×')} ({_shown(problem)})" for gain, problem in (min(found), max(found))]
        rows.append(
            [_code(kernel), _number(geometric_mean([gain for gain, _ in found]), "×"), f"{faster} of {len(found)}", *ends]
        )
    return _table(["rung", "gain, geometric mean", "faster on", "least", "most"], rows)


def rates(story: Story, kind: str) -> str:
    """Every rung and baseline on every problem."""
    data = story.data.get(kind)
    if data is None:
        return NOTHING.capitalize() + "."
    kernels = [*story.ladder(kind), *data.baselines]
    short = [BASELINE_NAME[name].split(" (")[0] if is_baseline(name) else name.split("_")[0] for name in kernels]
    rows = []
    for problem in dict.fromkeys(data.best["problem"]):
        found = [story.best(kernel, problem, data) for kernel in kernels]
        rows.append([_shown(problem), *(_number(data.rate(row["tflops"])) if row else "–" for row in found)])
    return _table([data.unit, *short], rows)


def value(story: Story, name: str, *arguments: str) -> str:
    """One number: `peak KIND [DIVISOR]`, `copy KIND`, `sms KIND`, `rate|gain|share KERNEL PROBLEM`."""
    if name in ("peak", "copy", "sms"):
        data = story.data.get(arguments[0])
        if data is None:
            return NOTHING
        if name == "sms":
            return str(data.environment["attributes"]["sm_count"])
        if name == "copy":
            return f"{_number(data.environment['peaks']['copy_tb_s'])} TB/s"
        return f"{_number(data.environment['peaks']['fp32_tflops'] / data.unit_size / float([*arguments, '1'][1]))} {data.unit}"
    kernel, problem = arguments
    data = next((d for d in story.data.values() if kernel in d.baselines), None) or story.dataset(kernel)
    row = story.best(kernel, problem, data)
    if row is None or data is None:
        return NOTHING
    if name == "gain":
        return _number(story.gain(kernel, problem), "×")
    return _percent(row["ratio"]) if name == "share" else f"{_number(data.rate(row['tflops']))} {data.unit}"


TABLES: dict[str, Callable[..., str]] = {
    function.__name__: function for function in (device, best, rung, compare, methods, gains, rates)
}


def fill(text: str, story: Story) -> str:
    """The document with every generated part made anew; raises `InputError` for a marker that asks for what is unknown."""

    def part(found: re.Match[str]) -> str:
        form, call = found.group(1), found.group(2)
        name, *arguments = call.split()
        if form == "table" and name not in TABLES:
            raise InputError(f"{DOCUMENT.name}: table: got {name}; expected {', '.join(TABLES)}")
        known = ("peak", "copy", "sms", "rate", "gain", "share")
        if form == "value" and name not in known:
            raise InputError(f"{DOCUMENT.name}: value: got {name}; expected {', '.join(known)}")
        try:
            made = TABLES[name](story, *arguments) if form == "table" else value(story, name, *arguments)
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise InputError(f"{DOCUMENT.name}: {call}: {error}; kinds are {', '.join(KINDS)}") from error
        made = f"\n\n{made}\n\n" if form == "table" else made
        return f"<!-- {form}: {call} -->{made}<!-- end -->"

    return PART.sub(part, text)


if __name__ == "__main__":
    with clear_errors():
        DOCUMENT.write_text(fill(DOCUMENT.read_text(), Story(ROOT)))
