"""The drawings of docs/ladder.md: `python docs/drawings.py` writes docs/img/*.svg, the same bytes every time.

They show ideas, not data. A is orange, B blue and C green in all of them; red marks what costs time. The colours are those of Okabe and Ito
("Color Universal Design", 2008), which the colour-blind can tell apart.
"""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, PathPatch
from matplotlib.path import Path as Outline

IMAGES = Path(__file__).resolve().parent / "img"
A, B, C, RED, YELLOW, GREY, INK = "#E69F00", "#56B4E9", "#009E73", "#D55E00", "#F0E442", "#8C8C8C", "#222222"
PALE_A, PALE_B, PALE_C, PALE, DARKER = "#FBEBCB", "#DDEFFB", "#CCEBE2", "#EDEDED", "#CFCFCF"
STYLE = {
    "svg.hashsalt": "gemm-ladder",
    "svg.fonttype": "none",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "path.simplify": False,
}

Rectangle = tuple[float, float, float, float]  # x, y, width, height; y grows downwards


class Canvas:
    """A white sheet 700 units wide; a unit is a pixel where the drawing is shown at its own size."""

    def __init__(self, height: float, title: str) -> None:
        self.figure = Figure(figsize=(7, height / 100), facecolor="white")
        self.axes: Axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, 700), ylim=(height, 0))
        self.axes.axis("off")
        self.text(14, 18, title, size=10, weight="bold", align="left")

    def text(self, x: float, y: float, text: str, size: float = 8, align: str = "center", colour: str = INK, weight: str = "normal",
             rotation: float = 0) -> None:  # fmt: skip
        """Text whose middle (or left or right end) is at (x, y)."""
        self.axes.text(
            x, y, text, fontsize=size, ha=align, va="center", color=colour, fontweight=weight, rotation=rotation, zorder=5
        )

    def note(self, x: float, y: float, text: str) -> None:
        """A small remark whose left end is at (x, y)."""
        self.text(x, y, text, size=7.5, align="left")

    def boxes(self, rectangles: Iterable[Rectangle], fill: str, edge: str = INK, width: float = 0.6, above: int = 1) -> None:
        """Rectangles of one colour, as one path: small in the file however many there are."""
        vertices: list[tuple[float, float]] = [(0, 0)]
        codes = [Outline.MOVETO]
        for x, y, w, h in rectangles:
            vertices += [(x, y), (x + w, y), (x + w, y + h), (x, y + h), (x, y)]
            codes += [Outline.MOVETO, Outline.LINETO, Outline.LINETO, Outline.LINETO, Outline.CLOSEPOLY]
        self.axes.add_patch(PathPatch(Outline(vertices, codes), facecolor=fill, edgecolor=edge, lw=width, zorder=above))

    def box(self, x: float, y: float, w: float, h: float, fill: str, label: str = "", edge: str = INK, size: float = 8,
            above: int = 1) -> None:  # fmt: skip
        """A rectangle with a label in its middle."""
        self.boxes([(x, y, w, h)], fill, edge, above=above)
        if label:
            self.text(x + w / 2, y + h / 2, label, size=size)

    def grid(self, x: float, y: float, rows: int, columns: int, cell: float, fill: str = "white", edge: str = GREY) -> "Grid":
        """A grid of square cells."""
        drawn = Grid(self, x, y, cell)
        self.boxes([drawn.at(0, 0, rows, columns)], fill, edge, width=0.4)
        self.boxes([drawn.at(0, c, rows, 0) for c in range(1, columns)], "none", edge, width=0.4)
        self.boxes([drawn.at(r, 0, 0, columns) for r in range(1, rows)], "none", edge, width=0.4)
        return drawn

    def arrow(self, x0: float, y0: float, x1: float, y1: float, colour: str = INK, bend: float = 0) -> None:
        """An arrow from (x0, y0) to (x1, y1)."""
        style = {"arrowstyle": "-|>", "mutation_scale": 9, "connectionstyle": f"arc3,rad={bend}"}
        self.axes.add_patch(FancyArrowPatch((x0, y0), (x1, y1), color=colour, lw=1.2, zorder=4, shrinkA=0, shrinkB=0, **style))

    def brace(self, x0: float, y0: float, x1: float, y1: float, label: str, side: float) -> None:
        """A measure line between two points with its label `side` units off it (to the left or above where negative)."""
        self.axes.annotate(
            "", (x0, y0), (x1, y1), arrowprops={"arrowstyle": "<->", "lw": 0.7, "color": INK, "shrinkA": 0, "shrinkB": 0}
        )
        if x0 == x1:
            self.text(x0 + side, (y0 + y1) / 2, label, size=7.5, rotation=90)
        else:
            self.text((x0 + x1) / 2, y0 + side, label, size=7.5)


class Grid:
    """Where the cells of a grid lie."""

    def __init__(self, canvas: Canvas, x: float, y: float, cell: float) -> None:
        self.canvas, self.x, self.y, self.cell = canvas, x, y, cell

    def at(self, row: float, column: float, rows: float = 1, columns: float = 1) -> Rectangle:
        """The rectangle of some cells."""
        return self.x + column * self.cell, self.y + row * self.cell, columns * self.cell, rows * self.cell

    def mark(self, cells: Iterable[tuple[int, int]], fill: str, edge: str = GREY, width: float = 0.4) -> None:
        """Colour cells."""
        self.canvas.boxes([self.at(r, c) for r, c in cells], fill, edge, width, above=2)

    def frame(self, row: float, column: float, rows: float, columns: float, edge: str = INK, width: float = 1.6) -> None:
        """A thick line round some cells."""
        self.canvas.boxes([self.at(row, column, rows, columns)], "none", edge, width, above=3)

    def label(self, row: float, column: float, text: str, size: float = 7) -> None:
        """Text in the middle of a cell."""
        x, y, w, h = self.at(row, column)
        self.canvas.text(x + w / 2, y + h / 2, text, size=size)


def _sectors(canvas: Canvas, x: float, y: float, used: list[int], colour: str, in_row: int = 8) -> None:
    """Sectors of eight floats, the first `used[i]` of sector i coloured."""
    cell, gap, all_of, some = 8, 12, [], []
    for i, count in enumerate(used):
        left, top = x + i % in_row * (8 * cell + gap), y + i // in_row * 17
        for j in range(8):
            (some if j < count else all_of).append((left + j * cell, top, cell, 11))
    canvas.boxes(all_of, PALE, GREY, 0.4)
    canvas.boxes(some, colour, INK, 0.5, above=2)


