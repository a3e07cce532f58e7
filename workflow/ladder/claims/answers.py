"""Define the studies: their questions, the commands that measure, and functions that word the answers from the measured values.

`short_answers` words them in a few words.
"""

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from ladder.claims.short_answers import TOPICS, fastest_product, least_time
from ladder.claims.study import Study, furthest, percent
from ladder.core.types import flops, tflops

PYTHON = ".venv/bin/python"
FLOP_A_CYCLE = 4096
"""Of 16-bit operands in an SM of compute capability 9.0 (NVIDIA H100 white paper: 512 fused multiply-adds in each of 4 tensor cores)."""
SHORT = {short.__name__: short for shorts in TOPICS.values() for short in shorts}
STUDIES: dict[str, Study] = {}
"""The studies by name."""
Measured = Mapping[str, Any]
Answer = Callable[[Any], str]


def _study(question: str, run: str, files: str = "") -> Callable[[Answer], Answer]:
    """Register a function that words an answer as the study of the same name."""

    def register(answer: Answer) -> Answer:
        STUDIES[answer.__name__] = Study(answer.__name__, question, answer, SHORT[answer.__name__], run, files)
        return answer

    return register


@_study("Does any input exceed the error bound of `21_tensor_split`?", f"{PYTHON} studies/adversary.py")
def adversary(measured: Measured) -> str:
    """Return how many inputs were spoiled, and the worst one."""
    worst = measured["worst"]
    sgemm = f" (SGEMM there {worst['sgemm_units']:.1f} u)" if "sgemm_units" in worst else ""
    return (
        f"{measured['tried']:,} inputs in {measured['seconds']:.0f} s: {measured['spoiled']} exceed the bound; the worst reaches "
        f"{100 * worst['share']:.0f} % of it, {worst['units']:.1f} u{sgemm}"
    )


@_study("Do other harnesses measure the same times?", f"{PYTHON} studies/agreement.py --other python3")
def agreement(measured: Measured) -> str:
    """Return how far the medians differ in every mode."""
    rows = measured["rows"]
    before = {(row["size"], row["name"]): row["theirs"] for row in [*rows, *measured["context"]]}

    def apart(rows: list[Measured], mode: str) -> str:
        return percent(furthest(row["ours"][mode] / row["theirs"][mode] for row in rows))

    second = [
        row[mode] / before[row["size"], row["name"]][mode] for row in measured["second_stream"] for mode in ("warm", "cold")
    ]
    return (
        f"{', '.join(dict.fromkeys(row['name'] for row in rows))} at {', '.join(dict.fromkeys(str(row['size']) for row in rows))}: "
        f"`warm` differs by at most {apart(rows, 'warm')}, `cold` by {apart(rows, 'cold')}, and by {apart(rows, 'cold_long')} in graphs as "
        f"long as theirs; single launches after a flush differ by at most {apart(rows, 'cold_single')}; our cuBLAS and their "
        f"`torch.mm` by {apart(measured['context'], 'warm')}, warm; in a process that uses a second stream their times differ by up to "
        f"{percent(furthest(second))}"
    )


@_study("How long does a campaign take, and how much space?", "make bench")
def benchmark(measured: Measured) -> str:
    """Return what the default campaign, a clone and a run with nothing to do take, and how much exceeds its limit."""
    parts = []
    if "campaign_s" in measured:
        names = {"confirm_share": "the confirmation", "gauntlet_share": "the gauntlet"}
        shares = " and ".join(f"{measured[key]:.1%} {name}" for key, name in names.items() if key in measured)
        parts.append(f"the default campaign takes {measured['campaign_s']:.0f} s with one core{shares and f' ({shares})'}")
    if "clone_to_figures_s" in measured:
        parts.append(f"from a fresh clone to the figures it takes {measured['clone_to_figures_s']:.0f} s")
    parts.append(f"a run with nothing to do takes {measured['nothing_to_do_s']:.1f} s")
    if "campaign_mb" in measured:
        parts.append(
            f"{measured['campaign_mb']:.0f} MB of results and an environment of {measured['environment_mb'] / 1000:.1f} GB"
        )
    parts += [
        f"`{device}` was busy for {cost['busy_share']:.0%} of {cost['measure_s']:.0f} s of measuring"
        for device, cost in measured["measure_jobs"].items()
    ]
    return f"{'; '.join(parts)}; {len(above_limits(measured)) or 'no'} budget exceeded"


