"""Read a compiled kernel: its functions, whether it keeps state on the device, and whether it uses
the tensor cores.
"""

import struct
from dataclasses import dataclass

TOOLKITS_TABLES = {"__cudart_sin_cos_coeffs": 128, "__cudart_i2opi_d": 144, "__cudart_i2opi_f": 24}
"""Constants that the toolkit's sine and cosine store among the variables, with their sizes in
bytes.
"""
MATRIX_INSTRUCTIONS = {0x037, 0x03C, 0x03D, 0x03F, 0x1F0, 0x1F1, 0x1F2, 0x1F3}
"""The low nine bits of IMMA, HMMA, BMMA, DMMA, HGMMA, IGMMA, BGMMA and QGMMA, as nvdisasm of CUDA
13 shows them for sm_80 to sm_90a.
"""
_OBJECT, _SYMBOLS, _RELOCATIONS, _EXPORTED = 1, 2, 4, 11
"""STT_OBJECT, the symbol type of a variable; SHT_SYMTAB, SHT_RELA and SHT_DYNSYM, section types.

Source: Tool Interface Standard, Executable and Linking Format 1.2, 1995.
"""
_VARIABLES = ".nv.global"
"""The prefix of the names of sections with variables. Initialized variables have a separate
section.
"""
_ADDRESSES = 4
"""The constant bank that holds the addresses of variables."""
_CONSTANTS = ".nv.constant3"
"""The section of `__constant__` variables."""
_CONSTANTS_AT = {0x50, 0xD0, 0x120}
"""Offsets in constant bank 0 at which the driver stores the address of the `__constant__`
variables.

nvcc of CUDA 13 reads it at these offsets for sm_75 to sm_89, for sm_90, and for sm_100 to sm_120.
Code that has the address can write to the variables, and what it writes outlives the launch.
"""
_HEAP = ("malloc", "__cuda_syscall_aligned_malloc")
"""Driver functions that allocate memory, which may still hold what an earlier launch left there."""
_BARRIER = 0x11D
"""The low nine bits of BAR."""


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    data: bytes
    link: int


def elf_sections(cubin: bytes) -> list[_Section]:
    """Return the sections of a 64-bit ELF file. Raises `ValueError` if it is not one."""
    if cubin[:5] != b"\x7fELF\x02":
        raise ValueError("not a 64-bit ELF file")
    (start,), (size, count, names) = (
        struct.unpack_from("<Q", cubin, 40),
        struct.unpack_from("<3H", cubin, 58),
    )
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", cubin, start + index * size) for index in range(count)
    ]

    def data(header: tuple[int, ...]) -> bytes:
        return cubin[header[4] : header[4] + header[5]]

    texts = data(headers[names])
    return [
        _Section(_text(texts, header[0]), header[1], data(header), header[6]) for header in headers
    ]


def _text(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode(errors="replace")


def _symbols(sections: list[_Section], kind: int = _SYMBOLS) -> list[tuple[str, int, int, str]]:
    """Return the name, type, size and section name of every symbol. The section is "" for a symbol
    defined elsewhere.
    """
    (table,) = (section for section in sections if section.kind == kind)
    return [
        (
            _text(sections[table.link].data, name),
            info & 15,
            size,
            sections[index].name if index < len(sections) else "",
        )
        for name, info, _, index, _, size in struct.iter_unpack("<IBBHQQ", table.data)
    ]


def state(cubin: bytes) -> list[str]:
    """Return the names of everything that outlives a launch in device memory, sorted.

    These are `__device__` variables, `static` variables of functions, `__constant__` variables
    whose address is taken, and
    `malloc`. A kernel with any of them could remember the operands of an earlier launch. Variables
    count only if code asks for the address of any variable: NVRTC makes a variable of every
    `constexpr`, and no code asks for its address. Raises
    `ValueError` if the bytes are not a cubin.
    """
    sections, texts = elf_sections(cubin), code(cubin)
    symbols = _symbols(sections)
    kept = {name for name, _, _, section in symbols if name in _HEAP and not section}
    if any(at in _CONSTANTS_AT for text in texts for at in _reads(text, 0)):
        kept |= {
            name for name, kind, _, section in symbols if kind == _OBJECT and section == _CONSTANTS
        }
    held = any(
        symbols[info >> 32][3].startswith(_VARIABLES)
        for section in sections
        if section.kind == _RELOCATIONS and section.name != ".rela.nv.constant4"
        for _, info, _ in struct.iter_unpack("<QQq", section.data)
    )
    if held or any(_reads(text, _ADDRESSES) for text in texts):
        kept |= {
            name
            for name, kind, size, section in symbols
            if kind == _OBJECT
            and section.startswith(_VARIABLES)
            and TOOLKITS_TABLES.get(name) != size
        }
    return sorted(kept)


def _reads(text: bytes, bank: int) -> set[int]:
    """Return the byte offsets at which code reads a constant bank.

    Instructions with a constant operand have 3 or 5 in bits 9 to 11, the word in bits 40 to 53, and
    the bank in bits 54 to 58, as nvcc of CUDA 13 encodes them for sm_75 to sm_120. Barriers do not
    count: these bits hold their number.
    """
    words = (word for word, _ in struct.iter_unpack("<QQ", text))
    return {
        (word >> 40 & 0x3FFF) * 4
        for word in words
        if word >> 54 & 31 == bank and word >> 9 & 7 in (3, 5) and word & 0x1FF != _BARRIER
    }


def code(cubin: bytes) -> list[bytes]:
    """Return the machine code of every function: 128-bit instructions since Volta. Raises
    `ValueError` if the bytes are not a cubin.
    """
    return [section.data for section in elf_sections(cubin) if section.name.startswith(".text.")]


def information(cubin: bytes) -> dict[str, bytes]:
    """Return the section `.nv.info` of each `__global__` function, by name. Raises `ValueError` if
    the bytes are not a cubin.
    """
    begin = ".nv.info."
    return {
        s.name.removeprefix(begin): s.data for s in elf_sections(cubin) if s.name.startswith(begin)
    }


def exported(library: bytes) -> list[str]:
    """Return the names that a shared object exports. Raises `ValueError` if the bytes are not a
    64-bit ELF file.
    """
    return [name for name, _, _, section in _symbols(elf_sections(library), _EXPORTED) if section]


def uses_tensor_cores(cubin: bytes) -> bool:
    """Return whether the machine code has a matrix instruction. Raises `ValueError` if the bytes
    are not a cubin.
    """
    return any(
        int.from_bytes(text[at : at + 2], "little") & 0x1FF in MATRIX_INSTRUCTIONS
        for text in code(cubin)
        for at in range(0, len(text), 16)
    )