def warp_on_rows() -> Canvas:
    """Rung 01: a warp's threads on neighbouring rows, and the sectors they touch."""
    s = Canvas(345, "Rung 01: the 32 threads of a warp on neighbouring rows")
    _three(s)
    s.boxes([(62 + 60, 62, 5, 72)], A, above=2)
    s.boxes([(272 + 80, 52 + 60, 5, 5)], B, above=2)
    s.boxes([(482 + 80, 62, 5, 72)], C, above=2)
    s.note(133, 98, "32 rows,\none k")
    s.text(354, 130, "one element", size=7.5)
    s.note(573, 98, "32 rows")
    s.text(14, 194, "What one step of the loop asks of memory, in sectors of 32 bytes (8 floats):", align="left")
    s.text(14, 214, "A: 32 sectors, one float of each used", align="left", colour=RED, weight="bold")
    _sectors(s, 40, 226, [1] * 32, A)
    s.text(14, 308, "B: one sector, one float for all 32 threads", align="left")
    _sectors(s, 40, 320, [1], B)
    return s


def warp_on_columns() -> Canvas:
    """Rung 02: a warp's threads on neighbouring columns, and the sectors they touch."""
    s = Canvas(290, "Rung 02: the 32 threads of a warp on neighbouring columns")
    _three(s)
    s.boxes([(62 + 60, 52 + 70, 5, 5)], A, above=2)
    s.boxes([(272 + 30, 52 + 60, 72, 5)], B, above=2)
    s.boxes([(482 + 30, 52 + 70, 72, 5)], C, above=2)
    s.text(124, 140, "one element", size=7.5)
    s.text(338, 100, "32 columns, one k", size=7.5)
    s.text(548, 110, "32 columns", size=7.5)
    s.text(14, 194, "What one step of the loop asks of memory, in sectors of 32 bytes (8 floats):", align="left")
    s.text(14, 214, "A: one sector, one float for all 32 threads", align="left")
    _sectors(s, 40, 226, [1], A)
    s.text(14, 253, "B: 4 sectors, every float used", align="left", weight="bold")
    _sectors(s, 40, 265, [8] * 4, B)
    return s


def _three(s: Canvas) -> None:
    for x, name, fill, down, right in ((62, "A", PALE_A, "M", "K"), (272, "B", PALE_B, "K", "N"), (482, "C", PALE_C, "M", "N")):
        s.box(x, 52, 130, 110, fill)
        s.text(x + 8, 42, name, weight="bold", size=9)
        s.text(x + 65, 42, right)
        s.text(x - 9, 107, down)
    s.text(232, 107, "×", size=14)
    s.text(442, 107, "=", size=14)


def shared_tile() -> Canvas:
    """Rung 03: a block's tile of C, and the tiles of A and B it walks along K."""
    s = Canvas(425, "Rung 03: a block computes one tile of C and walks along K")
    ax, cx, ay, by, k = 60, 282, 225, 42, 168
    s.box(ax, ay, k, 170, PALE_A)
    s.box(cx, by, 170, k, PALE_B)
    s.box(cx, ay, 170, 170, PALE_C)
    s.text(ax + 10, ay + 12, "A", weight="bold", size=9)
    s.text(cx + 10, by + 12, "B", weight="bold", size=9)
    s.text(cx + 10, ay + 12, "C", weight="bold", size=9)
    row, col, bm, bk = 60, 70, 56, 28
    s.boxes([(ax + i * bk, ay + row, bk, bm) for i in range(6)], "#F4CE85", above=2)
    s.boxes([(cx + col, by + i * bk, bm, bk) for i in range(6)], "#A9D6F4", above=2)
    s.boxes([(ax + 2 * bk, ay + row, bk, bm)], A, width=1.4, above=3)
    s.boxes([(cx + col, by + 2 * bk, bm, bk)], B, width=1.4, above=3)
    s.boxes([(cx + col, ay + row, bm, bm)], C, width=1.4, above=3)
    s.arrow(ax + 3 * bk + 4, ay + row + bm / 2, ax + 6 * bk - 4, ay + row + bm / 2)
    s.arrow(cx + col + bm / 2, by + 3 * bk + 4, cx + col + bm / 2, by + 6 * bk - 4)
    s.brace(ax + 2 * bk, ay + row + bm + 9, ax + 3 * bk, ay + row + bm + 9, "BK", 10)
    s.brace(ax - 9, ay + row, ax - 9, ay + row + bm, "BM", -10)
    s.brace(cx + col, ay + 170 + 9, cx + col + bm, ay + 170 + 9, "BN", 10)
    s.brace(cx - 9, by + 2 * bk, cx - 9, by + 3 * bk, "BK", -10)
    s.text(cx + col + bm / 2, ay + row + bm / 2, "sums", size=8)
    s.box(505, 120, 180, 190, "white")
    s.text(595, 136, "the block's shared memory", size=8, weight="bold")
    s.box(530, 165, 42, 84, A, "sA", size=9)
    s.box(590, 186, 84, 42, B, "sB", size=9)
    s.text(551, 262, "BM × BK", size=7.5)
    s.text(632, 241, "BK × BN", size=7.5)
    s.text(595, 286, "fetched once by the block,\nread by all its threads", size=7.5)
    s.text(595, 336, "Per step of BK: fetch both,\nwait, multiply, wait.", size=8)
    return s


def register_tile() -> Canvas:
    """Rung 05: a thread's elements of the block's tile, and the outer product in its registers."""
    s = Canvas(345, "Rung 05: a thread owns TM × TN elements (drawn: TM = TN = 4 of a 16 × 16 tile)")
    cell, x, y = 14, 90, 92
    c = s.grid(x, y, 16, 16, cell, PALE_C)
    a = s.grid(x - 34, y, 16, 1, cell, PALE_A)
    b = s.grid(x, y - 34, 1, 16, cell, PALE_B)
    rows, columns = [1, 5, 9, 13], [2, 6, 10, 14]
    c.mark([(r, k) for r in rows for k in columns], C, INK)
    a.mark([(r, 0) for r in rows], A, INK)
    b.mark([(0, k) for k in columns], B, INK)
    s.text(x - 27, y - 9, "sA, one k", size=7.5)
    s.text(x + 112, y - 44, "sB, the same k", size=7.5)
    s.text(x + 112, y + 16 * cell + 14, "the block's tile of C; one thread's 16 elements dark", size=7.5)
    rx, ry, big = 470, 140, 32
    s.text(rx + 2 * big, 66, "in the thread's registers", weight="bold")
    ra = s.grid(rx - 44, ry, 4, 1, big, A, INK)
    rb = s.grid(rx, ry - 44, 1, 4, big, B, INK)
    rc = s.grid(rx, ry, 4, 4, big, C, INK)
    for i in range(4):
        ra.label(i, 0, f"a{i}", 8)
        rb.label(0, i, f"b{i}", 8)
        for j in range(4):
            rc.label(i, j, f"a{i}b{j}", 7.5)
    s.arrow(x + 16 * cell + 8, y + 8 * cell, rx - 52, y + 8 * cell)
    s.text(
        rx + 54,
        ry + 4 * big + 28,
        "each k adds these products to the sums:\n8 shared loads (TM + TN)\nfor 16 multiply-adds (TM × TN)",
        size=8,
    )
    s.text(rx + 54, ry + 4 * big + 62, "(rung 04: 2 loads for each one)", size=7.5)
    return s