LIMITS = {
    "campaign_s": 360,
    "confirm_share": 1 / 3,
    "gauntlet_share": 0.05,
    "clone_set_up_s": 180,
    "clone_to_figures_s": 360,
    "nothing_to_do_s": 5,
    "plan_2000_s": 3,
    "compile_cpu_s_a_configuration": 1.5,
}
"""The upper limits, in seconds; `confirm_share` and `gauntlet_share` are shares of the campaign's time."""
LEAST_BUSY = 0.65
"""The least share of the measure jobs' wall time in which a GPU must be executing."""
MOST_MEMORY_GB = 4.0
"""The most host memory that a measure job may take, in GB."""


def above_limits(measured: Measured) -> list[str]:
    """Return what exceeds its limit in the benchmark. The share in which the device executes counts for GPUs only."""
    jobs = measured["measure_jobs"].items()
    return [
        *(name for name, most in LIMITS.items() if measured.get(name, 0) > most),
        *(f"{device}: idle" for device, cost in jobs if device.startswith("nvidia") and cost["busy_share"] < LEAST_BUSY),
        *(f"{device}: memory" for device, cost in jobs if cost["peak_host_memory_gb"] > MOST_MEMORY_GB),
    ]


@_study("Are the kernels correct, and free of stray accesses and races?", f"{PYTHON} studies/checks.py")
def checks(measured: Measured) -> str:
    """Return how many tests passed, failed and were skipped, and the sanitizer's counts."""
    outcomes = list(measured["tests"].values())
    clean = "; ".join(
        f"{tool}: {counts['errors']} errors in {counts['launches']} launches" for tool, counts in measured["sanitizer"].items()
    )
    failed = ", ".join(f"`{name.split('.')[-1]}`" for name, outcome in measured["tests"].items() if outcome == "failed")
    return (
        f"{outcomes.count('passed')} GPU tests passed, {outcomes.count('failed')} failed{failed and f' ({failed})'}, "
        f"{outcomes.count('skipped')} skipped; compute-sanitizer on every rung: {clean or 'not run'}"
    )


@_study("Does compiling disturb measurements?", f"{PYTHON} studies/beside.py disturbance")
def disturbance(measured: Measured) -> str:
    """Return the largest move of a median."""
    rows = measured["rows"]
    return (
        f"with `nvcc` on all {measured['cores']} cores, the median of {measured['pairs']} pairs changed by at most "
        f"{100 * (furthest(row['busy_to_quiet'] for row in rows) - 1):+.2f} %, over {len(rows)} kernels and sizes"
    )


@_study("Are the claims reproduced on other machines?", f"{PYTHON} studies/power.py elsewhere")
def elsewhere(measured: Measured) -> str:
    """Return how many claims were reproduced, which were not, and the time taken."""
    states = ", ".join(f"{count} {state}" for state, count in measured["states"].items())
    known = (
        "whose data were" if measured["took_part"] else "with no data"
    )  # data published now may have been measured on it later
    failed = f" ({', '.join(f'`{id}`' for id in measured['not_reproduced'])})" if measured["not_reproduced"] else ""
    return f"on a machine {known} published then: {states}{failed}; {measured['seconds']:.0f} s"


@_study("Does `ladder compare` report only real changes?", f"{PYTHON} studies/power.py false_positives", "false-positives-*.json")
def false_positives(measured: Measured) -> str:
    """Return the share of times of the same code that are called different, and the share of longer times that are found."""
    held_out = measured["held_out"]
    others = (
        f"; with limits estimated from other machines only, {held_out['called']:.1%} of {held_out['alike']}"
        if held_out["alike"]
        else ""
    )
    return (
        f"on one machine, {measured['called']:.1%} of {measured['alike']} comparisons of the same code are called faster or slower, "
        f"{measured['sure']:.1%} significantly, with limits estimated from these runs{others}; "
        f"of {measured['slowed']} recorded times at 1024 and up, lengthened by 2 %, {measured['found']:.1%} are found"
    )


@_study("Does a faulty kernel affect the measurement of others?", f"{PYTHON} tests/support/faults.py")
def faults(measured: Measured) -> str:
    """Return how many faults were planted, and which had another outcome than expected."""
    others = ", ".join(row["what"] for row in measured["faults"] if not row["as_told"])
    became = f"unexpected outcomes: {others}" if others else "each is a row with its status and affects no other"
    return f"{len(measured['faults'])} kinds of fault injected into one campaign: {became}"


