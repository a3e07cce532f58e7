"""Tensor maps: what a header describes, what is refused, and what the driver is asked to encode."""

import pytest
from cuda.bindings import driver
from ladder.core.errors import InputError
from ladder.model import kernel_file
from ladder.model.kernel import Configuration
from ladder.model.problem import Problem
from ladder.model.tensor_map import MAP_BYTES, TensorMap, encoded
from planted import written
from rungs import ALL

HEADER = """/*---
title: A kernel
idea: an idea
parameters: {{BM: 64}}
element_types: [float16, float32]
where: {{pitch: "ceil_div(K, 8) * 16"}}
block: [128]
grid: [1]
workspace: M * pitch
tensor_maps:
{maps}
---*/
"""
MAPS = """  - {of: A, box: [64, BM], swizzle: 128}
  - {of: C, box: [32, 16], swizzle: 64}
  - {of: workspace, at: 16, width: K, height: M - 1, pitch: pitch, box: [64, BM], swizzle: 128}"""
HALF = Configuration("float16", (("BM", 64),))
DEVICE = {"sm_count": 4, "shared_memory_per_block": 1, "clusters_of_4": 1}


def parse(folder, maps=MAPS):
    path = written(folder / "kernels" / "cuda" / "50_maps.cu", HEADER.format(maps=maps))
    return kernel_file.parse(path)


def given(**layout):
    return Problem(100, 40, 72, "float16", **layout).names() | DEVICE


def test_a_map_describes_an_operand_or_a_part_of_the_workspace(tmp_path):
    kernel = parse(tmp_path)
    assert kernel.maps(HALF, given(padding="8,0,16")) == [
        TensorMap("A", 0, 72, 100, 160, (64, 64), 128, 2),
        TensorMap("C", 0, 40, 100, 112, (32, 16), 64, 2),
        TensorMap("workspace", 16, 72, 99, 144, (64, 64), 128, 2),
    ]
    assert kernel.unmet_need(HALF, given()) == ""
    assert {"of": "A", "box": [64, "BM"], "swizzle": 128} in kernel.geometry


@pytest.mark.parametrize("layout", [{"padding": "1,0,0"}, {"offset": "4,0,0"}])
def test_operands_need_aligned_rows_but_c_does_not(tmp_path, layout):
    kernel = parse(tmp_path)
    reason = "tensor_maps[0]: needs rows of A that begin at multiples of 16 bytes"
    assert kernel.unmet_need(HALF, given(**layout)) == reason
    # nothing is said of B, and C does without
    assert kernel.unmet_need(HALF, given(offset="8,1,3", padding="8,1,1")) == ""


def test_rows_of_8_bits_need_16_elements_and_c_has_its_own_size():
    kernel, names = ALL["cuda/51_fp8_promoted"], {"layout": "nt", "element_type": "float8_e4m3"}
    configuration = Configuration("float8_e4m3", tuple(kernel.parameters.items()), layout="nt")

    def need(k, **given):
        problem = Problem(100, 40, k, **names, **given)
        return kernel.unmet_need(configuration, problem.names() | DEVICE)

    assert need(64) == need(64, padding="16,32,3", offset="16,0,1") == ""
    assert Problem(100, 40, 64, **names, offset="16,8,1").alignments == [16, 8, 2]
    assert need(72) == "tensor_maps[0]: needs rows of A that begin at multiples of 16 bytes"
    pitches = [
        each.pitch
        for each in kernel.maps(configuration, Problem(100, 40, 64, **names).names() | DEVICE)
    ]
    assert pitches == [64, 64, 80]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("[64, BM]", "[64, 5 * BM]", "[0]: box: got 64 x 320 elements; expected 1 to 256 each way"),
        (
            "[64, BM]",
            "[72, BM]",
            "[0]: box: got rows of 144 bytes; expected a multiple of 16, at most the 128 bytes",
        ),
        ("[32, 16]", "[4, 16]", "[1]: box: got rows of 8 bytes; expected a multiple of 16"),
        ("swizzle: 128", "swizzle: BM + 1", "[0]: swizzle: got 65; expected 0, 32, 64, 128"),
        (
            "at: 16",
            "at: 160",
            "[2]: got bytes 160 to 14416 of the workspace; expected at most its 14400",
        ),
        ("pitch: pitch", "pitch: 136", "[2]: got rows of 144 bytes, 136 apart, from byte 16 on"),
        ("at: 16", "at: 8", "from byte 8 on; expected them apart, by multiples of 16"),
    ],
)
def test_what_cannot_be_encoded_is_not_supported_and_says_why(tmp_path, old, new, reason):
    unmet = parse(tmp_path, MAPS.replace(old, new)).unmet_need(HALF, given())
    assert unmet.startswith("tensor_maps[")
    assert reason in unmet


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("of: A", "of: D", 'tensor_maps[0].of: got "D"; expected A, B, C or workspace'),
        (
            "box: [64, BM]",
            "box: [64]",
            "tensor_maps[0].box: got [64]; expected a list of two expressions",
        ),
        ("box: [64, BM]", "box: [64, BK]", "tensor_maps[0].box: expression `BK`: unknown name BK"),
        (
            "of: A",
            "of: A, at: 4",
            "tensor_maps[0].at: got 4; expected the key in maps of the workspace only",
        ),
        ("at: 16, ", "", "tensor_maps[2]: missing key at"),
    ],
)
def test_a_bad_map_is_named(tmp_path, old, new, reason):
    with pytest.raises(InputError) as error:
        parse(tmp_path, MAPS.replace(old, new, 1))
    assert reason in str(error.value)


def test_the_driver_is_asked_for_rows_and_boxes_in_its_order(monkeypatch):
    asked, answer = [], [driver.CUresult.CUDA_SUCCESS, driver.CUtensorMap()]

    def encode(*arguments):
        asked.append(arguments)
        return answer

    monkeypatch.setattr(driver, "cuTensorMapEncodeTiled", encode)
    encoded.cache_clear()
    described = TensorMap("workspace", 64, 72, 99, 144, (64, 32), 128, 2)
    assert len(encoded(described, "bfloat16", 1088)) == MAP_BYTES
    elsewhere = TensorMap("C", 0, 8, 8, 20, (8, 8), 0, 2, aligned=False)
    assert encoded(elsewhere, "float16", 8192) == bytes(MAP_BYTES)
    ((kind, rank, address, *extents, _, swizzle, _, _),) = asked
    assert (kind.name, rank, address) == ("CU_TENSOR_MAP_DATA_TYPE_BFLOAT16", 2, 1088)
    assert [[int(extent) for extent in each] for each in extents] == [
        [72, 99],
        [144],
        [64, 32],
        [1, 1],
    ]
    assert swizzle == driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B
    for of, size in (("A", 1), ("C", 2)):  # of 8 bits, with a C of bfloat16
        encoded(TensorMap(of, 0, 64, 64, 128, (64, 32), 128, size), "float8_e4m3", 1024)
    assert [kind.name.rpartition("_")[2] for kind, *_ in asked[1:]] == ["UINT8", "BFLOAT16"]
    answer[0] = driver.CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(ValueError, match=r"does not encode TensorMap.*CUDA_ERROR_INVALID_VALUE"):
        encoded(described, "float32", 1088)
