"""Make the part of a page about the fastest rungs of 16-bit elements beside cuBLAS."""

from collections.abc import Sequence

from ladder.core.stats import geometric_mean
from ladder.figures.data import View
from ladder.figures.shapes import aligned_to, groups, large, over_algorithm
from ladder.model.baselines import ALGORITHMS

from book.data import Row, Story
from book.markdown import kernel_text, markdown_table, number, problem_text, rate_text, share_text
from book.past import fastest_of


def held_out_of_16_bits(story: Story, name: str, element_type: str) -> str:
    """Return how fast the rungs are on problems that nothing was tuned on, beside cuBLAS's choice
    and its fastest algorithm, by group.
    """
    data = story.campaign(name, element_type)
    return _by_group(data, fastest_of(data, tuned=False))


def unseen(story: Story, name: str, element_type: str, *problems: str) -> str:
    """Return the fastest rung on some problems that nothing was tuned on, beside cuBLAS's choice
    and its fastest algorithm, and the bytes at whose multiples all rows begin.
    """
    data = story.campaign(name, element_type)
    fastest = {row["problem"]: row for row in fastest_of(data, tuned=False)}
    rows = [
        [
            problem_text(problem),
            f"{'≈ ' * share_text(data, row).startswith('≈')}{number(row['ratio'], '×')}",
            number(over_algorithm(data, row), "×"),
            rate_text(data, row),
            kernel_text(row["kernel"]),
            f"{aligned_to(row)} bytes",
        ]
        for problem, row in ((problem, fastest[problem]) for problem in problems)
    ]
    columns = [
        "M × N × K",
        f"over {data.nice(data.reference)}",
        "over its fastest algorithm",
        data.unit,
        "rung",
        "rows begin at",
    ]
    return markdown_table(columns, rows, (0, 4))


def _by_group(data: View, rows: Sequence[Row]) -> str:
    """Return the geometric mean speedups of the fastest rungs for large, smaller and unaligned
    problems, and on how many they are ahead: over cuBLAS's choice, and over the faster one of that
    choice and the fastest algorithm that was timed.
    """
    names = (
        f"large shapes ({large(data):.0f} TFLOP/s or more)",
        "smaller ones",
        "whose rows do not begin at 16 bytes",
    )
    parts = zip(names, groups(data, rows), strict=True)
    known = {what: [*zip(*group, strict=True)][1:] for what, group in parts if group}
    on = [f"{geometric_mean(of[0]):.2f} on {len(of[0])} {what}" for what, of in known.items()]
    over = [f"{geometric_mean(of[1]):.2f}" for of in known.values()]
    chosen, fastest = ([ratio for of in known.values() for ratio in of[place]] for place in (0, 1))
    ahead, of_fastest = (sum(ratio >= 1 for ratio in ratios) for ratios in (chosen, fastest))
    # a search labels the algorithm that it finds with all its parameters
    searched = data.summary["configuration"].str.startswith("ID=").any()
    timed = "a search" if searched else f"up to {ALGORITHMS}"
    library = data.environment["attributes"]["library"]
    return (
        f"ahead of {library}'s choice on {ahead} of {len(rows)}. Geometric mean speedups: "
        f"{', '.join(on)}; {min(chosen):.2f} on the worst. Against the fastest of {timed} of its "
        f"algorithms: ahead on {of_fastest}; {', '.join(over)}; {min(fastest):.2f} on the worst"
    )