@_study(
    "Does malformed input crash the program or execute code?", "EXAMPLES=30000 .venv/bin/pytest tests/unit/test_properties.py"
)
def fuzz(measured: Measured) -> str:
    """Return how many inputs of each kind were tried."""
    kinds = [f"{sum(measured[what].values()):,} {what}" for what in ("expressions", "headers", "campaigns")]
    return f"{', '.join(kinds)}, random and hostile, made by a program: each got a correct answer or a clear error, and nothing was executed"


@_study("Is the sweep faster than Kernel Tuner?", f"{PYTHON} studies/beside_kernel_tuner.py compare")
def kernel_tuner_compare(measured: Measured) -> str:
    """Return the speedup in every case."""
    cases = [
        f"{run['kernel_tuner']['configurations']} configurations {run['faster']:.1f} times as fast with "
        f"{run['cores']} core{'s' * (run['cores'] > 1)} ({run['faster_without_compiling']:.1f} without compiling)"
        for run in measured["runs"]
    ]
    version = measured["runs"][0]["kernel_tuner"]["version"]
    return f"`{measured['kernel'].split('/')[1]}` compared with Kernel Tuner {version}: {'; '.join(cases)}"


@_study("Why are Kernel Tuner's times longer?", f"{PYTHON} studies/beside_kernel_tuner.py times")
def kernel_tuner_times(measured: Measured) -> str:
    """Return what each difference adds, and what all add together."""
    parts = [
        f"{factor} `{level}` {percent(ratio[0])}"
        for factor, levels in measured["effects"].items()
        for level, ratio in levels.items()
    ]
    ours = measured["ours_us"]
    own = "".join(f"; its own times with `{name}`: {percent(us / ours)}" for name, us in measured["kernel_tuner_us"].items())
    return (
        f"at {measured['size']}, launching as Kernel Tuner does: {percent(measured['like_it_us'] / ours)}{own}. "
        f"Each difference by itself: {', '.join(parts)}"
    )


@_study("Does a killed campaign lose measurements?", f"{PYTHON} tests/support/kill.py 50")
def kill(measured: Measured) -> str:
    """Return how many measurements were lost, and the bound for future kills: 1 - 0.05^(1/n) at 95 % after n kills.

    The bound holds if nothing was lost.
    """
    kills, lost = measured["kills"], measured["measurements_lost"]
    # only earlier answers have it; tests/unit/test_resume.py now counts it at every write of a journal
    again = f"; {measured['measurements_begun_again']} were restarted" if "measurements_begun_again" in measured else ""
    return (
        f"{kills} kills at random times in a campaign of {measured['measurements_a_campaign']} measurements: {lost or 'none'} lost; at most "
        f"{1 - 0.05 ** (1 / kills):.0%} of such kills lose any (95 % confidence){again}"
    )


@_study("Does multithreaded BLAS disturb CPU timings?", f"{PYTHON} studies/beside.py neighbours")
def neighbours(measured: Measured) -> str:
    """Return the largest move of a median, with the wait and without it."""
    beside, unsettled = (percent(furthest(row[how] for row in measured["rows"])) for how in ("beside", "unsettled"))
    return (
        f"interleaved with `blas_all` on {measured['cores']} cores, times of `blas_1` and `03_blocked` at "
        f"{' and '.join(map(str, measured['sizes']))} change by at most {beside}, the median of {measured['pairs']} pairs; "
        f"by {unsettled} without the wait for its threads to sleep"
    )


@_study("Does operand alignment decide who is faster?", f"{PYTHON} studies/beside.py placement")
def placement(measured: Measured) -> str:
    """Return how the rungs compare at the boundaries, and how far other places move the times."""
    rows = measured["rows"]
    ratios = [row["aligned"]["ratio"] for row in rows]
    cublas, rung = (
        percent(furthest(place[name] / row["aligned"][name] for row in rows for place in row["elsewhere"]))
        for name in ("cublas_us", "rung_us")
    )
    return (
        f"with operands aligned to 2 MiB, rungs are faster than cuBLAS on {sum(ratio >= 1 for ratio in ratios)} of {len(rows)} "
        f"problems, with a median of ×{median(ratios):.3f}; other alignments change times of cuBLAS by up to {cublas}, "
        f"of a rung by {rung}"
    )


