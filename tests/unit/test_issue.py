"""The model of issue slots and register banks: patterns whose rates follow from its rules, and
loops that nvcc makes here.
"""

import pytest
from ladder.compiling import compilers, issue_model
from ladder.compiling.issue_model import Instruction
from ladder.model.kernel import Configuration
from planted import HOME
from rungs import ALL

EVEN, ODD = range(32, 64, 2), range(33, 64, 2)
A, B, C = 1, 2, 4


def ffma(a, b, c, reuse=0, yields=False):
    return Instruction(
        issue_model.FFMA | 7 << 12 | c << 16 | a << 24 | b << 32,
        c | (not yields) << 45 | reuse << 58,
    )


def lds(code, register=8, predicate=7):
    return Instruction(issue_model.LDS | predicate << 12 | register << 16 | 100 << 24, code << 9)


def rate(body):
    return sum(each.multiplies_and_adds for each in body) / issue_model.clocks(body)


def runs(length):
    """Sums of one bank, `length` at a time, then of the other; `a` is kept, `b` lies in the sum's
    own bank.
    """
    sums = []
    for at in range(0, 16, length):
        sums += [*EVEN[at : at + length], *ODD[at : at + length]]
    return [ffma(2, c % 2 + 4 + 2 * (i % 4), c, A) for i, c in enumerate(sums)]


PATTERNS = {
    "sums alone are read": ([ffma(2, 3, c, A | B) for c in EVEN], 1),
    "nothing is read": ([ffma(2, 3, 5, A | B | C) for _ in EVEN], 1),
    "two reads of two banks": ([ffma(2, 3 + 2 * (i % 8), c, A) for i, c in enumerate(EVEN)], 1),
    "two reads of one bank": ([ffma(3, 2 + 2 * (i % 8), c, A) for i, c in enumerate(EVEN)], 1 / 2),
    "two reads of one bank, then of the other": (runs(1), 1),
    "the same in runs of two": (runs(2), 2 / 3),
    "in runs of four": (runs(4), 4 / 7),
    "in runs of eight": (runs(8), 8 / 15),
    "three reads of one bank": ([ffma(2, 4, c) for c in EVEN], 1 / 3),
    "three reads, the fuller bank in turns": (
        [ffma(2 * (i % 4), 3, c) for i, c in enumerate(range(32, 64))],
        2 / 3,
    ),
    "the cache is lost where others go first": (
        [ffma(2, 3, c, A | B, yields=True) for c in EVEN],
        1 / 2,
    ),
    "kept in another slot": (
        [ffma(2, 3, c, B) if i % 2 else ffma(3, 2, c, B) for i, c in enumerate(EVEN)],
        1 / 2,
    ),
    "another instruction keeps the cache": (
        [each for c in EVEN for each in (ffma(2, 3, c, A | B), Instruction(0x918, 0))],
        1 / 2,
    ),
}


@pytest.mark.parametrize("pattern", list(PATTERNS))
def test_patterns_take_the_clocks_of_their_reads(pattern):
    body, expected = PATTERNS[pattern]
    # where the pattern begins anew a clock comes or goes
    assert rate(body) == pytest.approx(expected, rel=0.04)


def test_loads_cost_a_slot_and_their_write_back():
    sums = [ffma(2, 3, c, A | B) for c in (*EVEN, *ODD)]
    without = issue_model.clocks(sums)
    for code, more in issue_model.WRITE_BACK.items():
        assert issue_model.clocks([*sums, lds(code)]) - without == pytest.approx(1 + more)
    for idle in (lds(6, predicate=issue_model.NEVER), lds(6, register=issue_model.NO_REGISTER)):
        assert issue_model.clocks([*sums, idle]) - without == 1


def branch(back):
    words = -4 * back + (1 << 56)
    return Instruction(
        issue_model.BRA | (words & 255) << 16 | (words >> 8 & 0x3FFFFFFF) << 34, words >> 38
    )


def test_the_densest_loop_is_found():
    dense = [ffma(2, 3, c, A | B) for c in EVEN] * 2
    thin = [ffma(2, 3, 5), Instruction(0x918, 0)] * 40
    code = [*thin, branch(81), *dense, branch(33), Instruction(0x947, 0)]
    assert issue_model.loop([code]) == [*dense, branch(33)]
    assert issue_model.loop([code[:81]]) == [*thin, branch(81)]
    assert issue_model.loop([dense]) == []
    assert issue_model.loop([[*dense[: issue_model.SMALLEST - 1], branch(32)]]) == []
    assert [branch(back).back() for back in (1, 81, 70000)] == [1, 81, 70000]
    assert branch(-5).back() == 0


def compiled(name, element_type="float32", **parameters):
    kernel = ALL[f"cuda/{name}"]
    configuration = Configuration(element_type, tuple((kernel.parameters | parameters).items()))
    return compilers.compile_source(
        "nvcc",
        kernel.source(configuration),
        kernel.architecture or "sm_90",
        [HOME / "kernels" / "include"],
    )[0]


def test_the_loop_on_tensor_cores_is_the_one_with_the_largest_share_of_matrix_instructions(
    monkeypatch,
):
    """A function without any has none, and a loop around the main loop is not it."""
    product, box, wait, other = (Instruction(name, 0) for name in (0x9F0, 0x5B4, 0x5A7, 0x918))
    loop = [wait, product, product, other, branch(5)]
    functions = [[other, branch(2)], [other, *loop, box, other, branch(8)]]
    monkeypatch.setattr(issue_model, "functions", lambda cubin: cubin)
    mix = {"HGMMA": 2, "UTMALDG": 0, "SYNCS": 1, "other": 2}
    assert issue_model.mix_on_tensor_cores(functions) == mix
    assert issue_model.mix_on_tensor_cores(functions[:1]) == {}


@pytest.mark.slow
def test_loops_that_nvcc_makes():
    names = ("02_naive_coalesced", "10_block_tile_128", "13_snake_order")
    naive, plain, snake = map(compiled, names)
    for binary, count in ((plain, 8 * 8 * 8), (snake, 8 * 16 * 8)):
        loops = [issue_model.loop([steps]) for steps in issue_model.functions(binary)]
        assert count in [sum(each.multiplies_and_adds for each in body) for body in loops]
    assert issue_model.multiply_adds_per_clock(naive) is None
    of_plain, of_snake = map(issue_model.multiply_adds_per_clock, (plain, snake))
    assert of_plain < of_snake < 0.93
    mix = issue_model.mix(naive)
    assert mix["LDG"] == 2 * mix["FFMA"] > 0  # two loads a multiply-add
    assert mix["LDS"] == 0
    assert issue_model.mix(plain).items() >= {"FFMA": 512, "LDS": 32, "LDG": 10}.items()
    for name, loads in (("30_half_tensor_maps", 4 * 3), ("31_half_ring", 0)):  # another warp's
        mix = issue_model.mix_on_tensor_cores(compiled(name, "bfloat16"))
        assert (mix["HGMMA"], mix["UTMALDG"]) == (16, loads)  # four steps, unrolled


def test_what_is_no_cubin_is_refused():
    with pytest.raises(ValueError, match="not a 64-bit ELF file"):
        issue_model.multiply_adds_per_clock(b"// not ELF")
