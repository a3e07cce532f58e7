"""What a compiled CUDA kernel says of itself: whether it keeps state on the device, and whether it uses the tensor cores."""

import struct
from dataclasses import dataclass

TOOLKITS_TABLES = {"__cudart_sin_cos_coeffs": 128, "__cudart_i2opi_d": 144, "__cudart_i2opi_f": 24}
"""Constants that the toolkit's own sine and cosine keep where variables are, with their sizes in bytes."""
MATRIX_INSTRUCTIONS = {0x037, 0x03C, 0x03D, 0x03F, 0x1F0, 0x1F1, 0x1F2, 0x1F3}
"""The low nine bits of IMMA, HMMA, BMMA, DMMA, HGMMA, IGMMA, BGMMA and QGMMA, as nvdisasm of CUDA 13 shows them for sm_80 to sm_90a."""
_OBJECT, _SYMBOLS, _RELOCATIONS = 1, 2, 4
"""STT_OBJECT, the type of a variable's symbol; SHT_SYMTAB and SHT_RELA, of sections (Tool Interface Standard, Executable and Linking Format
1.2, 1995)."""
_VARIABLES = ".nv.global"
"""What the names of the sections of variables begin with; those with an initial value are in one of their own."""
_BARRIER = 0x11D
"""The low nine bits of BAR."""


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    data: bytes
    link: int


def _sections(cubin: bytes) -> list[_Section]:
    """The sections of a 64-bit ELF file; raises `ValueError` for what is none."""
    if cubin[:5] != b"\x7fELF\x02":
        raise ValueError("not a 64-bit ELF file")
    (start,), (size, count, names) = struct.unpack_from("<Q", cubin, 40), struct.unpack_from("<3H", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, start + index * size) for index in range(count)]

    def data(header: tuple[int, ...]) -> bytes:
        return cubin[header[4] : header[4] + header[5]]

    texts = data(headers[names])
    return [_Section(_text(texts, header[0]), header[1], data(header), header[6]) for header in headers]


def _text(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode(errors="replace")


def _symbols(sections: list[_Section]) -> list[tuple[str, int, int, str]]:
    """Name, type and size of every symbol, and the name of its section, "" for one that is defined elsewhere."""
    (table,) = (section for section in sections if section.kind == _SYMBOLS)
    return [
        (_text(sections[table.link].data, name), info & 15, size, sections[index].name if index < len(sections) else "")
        for name, info, _, index, _, size in struct.iter_unpack("<IBBHQQ", table.data)
    ]


def state(cubin: bytes) -> list[str]:
    """Names of the variables in device memory that outlive a launch: `__device__`, or `static` in a function, and not `__constant__`.

    A kernel that has one could remember the operands it has seen. It counts where anything asks for the address of any: NVRTC makes a
    variable of every `constexpr`, which nothing asks for. Raises `ValueError` for what is no cubin.
    """
    sections = _sections(cubin)
    symbols = _symbols(sections)
    held = any(
        symbols[info >> 32][3].startswith(_VARIABLES)
        for section in sections
        if section.kind == _RELOCATIONS and section.name != ".rela.nv.constant4"
        for _, info, _ in struct.iter_unpack("<QQq", section.data)
    )
    if not held and not any(map(_reads_addresses, code(cubin))):
        return []
    return sorted(
        name
        for name, kind, size, section in symbols
        if kind == _OBJECT and section.startswith(_VARIABLES) and TOOLKITS_TABLES.get(name) != size
    )


def _reads_addresses(text: bytes) -> bool:
    """Whether code reads the bank of constants that holds the addresses of variables, number 4.

    Instructions with a constant have 3 or 5 in bits 9 to 11, and the bank in bits 54 to 58, as nvcc of CUDA 13 makes them for sm_75 to
    sm_120; but barriers have their number there.
    """
    words = (word for word, _ in struct.iter_unpack("<QQ", text))
    return any(word >> 54 & 31 == 4 and word >> 9 & 7 in (3, 5) and word & 0x1FF != _BARRIER for word in words)


def code(cubin: bytes) -> list[bytes]:
    """The machine code of every function, of 128-bit instructions since Volta. Raises `ValueError` for what is no cubin."""
    return [section.data for section in _sections(cubin) if section.name.startswith(".text.")]


def uses_tensor_cores(cubin: bytes) -> bool:
    """Whether its machine code has a matrix instruction. Raises `ValueError` for what is no cubin."""
    return any(
        int.from_bytes(text[at : at + 2], "little") & 0x1FF in MATRIX_INSTRUCTIONS
        for text in code(cubin)
        for at in range(0, len(text), 16)
    )