@_study("What limits float32 results from tensor cores under sustained load?", f"{PYTHON} studies/beside.py power_limit")
def power_limit(measured: Measured) -> str:
    """Return time, clock, power and busy tensor cores of rung 21 and of one product, and what three of those would take."""

    def worded(held: Measured, size: int, products: int) -> str:
        cycles = held["us"] * held["clock_mhz"] * measured["sm_count"]
        busy = products * flops(size, size, size) / (FLOP_A_CYCLE * cycles)
        return f"{held['us']:.0f} us ({held['clock_mhz']:.0f} MHz, {held['power_w']:.0f} W, tensor cores {100 * busy:.0f} % busy)"

    parts = []
    for row in measured["rows"]:
        size, held, (tile, single) = row["size"], row["held"], fastest_product(row)
        parts.append(
            f"at {size} rung 21 takes {worded(held['whole'], size, 3)}, its split alone {held['split']['us']:.0f} us, its products alone "
            f"{worded(held['product'], size, 3)}; one product of float16 operands in tiles of {tile} takes {worded(single, size, 1)}; "
            f"three of those and the split would take {least_time(row):.0f} us"
        )
    return "; ".join(parts)


@_study("Is any 16-bit rung incorrect on random problems?", f"{PYTHON} studies/random_problems.py")
def random_problems(measured: Measured) -> str:
    """Return how many problems and launches there were, the fewest launches of a kernel, and how many launches were incorrect."""
    launches, seconds = measured["launches"].values(), f"{measured['seconds']:.0f} s"
    counts = f"{sum(launches):,} launches of {len(launches)} kernels (at least {min(launches):,} of each) in {seconds}"
    return f"{measured['problems']:,} problems, {counts}: {measured['incorrect']} incorrect"


@_study("What limits multiply-adds on an SM?", f"{PYTHON} studies/registers.py")
def registers(measured: Measured) -> str:
    """Return the largest error of the model, and the costs of write-back and of long loops."""
    rows = measured["patterns"]
    rates = [row["measured"] for row in rows]
    off = max((row["model"] / row["measured"] - 1 for row in rows), key=abs)
    costs, others = (", ".join(f"{cost:.2f}" for cost in measured[how].values()) for how in ("write_back", "unwaited"))
    short, long = ((row["clocks"], row["multiply_adds"] / 64) for row in (measured["lengths"][0], measured["lengths"][-1]))
    return (
        f"on {len(rows)} register patterns the model errs by up to {100 * off:+.1f} %; measured: {min(rates):.2f} to {max(rates):.2f} "
        f"multiply-adds per clock; loads of 4, 8 and 16 bytes take {costs} clocks if waited for, else {others}; a multiply-add "
        f"takes {short[0]:.2f} in a loop of {short[1]:.0f} KiB, {long[0]:.2f} in one of {long[1]:.0f} KiB"
    )


@_study("Do results repeat?", ".venv/bin/ladder repeat", "repeat-*.json")
def repeat(measured: Measured) -> str:
    """Return how often the stated intervals and limits cover the difference to another run, and how often equal code is called different.

    Pairs of runs are counted: the differences of all kernels in a pair move together.
    """
    described = {
        "same_machine": "On one device, within the 95 % interval of the difference",
        "same_held_out": "On one device, within the limit estimated from other devices",
        "other_machine": "On two devices, within the reproducibility limit",
        "held_out": "On two devices, within the limit estimated without one of them",
    }

    def share(counted: Measured) -> str:
        return f"{counted['covered']:.1%} of {counted['rows']} differences"

    parts = []
    for name, what in described.items():
        counted = measured[name]
        if counted["pairs"]:
            least = f"; least, {share(counted['least'])}: {counted['least']['of']}" if "least" in counted else ""
            parts.append(f"{what}: {share(counted)}, from {counted['pairs']} pairs of runs{least}")
    for name, what in (("twins", "Kernels with the same binary"), ("null", "The baseline compared with itself")):
        counted = measured[name]
        if counted["pairs"]:
            parts.append(
                f"{what}: called different in {counted['called_different']:.1%} of {counted['pairs']} pairs; "
                f"{counted['interval_leaves_out_1']:.1%} of the intervals exclude 1"
            )
    machines = measured["machines"]
    return f"{len(measured['runs'])} runs on {machines} device{'s' * (machines > 1)}. {'. '.join(parts)}"