def vectorized_loads() -> Canvas:
    """Rung 06: a float4 of A becomes a column of its shared tile, one of B stays a row."""
    s = Canvas(395, "Rung 06: four floats at a time (drawn: 8 × 8 tiles)")
    cell = 16
    for y, name, fill, pale, transposed in ((70, "A", A, PALE_A, True), (252, "B", B, PALE_B, False)):
        left, right = s.grid(95, y, 8, 8, cell, pale), s.grid(345, y, 8, 8, cell, pale)
        source = [(2, k) for k in range(4, 8)]
        left.mark(source, fill, INK)
        left.frame(2, 4, 1, 4)
        target = [(k, r) if transposed else (r, k) for r, k in source]
        right.mark(target, fill, INK)
        for n, ((r0, c0), (r1, c1)) in enumerate(zip(source, target, strict=True)):
            left.label(r0, c0, "xyzw"[n])
            right.label(r1, c1, "xyzw"[n])
        if not transposed:
            right.frame(2, 4, 1, 4)
        s.arrow(95 + 8 * cell + 8, y + 2.5 * cell, 345 - 22, y + 2.5 * cell)
        s.text(272, y + 1.4 * cell, "one 128-bit load", size=7.5)
        s.text(272, y + 3.9 * cell, "four 32-bit stores" if transposed else "one 128-bit store", size=7.5,
               colour=RED if transposed else INK)  # fmt: skip
        s.text(159, y - 12, f"tile of {name} in global memory", size=8)
        s.text(409, y - 12, f"s{name} in shared memory", size=8)
        s.text(85, y + 64, "row" if transposed else "k", rotation=90, size=7.5)
        s.text(159, y + 8 * cell + 9, "k" if transposed else "column", size=7.5)
        s.text(335, y + 64, "k", rotation=90, size=7.5)
        s.text(409, y + 8 * cell + 9, "row" if transposed else "column", size=7.5)
        right.frame(5, 0, 1, 4, INK, 2.2)
        s.arrow(345 + 8 * cell + 58, y + 5.5 * cell, 345 + 4 * cell + 3, y + 5.5 * cell)
        rows = "four neighbouring rows" if transposed else "four neighbouring columns"
        s.text(
            345 + 8 * cell + 64,
            y + 5.5 * cell,
            f"later, for one k: one 128-bit\nread gives a thread\n{rows}",
            align="left",
            size=7.5,
        )
    return s


def double_buffer() -> Canvas:
    """Rung 07: what a block does over time, with one buffer and with two."""
    s = Canvas(330, "Rung 07: what one block does over time")
    s.text(14, 48, "one buffer (rung 06)", align="left", weight="bold")
    s.text(100, 76, "global loads", align="right", size=7.5)
    s.text(100, 104, "compute", align="right", size=7.5)
    x, load, put, work = 110.0, 74, 14, 92
    for tile in range(3):
        s.box(x, 64, load, 24, PALE, f"load tile {tile}", size=7.5)
        s.box(x, 92, load, 24, "white", "wait", edge=RED, size=7.5)
        s.box(x + load, 92, put, 24, YELLOW)
        s.boxes([(x + load + put, 58, 2, 64)], INK)
        s.box(x + load + put + 2, 92, work, 24, C, f"tile {tile}", size=8)
        s.boxes([(x + load + put + 2 + work, 58, 2, 64)], INK)
        x += load + put + work + 4
    s.text(14, 152, "two buffers (rung 07)", align="left", weight="bold")
    s.text(100, 180, "global loads", align="right", size=7.5)
    s.text(100, 208, "compute", align="right", size=7.5)
    s.text(100, 240, "buffer 0", align="right", size=7.5)
    s.text(100, 266, "buffer 1", align="right", size=7.5)
    x = 110.0
    s.box(x, 168, load, 24, PALE, "load tile 0", size=7.5)
    s.box(x, 196, load, 24, "white", "wait", edge=RED, size=7.5)
    s.box(x + load, 196, put, 24, YELLOW)
    x += load + put
    first = x
    s.boxes([(x, 162, 2, 116)], INK)
    x += 2
    for tile in range(4):
        s.box(x, 168, load, 24, PALE, f"load tile {tile + 1}", size=7.5)
        s.box(x, 196, work, 24, C, f"tile {tile}", size=8)
        s.box(x + work, 196, put, 24, YELLOW)
        here, other = (232, 258) if tile % 2 == 0 else (258, 232)
        s.box(x, here, work, 16, PALE_C, f"read: tile {tile}", size=7)
        s.box(x + work, other, put, 16, YELLOW)
        x += work + put
        s.boxes([(x, 162, 2, 116)], INK)
        x += 2
    s.box(first - put, 232, put, 16, YELLOW)
    s.box(110, 300, 14, 12, YELLOW)
    s.note(130, 306, "put the loaded tile into shared memory")
    s.boxes([(362, 298, 2, 16)], INK)
    s.note(372, 306, "barrier: all threads of the block wait for each other")
    return s


def padded_shared() -> Canvas:
    """Rung 08: the banks that one transposing store of a warp reaches, with and without padding."""
    s = Canvas(400, "Rung 08: one store of a warp into the transposed tile of A (BK = 8)")
    cell = 17
    for y, pad in ((64, 0), (236, 4)):
        s.text(14, y - 22, f"PAD = {pad}", align="left", weight="bold")
        what = (
            "two threads meet in each of 16 banks: served in two goes"
            if pad == 0
            else "every thread its own bank: served in one go"
        )
        s.text(100, y - 22, what, align="left", colour=RED if pad == 0 else INK)
        grid = s.grid(100, y, 8, 32, cell, "white")
        hit = [(k, (k * pad + r) % 32) for k in (0, 4) for r in range(16)]
        grid.mark(hit, RED if pad == 0 else A, INK)
        for k in range(8):
            s.text(92, y + (k + 0.5) * cell, f"k = {k}", align="right", size=7)
            for r in range(0, 32, 1 if k in (0, 4) else 40):
                grid.label(k, (k * pad + r) % 32, str(r), 6.2)
        for bank in (0, 4, 8, 12, 16, 20, 24, 28, 31):
            s.text(100 + (bank + 0.5) * cell, y - 8, str(bank), size=6.5, colour="#555555")
        s.text(14, y - 8, "bank", align="left", size=7, colour="#555555")
    s.note(
        14, 386, "The numbers are rows of A. Threads 2r and 2r + 1 hold row r: they store its elements k = 0 and k = 4 together."
    )
    return s