@_study("How soon does `ladder try` report on an edit?", f"{PYTHON} tests/support/saves.py")
def saves(measured: Measured) -> str:
    """Return the medians, and the first time."""
    return (
        f"`ladder try` of a {measured['kind'].upper()} kernel takes {measured['again_s']:.1f} s, the first time {measured['first_s']:.1f} s; "
        f"with `--watch`, {measured['watch_s']:.1f} s after a save; a smoke campaign with only that kernel takes "
        f"{measured['campaign_s']:.1f} s"
    )


@_study("Do several GPUs help?", f"{PYTHON} studies/benchmark.py --gpus FOLDER")
def several_gpus(measured: Measured) -> str:
    """Return both times and their quotient."""
    several, single = measured["runs"]
    return (
        f"the default campaign takes {several['wall_s']:.0f} s on {several['gpus']} GPUs and {single['wall_s']:.0f} s on one, "
        f"with {measured['cores']} cores each"
    )


@_study("Does `reproduce` notice a kernel that became slower?", f"{PYTHON} studies/power.py slowed")
def slowed(measured: Measured) -> str:
    """Return the claims that were not reproduced, with the kernel slowed and as it is."""
    slow, honest = (", ".join(f"`{id}`" for id in measured[run]["not reproduced"]) or "nothing" for run in ("slowed", "as_it_is"))
    return f"with `{measured['kernel']}` slowed by {measured['percent']} %, not reproduced: {slow}; unchanged: {honest}"


@_study("How fast are float32 results from tensor cores under sustained load?", f"{PYTHON} studies/beside.py tensor")
def tensor(measured: Measured) -> str:
    """Return the ratios, the rates and energies under a long load at the largest size, and the least ratio if no chunk fits."""
    rows = measured["rows"]
    faster = [[row[how]["sgemm_us"] / row[how]["rung_us"] for how in ("together", "alone", "held")] for row in rows]
    ratios = ", ".join(
        f"{row['size']} {' / '.join(f'×{ratio:.2f}' for ratio in own)}" for row, own in zip(rows, faster, strict=True)
    )
    size, held = rows[-1]["size"], rows[-1]["held"]
    rung, sgemm = (
        f"{tflops(size, size, size, held[f'{who}_us']):.3g} TFLOP/s and {held[f'{who}_j']:.3g} J" for who in ("rung", "sgemm")
    )
    unfit = min(row["unfit"]["sgemm_us"] / row["unfit"]["rung_us"] for row in rows)
    return (
        f"speedup over SGEMM in the same rounds / each by itself / sustained: {ratios}; sustained for {measured['held_seconds']:g} s at "
        f"{size}: {rung} per GEMM, SGEMM {sgemm}; at least ×{unfit:.2f} if no chunk fits"
    )


@_study("Why does CPU rung 04 beat BLAS if C has few rows?", f"{PYTHON} studies/beside.py thin")
def thin(measured: Measured) -> str:
    """Return the times that a call and a row take, for BLAS and for the rung."""
    blas, rung = ((line["fixed_us"], line["row_us"]) for line in measured["lines"])
    return (
        f"with one thread and K = N = {measured['side']}, BLAS takes {blas[0]:.0f} us plus {blas[1]:.1f} us per row of C; rung 04 takes "
        f"{rung[0]:.0f} us plus {rung[1]:.1f} us per row: it prepares B in {100 * rung[0] / blas[0]:.0f} % of the time"
    )


@_study("Do further changes to the upper rungs help?", f"{PYTHON} studies/beside.py tried")
def tried(measured: Measured) -> str:
    """Return how many changes were tried, and how many are faster or slower than the rung without the change."""
    rows = measured["changes"]
    faster, slower = sum(row["low"] > 1 for row in rows), sum(row["high"] < 1 for row in rows)
    return f"of {len(rows)} changes to the upper rungs, {faster} are faster than the unchanged rung and {slower} slower"


@_study("Does `ladder compare` find kernels that became 2 % slower?", f"{PYTHON} studies/power.py two_percent")
def two_percent(measured: Measured) -> str:
    """Return the share of slowed times called slower, and the share of unchanged times called different."""
    return (
        f"of {measured['slowed']} times of rungs slowed by {measured['percent']} % at 1024 and up, {measured['found']:.1%} are "
        f"called slower; of {measured['alike']} times of unchanged cuBLAS, {measured['called']:.1%} are called faster or slower"
    )