def register_reuse() -> Canvas:
    """Rung 09: shared loads and multiply-adds of one thread over time, with one set of fragments and with two."""
    s = Canvas(300, "Rung 09: what one thread does over time")
    s.text(14, 48, "one set of fragments (rung 08)", align="left", weight="bold")
    for y in (76, 190):
        s.text(112, y, "shared loads", align="right", size=7.5)
        s.text(112, y + 28, "multiply-adds", align="right", size=7.5)
    x, load, work = 122.0, 58, 78
    for k in range(4):
        s.box(x, 64, load, 24, PALE, f"k = {k}")
        s.box(x, 92, load, 24, "white", "wait", edge=RED, size=7.5)
        s.box(x + load, 92, work, 24, C, f"k = {k}")
        x += load + work + 3
    s.text(14, 160, "two sets of fragments (rung 09)", align="left", weight="bold")
    x = 122.0
    s.box(x, 178, load, 24, PALE, "0 → set 0", size=7.5)
    s.box(x, 206, load, 24, "white", "wait", edge=RED, size=7.5)
    x += load + 3
    for k in range(6):
        s.box(x, 178, load, 24, (DARKER, PALE)[k % 2], f"{k + 1} → set {(k + 1) % 2}", size=7.5)
        s.box(x, 206, work, 24, C, f"k = {k}, set {k % 2}", size=7.5)
        x += work + 3
    s.note(14, 262, "A fragment is what a thread holds of A (TM values) or B (TN values) for one k.")
    s.note(14, 280, "The loads for k + 1 are issued before the multiply-adds of k and arrive behind them.")
    return s


def warp_tile() -> Canvas:
    """Rung 10: block tile, warp tile, lanes, and the elements of one lane."""
    s = Canvas(410, "Rung 10: 128 × 128 block tile, 32 × 64 warp tiles, 8 × 8 thread tiles")
    s.text(104, 46, "block: 8 warps", weight="bold")
    s.boxes([(30 + c * 74, 60 + r * 37, 74, 37) for r in range(4) for c in range(2)], PALE_C)
    for w in range(8):
        s.text(30 + w % 2 * 74 + 37, 60 + w // 2 * 37 + 18, f"warp {w}", size=7.5)
    s.boxes([(104, 97, 74, 37)], C, width=1.4, above=2)
    s.text(141, 115, "warp 3", size=7.5)
    s.brace(30, 218, 104, 218, "64", 10)
    s.brace(21, 171, 21, 208, "32", -9)
    gx, gy, cell = 262, 92, 24
    s.text(gx + 8 * cell, 46, "warp: its 32 threads (lanes) and what they read for one k", weight="bold")
    grid = s.grid(gx, gy, 8, 16, cell, PALE_C)
    shares = s.grid(gx - 34, gy, 8, 1, cell, PALE_A)
    columns = s.grid(gx, gy - 32, 1, 16, cell, PALE_B)
    lane = 9
    r9, c9 = lane // 16 * 2 + lane % 2, lane // 2 % 8
    cells = [(r9, c9), (r9 + 4, c9), (r9, c9 + 8), (r9 + 4, c9 + 8)]
    grid.mark(cells, C, INK)
    shares.mark([(r9, 0), (r9 + 4, 0)], A, INK)
    columns.mark([(0, c9), (0, c9 + 8)], B, INK)
    for i in range(32):
        for down in (0, 4):
            for right in (0, 8):
                grid.label(i // 16 * 2 + i % 2 + down, i // 2 % 8 + right, str(i), 6.5)
    grid.frame(0, 0, 4, 8)
    s.text(gx - 17, gy - 9, "sA", size=8)
    s.text(gx - 14, gy - 24, "sB", size=8)
    s.arrow(182, 115, gx - 42, 150)
    s.text(
        gx + 8 * cell, gy + 8 * cell + 16, "A cell is 4 × 4 elements of C; a lane has four cells. Lane 9's are dark.", size=7.5
    )
    s.note(14, 330, "The zigzag: lanes 0 and 1 read the same columns of B, lanes 0 and 2 the same rows of A, and so on.")
    s.note(14, 350, "For one k the warp reads 32 values of A and 64 of B: 96 for 32 × 64 multiply-adds.")
    s.note(14, 370, "Rung 09's warp, 2 threads high and 16 wide, covers 16 × 128: it reads 144 values for as many.")
    s.note(14, 390, "Every access of global memory, of A, B and C, is a float4.")
    return s


def split_k() -> Canvas:
    """Rung 11: slices of K, partial products in a workspace, and the launch that adds them."""
    s = Canvas(375, "Rung 11: K cut into slices (drawn: 4), each computed by blocks of its own")
    tints_a, tints_b = ["#FBEBCB", "#F6D594", "#F0BB52", "#E69F00"], ["#DDEFFB", "#B6DFF7", "#86CBF1", "#56B4E9"]
    ax, k = 40, 60
    s.text(ax + 2 * k, 44, "A: few rows, long K", weight="bold")
    for i in range(4):
        s.box(ax + i * k, 58, k, 44, tints_a[i], f"slice {i}", size=7.5)
    s.text(ax + 2 * k, 128, "B: long K, few columns", weight="bold")
    for i in range(4):
        s.box(ax + 2 * k - 22, 142 + i * 46, 44, 46, tints_b[i], f"slice {i}", size=7.5)
    s.text(400, 44, "launch 1: partial products\nin the workspace", weight="bold")
    for i in range(4):
        y = 76 + i * 64
        s.box(378, y, 44, 44, PALE_C, f"C{i}", size=9)
        s.boxes([(302, y + 14, 22, 16)], tints_a[i])
        s.boxes([(336, y + 11, 16, 22)], tints_b[i])
        s.text(330, y + 22, "×", size=9)
        s.text(365, y + 22, "=", size=9)
        s.arrow(426, y + 22, 548, 190)
    s.text(590, 128, "launch 2:\nadd them up", weight="bold")
    s.box(552, 160, 60, 60, C, "C", size=11)
    s.text(582, 246, "alpha · (C0 + C1 + C2 + C3)\n+ beta · C", size=8)
    s.note(14, 346, "Without slices a 256 × 256 result in 128 × 128 tiles gives work to 4 blocks; with 32 slices to 128.")
    s.note(14, 362, "The price: the workspace is written and read once, M × N values a slice, and there is a second launch.")
    return s


def async_copies() -> Canvas:
    """Rung 12: the ring of stages at one moment, and which tile each stage holds as time goes on."""
    s = Canvas(345, "Rung 12: a ring of stages in shared memory (drawn: STAGES = 4)")
    s.box(20, 78, 84, 150, PALE, "global\nmemory", size=8)
    s.text(250, 46, "while tile 4 is computed on", weight="bold")
    for stage, (tile, what) in enumerate(((4, "computed on"), (5, "is there"), (6, "on the way"), (7, "on the way"))):
        y = 64 + stage * 46
        s.box(190, y, 120, 36, C if stage == 0 else PALE_C if stage == 1 else "white", f"stage {stage}: tile {tile}")
        s.text(318, y + 18, what, size=7.5, align="left", weight="bold" if stage == 0 else "normal")
        if stage > 1:
            s.arrow(106, y + 18, 187, y + 18, A)
            s.arrow(106, y + 26, 187, y + 26, B)
    s.text(146, 150, "copies: no\nregisters", size=7.5)
    x, y, w, h = 452, 84, 30, 26
    s.text(x + 3.5 * w, 46, "the stages, one tile after another", weight="bold")
    for step in range(7):
        s.text(x + (step + 0.5) * w, y - 12, str(step), size=7)
    s.text(x - 8, y - 12, "tile", align="right", size=7)
    for stage in range(4):
        s.text(x - 8, y + stage * h + h / 2, f"stage {stage}", align="right", size=7)
        for step in range(7):
            tile = next(t for t in range(step, step + 4) if t % 4 == stage)
            s.box(x + step * w, y + stage * h, w, h, C if tile == step else "white", str(tile), size=7)
            if tile == step + 3:
                s.boxes([(x + step * w + 2, y + stage * h + 2, w - 4, h - 4)], "none", A, 1.6, above=3)
    s.box(x - 42, 208, 14, 12, C)
    s.note(x - 22, 214, "computed on")
    s.boxes([(x + 62, 208, 14, 12)], "white", A, 1.6)
    s.note(x + 82, 214, "its copies begin in this step")
    s.note(
        14,
        272,
        "A stage that has been computed on is filled anew, three tiles ahead. The copies of a tile have three tiles' time to arrive.",
    )
    s.note(
        14,
        292,
        "The barrier of a step does two things: what was copied is visible to all, and all have left the stage that is filled next.",
    )
    s.note(14, 312, "A is still transposed: a copy of one element to its place. B lies as it is: copies of four.")
    return s


def snake_order() -> Canvas:
    """Rung 13: the order of a thread's multiply-adds along rows and as a snake, and what each of them reads from the registers."""
    s = Canvas(420, "Rung 13: the order of one thread's multiply-adds for one k (drawn: 6 × 6 sums)")
    cell, n = 30, 6
    for x, title, snake in ((70, "along the rows", False), (420, "like a snake", True)):
        y = 100
        s.text(x + n * cell / 2, 46, title, weight="bold")
        c = s.grid(x, y, n, n, cell, "white", INK)
        c.mark([(r, k) for r in range(n) for k in range(1, n, 2)], PALE_C, INK)
        a = s.grid(x - cell - 8, y, n, 1, cell, PALE_A, INK)
        b = s.grid(x, y - cell - 8, 1, n, cell, "white", INK)
        b.mark([(0, k) for k in range(0, n, 2)], PALE_B, INK)
        for i in range(n):
            a.label(i, 0, f"a{i}")
            b.label(0, i, f"b{i}")
            middle = y + (i + 0.5) * cell
            left, right = x + 0.4 * cell, x + (n - 0.4) * cell
            back = snake and i % 2 == 1
            s.arrow(right if back else left, middle, left if back else right, middle)
            if i < n - 1:
                if snake:
                    end = left if back else right
                    s.arrow(end, middle, end, middle + cell, C)
                else:
                    s.arrow(right, middle + 2, left, middle + cell - 2, RED)
    s.text(160, 302, "where a row begins both factors are new,\nand the sum: three reads", size=7.5, colour=RED)
    s.text(510, 302, "each step keeps one factor:\ntwo reads, the sum and the other factor", size=7.5)
    s.box(14, 336, 14, 12, PALE_C)
    s.box(32, 336, 14, 12, PALE_B)
    s.note(54, 342, "registers with an odd number;  white: with an even number. A bank gives one register a clock.")
    s.note(
        14,
        366,
        "Along a row, the sum and the b that is read with it lie in different banks.",
    )
    s.note(
        14,
        384,
        "At a turn of the snake the sum is read together with the next a: these two should lie in different banks as well.",
    )
    s.note(14, 402, "Which number a register has is the choice of the compiler. The kernel can only make a good one possible.")
    return s


def cluster_split_k() -> Canvas:
    """Rung 14: a cluster of two blocks that share K, groups of warps in each, and the sums that meet in shared memory."""
    s = Canvas(390, "Rung 14: a cluster of two blocks shares K (drawn: SLICES = 2, GROUPS = 2)")
    s.text(120, 48, "one tile of C: its rows of A", weight="bold")
    bk, x, y = 26, 20, 62
    for i in range(8):
        s.box(x + i * bk, y, bk, 40, A if i < 4 else PALE_A)
        s.boxes([(x + i * bk, y + 41, bk / 2, 5)], INK)
        s.boxes([(x + (i + 0.5) * bk, y + 41, bk / 2, 5)], "white")
    s.brace(x, y + 56, x + 4 * bk, y + 56, "slice 0", 11)
    s.brace(x + 4 * bk, y + 56, x + 8 * bk, y + 56, "slice 1", 11)
    s.arrow(234, 82, 268, 82)
    s.text(124, 158, "(the columns of B likewise)", size=7.5)
    s.boxes([(x, 181, 13, 5)], INK)
    s.note(40, 184, "the share of group 0 in each BK")
    s.boxes([(x, 199, 13, 5)], "white")
    s.note(40, 202, "the share of group 1")
    s.boxes([(272, 40, 190, 262)], "none", GREY, 1.2)
    s.text(367, 54, "cluster", weight="bold")
    for block in range(2):
        top = 68 + block * 118
        s.box(284, top, 166, 106, "white")
        s.text(367, top + 13, f"block {block}: slice {block}", size=8, weight="bold")
        for group in range(2):
            s.box(296 + group * 74, top + 28, 68, 28, "white", f"group {group}", size=7.5)
            s.box(296 + group * 74, top + 68, 68, 28, PALE_C, "partial sums", size=7)
            s.arrow(330 + group * 74, top + 56, 330 + group * 74, top + 68)
    s.text(595, 54, "each block adds half of the tile", weight="bold")
    s.boxes([(540, 130, 110, 55)], C)
    s.boxes([(540, 185, 110, 55)], "#8FD2BD")
    s.text(595, 157, "by block 0", size=8)
    s.text(595, 212, "by block 1", size=8)
    for top, target in ((68, 150), (68, 205), (186, 165), (186, 220)):
        s.arrow(454, top + 82, 536, target)
    s.text(595, 262, "tile of C", size=8)
    s.note(
        14,
        332,
        "The partial sums lie in the shared memory of the two blocks; each block of a cluster can read that of the other.",
    )
    s.note(
        14,
        350,
        "Element by element they are added in a fixed order: block 0's groups, then block 1's. No workspace, no second launch.",
    )
    s.note(14, 368, "No block may leave before all have read: the cluster's barrier stands before the addition and after it.")
    return s


def last_wave() -> Canvas:
    """Rung 15: ten tiles on four SMs, with an idle half wave, and with the remaining tiles cut into equal shares."""
    s = Canvas(355, "Rung 15: ten tiles on four SMs")
    tile, h, x = 72, 24, 62
    tints = [PALE_C, "#8FD2BD", C]
    for y, title, shared in ((66, "a block a tile", False), (206, "the last wave shared out, and done first", True)):
        s.text(14, y - 20, title, align="left", weight="bold")
        for sm in range(4):
            s.text(x - 8, y + sm * h + h / 2, f"SM {sm}", align="right", size=7.5)
            if shared:
                s.box(x, y + sm * h, tile / 2, h, C, f"½ of {sm // 2}", size=6.5)
            for wave in range(2 if shared else 3):
                index = wave * 4 + sm + (2 if shared else 0)
                left = x + (wave + 0.5 * shared) * tile
                if index < 10:
                    s.box(left, y + sm * h, tile, h, tints[wave], f"tile {index}", size=7.5)
                else:
                    s.box(left, y + sm * h, tile, h, "white", "idle", edge=RED, size=7.5)
        end = x + (2.5 if shared else 3) * tile
        s.boxes([(end, y - 6, 1.6, 4 * h + 12)], INK)
        s.text(end + 6, y + 4 * h + 4, "time", size=7.5, align="left")
    s.box(x + 2.5 * tile + 8, 220, 34, 60, YELLOW, "add", size=7.5)
    x = 350
    for y, tiles, what in ((66, 2, "Two tiles left over, laid end to end, and four SMs:"), (156, 3, "Were three left over:")):
        s.text(x, y - 20, what, align="left")
        for end in range(tiles):
            s.brace(x + end * 320 / tiles, y + 12, x + (end + 1) * 320 / tiles, y + 12, f"tile {end}: all its K", -8)
        for sm in range(4):
            s.box(x + sm * 80, y + 20, 80, 26, C, f"SM {sm}")
    s.note(x, 228, "SM 1 then has the end of tile 0 and the beginning of tile 1.")
    s.note(x, 246, "A part of a tile goes to the workspace. A second launch adds")
    s.note(x, 264, "the parts of each tile, always in the same order.")
    s.note(x, 282, "No block waits for another one.")
    s.note(14, 338, "Work of two and a half waves takes the time of two and a half, and not of three.")
    return s


def thin_edge() -> Canvas:
    """Rung 16: the row of tiles at the lower edge of C, as full tiles and as thin ones."""
    s = Canvas(345, "Rung 16: a C of some full rows of tiles and one row more")
    for x, title, thin in ((60, "full tiles everywhere", False), (400, "thin tiles at the edge", True)):
        y, w, h = 66, 56, 50
        s.text(x + 2 * w, 46, title, weight="bold")
        for r in range(3):
            for c in range(4):
                s.box(x + c * w, y + r * h, w, h, PALE_C)
        low = y + 3 * h
        for c in range(4):
            s.boxes([(x + c * w, low, w, 8 if thin else h)], C if thin else "white", INK if thin else RED)
        s.boxes([(x, low, 4 * w, 3)], C, INK, 0.6, above=3)
        s.brace(x - 9, y, x - 9, y + h, "BM", -9)
        s.brace(x, y - 7, x + w, y - 7, "BN", -6)
        s.text(x + 4 * w + 6, low + 4, "16 rows" if thin else "the row left over", size=7.5, align="left")
    s.text(172, 282, "the last four tiles take as long as any,\nfor one row of C", size=8, colour=RED)
    s.text(
        512, 262, "an eighth of the work of a full tile of 128 rows;\nthe block's groups of warps share K, as in rung 14", size=8
    )
    s.note(
        14,
        320,
        "Full and thin tiles are blocks of one launch, with as many threads. The thin ones come last, on SMs that the full ones leave idle.",
    )
    return s


def tensor_cores() -> Canvas:
    """Rung 20: one wgmma instruction on a stage in shared memory, and the two barriers of each stage."""
    s = Canvas(400, "Rung 20: a producer, a ring of stages, and one instruction for a tile of 64 × N × 8")
    s.text(84, 48, "workspace", weight="bold")
    s.box(24, 62, 120, 60, PALE_A, "A, TF32,\nin tiles' order")
    s.box(24, 132, 120, 60, PALE_B, "B, TF32, transposed,\nin tiles' order", size=7.5)
    s.text(292, 48, "ring in shared memory", weight="bold")
    for i in range(3):
        s.box(222, 62 + i * 44, 60, 36, A if i == 0 else PALE_A, "A", size=9)
        s.box(284, 62 + i * 44, 80, 36, B if i == 0 else PALE_B, "B", size=9)
        s.text(214, 80 + i * 44, str(i), size=7.5)
    s.arrow(148, 92, 208, 118, A)
    s.arrow(148, 162, 208, 134, B)
    s.text(176, 86, "bulk\ncopies", size=7.5)
    s.box(24, 228, 120, 40, "white", "producer:\none thread")
    s.box(222, 228, 142, 40, "white", "two warpgroups multiply", size=7.5)
    s.arrow(148, 240, 218, 240)
    s.arrow(218, 258, 148, 258)
    s.text(183, 231, "full", size=7.5)
    s.text(183, 269, "empty", size=7.5)
    s.arrow(84, 226, 84, 196)
    s.arrow(293, 200, 293, 226)
    gx, gy = 470, 150
    s.text(gx + 85, 48, "one instruction", weight="bold")
    s.box(gx - 40, gy, 26, 110, A, "A")
    s.box(gx, gy - 40, 180, 26, B, "B")
    s.box(gx, gy, 180, 110, PALE_C)
    for warp in range(4):
        s.boxes([(gx, gy + warp * 27.5, 180, 27.5)], "none", INK, 0.6, above=2)
        s.text(gx + 90, gy + (warp + 0.5) * 27.5, f"16 rows of sums: registers of warp {warp}", size=7)
    s.brace(gx - 40, gy + 121, gx - 14, gy + 121, "8 of K", 10)
    s.brace(gx - 52, gy, gx - 52, gy + 110, "64", -9)
    s.brace(gx, gy - 51, gx + 180, gy - 51, "N: 64 to 256", -9)
    s.arrow(368, 92, 462, 128)
    s.note(14, 310, "full: the copies have brought their bytes. empty: the multiplying warps have done with the stage.")
    s.note(
        14,
        330,
        "A stage is 32 of K: four such instructions for each warpgroup. The threads issue them and wait; they load nothing.",
    )
    s.note(
        14, 350, "The operands stay in shared memory. Only the sums are in registers, N / 2 of them in each of the 128 threads."
    )
    s.note(14, 370, "A first launch has rounded A and B to TF32 and laid them in the order that the instruction reads.")
    return s


def tensor_split() -> Canvas:
    """Rung 21: a float as two halves, the three products, and the sums of chunks added in float32."""
    s = Canvas(440, "Rung 21: a float is two FP16 numbers, a product three")
    x, y, bit = 180, 62, 18
    s.text(x - 10, y + 10, "the float, scaled", align="right")
    s.boxes([(x + i * bit, y, bit, 20) for i in range(24)], PALE_A, GREY, 0.5)
    s.text(x + 12 * bit, y + 10, "24 bits")
    s.text(x - 10, y + 52, "high: rounded to FP16", align="right")
    s.boxes([(x + i * bit, y + 42, bit, 20) for i in range(11)], A, INK, 0.5)
    s.text(x + 5.5 * bit, y + 52, "11 bits")
    s.text(x - 10, y + 86, "low: what is left, rounded", align="right")
    s.boxes([(x + (i + 12) * bit, y + 76, bit, 20) for i in range(11)], "#F4CE85", INK, 0.5)
    s.text(x + 17.5 * bit, y + 86, "11 bits, and a sign of its own")
    s.boxes([(x + 23 * bit, y + 76, bit, 20)], "none", RED, 1.2, above=3)
    s.text(x + 23.5 * bit, y + 108, "at most this is lost", size=7.5, colour=RED)
    s.text(112, 204, "four products, one left out", weight="bold")
    g = s.grid(70, 248, 2, 2, 56, "white", INK)
    g.mark([(0, 0)], C, INK)
    g.mark([(0, 1), (1, 0)], PALE_C, INK)
    for r, name in enumerate(("high", "low")):
        s.text(62, 248 + (r + 0.5) * 56, name, align="right", size=7.5)
        s.text(70 + (r + 0.5) * 56, 240, name, size=7.5)
    s.text(126, 224, "B", weight="bold")
    s.text(22, 304, "A", weight="bold")
    for r, c, label in ((0, 0, "3rd"), (1, 0, "1st"), (0, 1, "2nd")):
        g.label(r, c, label, 9)
    g.label(1, 1, "left out", 7.5)
    s.text(126, 374, "the small ones first,\nwhile the sum is small", size=7.5)
    s.text(460, 204, "along K: chunks of 64", weight="bold")
    for i in range(4):
        left = 236 + i * 112
        plain = i == 2
        s.box(left, 226, 104, 32, PALE_A, f"chunk {i}: own scale", size=7.5)
        s.box(left, 274, 104, 40, "white" if plain else C, "does not fit:\nfloat32" if plain else "tensor cores,\n3 products", size=7.5,
              edge=RED if plain else INK)  # fmt: skip
        s.arrow(left + 52, 258, left + 52, 273)
        s.arrow(left + 52, 314, left + 52, 346)
    s.box(236, 348, 440, 26, PALE_C, "sum of all chunks: scaled back and added in float32, in registers")
    s.note(
        14,
        412,
        "A chunk goes to the tensor cores only where a count proves that what is lost there is small beside the sum of |a| |b|.",
    )
    s.note(14, 428, "Elsewhere, and where there are infinities or NaN, this chunk of this tile is multiplied in float32.")
    return s


def cpu_loops() -> Canvas:
    """CPU rungs 01 and 02: the order in which the innermost loop touches B, and its cache lines."""
    s = Canvas(300, "CPU rungs 01 and 02: how the innermost loop goes through B")
    for x, title, down in ((40, "01, loops i j k: down a column", True), (385, "02, loops i k j: along a row", False)):
        s.text(x + 136, 48, title, weight="bold")
        grid = s.grid(x, 66, 8, 16, 17, PALE_B)
        touched = [(k, 5) for k in range(8)] if down else [(3, n) for n in range(16)]
        grid.mark(touched, B, INK)
        for line in range(2):
            for k in range(8):
                hit = any(r == k and c // 8 == line for r, c in touched)
                grid.frame(k, 8 * line, 1, 8, RED if hit and down else INK, 1.8 if hit else 0.9)
        if down:
            s.arrow(x + 5.5 * 17, 60, x + 5.5 * 17, 66 + 8 * 17 + 12)
        else:
            s.arrow(x - 8, 66 + 3.5 * 17, x + 16 * 17 + 14, 66 + 3.5 * 17)
        s.text(
            x + 136,
            232,
            "8 steps fetch 8 cache lines\nand use one element of each"
            if down
            else "16 steps fetch 2 cache lines\nand use all of both; SIMD takes several at once",
            size=8,
        )
    s.note(14, 280, "A framed run of eight cells stands for a cache line. A real line of 64 bytes holds 16 floats.")
    return s


def cpu_blocked() -> Canvas:
    """CPU rung 03: a block of B stays in the cache while rows of A pass over it."""
    s = Canvas(300, "CPU rung 03: a block of B stays in the cache while BM rows of A pass over it")
    for x, name, fill, down, right in ((60, "A", PALE_A, "M", "K"), (270, "B", PALE_B, "K", "N"), (490, "C", PALE_C, "M", "N")):
        s.box(x, 66, 150, 150, fill)
        s.text(x + 8, 54, name, weight="bold", size=9)
        s.text(x + 75, 54, right)
        s.text(x - 10, 200, down)
    s.boxes([(60 + 40, 66 + 30, 40, 90)], "#F4CE85", above=2)
    s.boxes([(60 + 40, 66 + 60, 40, 8)], A, above=3)
    s.boxes([(270 + 30, 66 + 40, 100, 40)], B, width=1.6, above=2)
    s.text(350, 126, "stays", size=8)
    s.boxes([(490 + 30, 66 + 30, 100, 90)], "#8FD2BD", above=2)
    s.boxes([(490 + 30, 66 + 60, 100, 8)], C, above=3)
    s.arrow(150, 100, 150, 184)
    s.brace(100, 225, 140, 225, "BK", 11)
    s.brace(300, 225, 400, 225, "BN", 11)
    s.brace(520, 225, 620, 225, "BN", 11)
    s.brace(51, 96, 51, 186, "BM", -11)
    s.brace(261, 106, 261, 146, "BK", -11)
    s.note(
        14,
        274,
        "A row of A's block times the block of B adds to a row of C's block. Then the next row: B's block is used BM times.",
    )
    return s


def cpu_packed() -> Canvas:
    """CPU rung 04: slivers packed in the order in which they are read, and the tile of C in SIMD registers."""
    s = Canvas(345, "CPU rung 04: packed slivers stream past a tile of C (drawn: MR = 4, NR = 8)")
    s.text(100, 50, "A, KC columns of it", weight="bold")
    a = s.grid(40, 66, 12, 8, 15, PALE_A)
    a.mark([(r, k) for r in range(4, 8) for k in range(8)], "#F4CE85")
    a.mark([(r, 0) for r in range(4, 8)], A, INK)
    a.frame(4, 0, 4, 8)
    s.text(200, 141, "MR rows:\na sliver", size=7.5)
    s.text(14, 276, "packed: column by column", align="left", size=8)
    packed = s.grid(40, 290, 1, 16, 13, "#F4CE85")
    packed.mark([(0, i) for i in range(4)], A, INK)
    for i in range(4):
        packed.frame(0, 4 * i, 1, 4, width=1)
    s.arrow(100, 250, 100, 266)
    s.text(590, 50, "B, KC rows of it", weight="bold")
    b = s.grid(490, 66, 8, 14, 13, PALE_B)
    b.mark([(k, n) for k in range(8) for n in range(4, 12)], "#A9D6F4")
    b.mark([(0, n) for n in range(4, 12)], B, INK)
    b.frame(0, 4, 8, 8)
    s.text(594, 182, "NR columns: a sliver", size=7.5)
    s.text(490, 276, "packed: row by row", align="left", size=8)
    packed = s.grid(490, 290, 1, 14, 13, "#A9D6F4")
    packed.mark([(0, i) for i in range(8)], B, INK)
    packed.frame(0, 0, 1, 8, width=1)
    packed.frame(0, 8, 1, 6, width=1)
    s.arrow(594, 196, 594, 266)
    s.text(350, 76, "SIMD registers", weight="bold")
    c = s.grid(292, 112, 4, 8, 15, C, INK)
    s.grid(272, 112, 4, 1, 15, A, INK)
    s.grid(292, 92, 1, 8, 15, B, INK)
    c.frame(0, 0, 4, 8)
    s.text(364, 222, "MR × NR sums; each k adds\na column of A's sliver times\na row of B's sliver", size=7.5)
    s.arrow(254, 292, 280, 178, A, bend=0.15)
    s.arrow(484, 292, 418, 100, B, bend=0.15)
    return s


def row_and_column_major() -> Canvas:
    """The baseline: one piece of memory read by rows and by columns."""
    s = Canvas(235, "The baseline: the same memory, read by rows and by columns")
    s.text(120, 50, "memory", weight="bold")
    memory = s.grid(42, 66, 1, 6, 26, PALE_A, INK)
    for i in range(6):
        memory.label(0, i, str(i), 9)
    s.arrow(208, 79, 262, 79)
    s.arrow(120, 98, 120, 128)
    s.text(330, 50, "by rows: A, 2 × 3", weight="bold")
    rows = s.grid(290, 66, 2, 3, 26, PALE_A, INK)
    for i in range(6):
        rows.label(i // 3, i % 3, str(i), 9)
    s.text(120, 142, "by columns: the transpose, 3 × 2", weight="bold")
    columns = s.grid(94, 156, 3, 2, 22, PALE_A, INK)
    for i in range(6):
        columns.label(i % 3, i // 3, str(i), 9)
    s.text(425, 90, "We want, by rows:     C = A · B", size=9, align="left")
    s.text(275, 158, "The library reads by columns, so it sees the transposes of A, B and C.", size=8, align="left")
    s.text(275, 182, "It must compute     Cᵀ = (A · B)ᵀ = Bᵀ · Aᵀ :", size=9, align="left")
    s.text(275, 206, "give it B first, then A, with M and N exchanged. No data move.", size=8, align="left")
    return s


DRAWINGS: dict[str, Callable[[], Canvas]] = {
    "cuda_01_warp_on_rows": warp_on_rows,
    "cuda_02_warp_on_columns": warp_on_columns,
    "cuda_03_shared_tile": shared_tile,
    "cuda_05_register_tile": register_tile,
    "cuda_06_vectorized_loads": vectorized_loads,
    "cuda_07_double_buffer": double_buffer,
    "cuda_08_padded_shared": padded_shared,
    "cuda_09_register_reuse": register_reuse,
    "cuda_10_warp_tile": warp_tile,
    "cuda_11_split_k": split_k,
    "cuda_12_async_copies": async_copies,
    "cuda_13_snake_order": snake_order,
    "cuda_14_cluster_split_k": cluster_split_k,
    "cuda_15_last_wave": last_wave,
    "cuda_16_thin_edge": thin_edge,
    "cuda_20_tensor_cores": tensor_cores,
    "cuda_21_tensor_split": tensor_split,
    "cpu_01_loops": cpu_loops,
    "cpu_03_blocked": cpu_blocked,
    "cpu_04_packed": cpu_packed,
    "baseline": row_and_column_major,
}


def draw(name: str, path: Path) -> None:
    """Write one drawing; the suffix of `path` says in which format."""
    metadata = {"Date": None, "Creator": None} if path.suffix == ".svg" else None
    with mpl.rc_context({**mpl.rcParamsDefault, **STYLE, "backend": "Agg"}):
        DRAWINGS[name]().figure.savefig(path, metadata=metadata, dpi=100)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    for drawing in sys.argv[1:] or DRAWINGS:
        draw(drawing, IMAGES / f"{drawing}.svg")
