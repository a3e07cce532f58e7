import re
from pathlib import Path

import pytest
import yaml
from ladder.compiling import provenance, toolchain
from ladder.core import yaml_schema
from ladder.core.errors import InputError
from ladder.core.files import digest
from ladder.core.types import DISTRIBUTIONS
from ladder.devices import detect
from ladder.devices.detect import DetectedDevice
from ladder.model import campaign, campaign_file, kernel_file
from ladder.model.problem import Problem
from planted import ROOT, written

KERNELS = kernel_file.discover(ROOT)
BASE = """
campaign: test
kernels: [cuda/03_shared_tile, cpu/03_blocked]
problems:
  cuda: [{square: [64, 128]}, [1, 2, 3]]
  cpu: [{square: 64}]
"""
H200 = DetectedDevice("nvidia-h200", "cuda", "NVIDIA H200", "sm_90", 141 << 30, ("GPU-1",), "580")
CPU = DetectedDevice("cpu-test", "cpu", "Test CPU", "cpu-test", 16 << 30)


def load(text: str) -> campaign.Campaign:
    return campaign_file.load(yaml_schema.load(text, "config/test.yaml"), "config/test.yaml", KERNELS)


def change(**keys: object) -> str:
    return yaml.safe_dump(yaml.safe_load(BASE) | keys)


def problems(entries: list[object], **keys: object) -> list[Problem]:
    """The problems of a campaign on GPUs that lists these entries."""
    return load(change(problems={"cuda": entries}, **keys)).problems("cuda", "float32")


def test_problems_are_crossed_and_listed():
    expanded = problems([{"M": [1, 2], "N": 3, "K": [4, 5]}, {"square": [7, 7]}, [1, 3, 4]])
    assert [(p.m, p.n, p.k) for p in expanded] == [(1, 3, 4), (1, 3, 5), (2, 3, 4), (2, 3, 5), (7, 7, 7)]


def test_a_problem_may_have_operands_of_its_own():
    own = [{"square": [64, 65], "beta": 0.5, "padding": 3}, {"M": 8, "N": 9, "K": 10, "alpha": 2}]
    expanded = problems([{"square": 64}, *own, [64, 64, 64]], beta=0.25)
    assert [(p.label, p.lda) for p in expanded] == [
        ("8x9x10 alpha=2 beta=0.25", 10), ("64 beta=0.25", 64), ("64 beta=0.5 padding=3", 67), ("65 beta=0.5 padding=3", 68),
    ]  # fmt: skip
    assert Problem(64, 64, 64).label == "64"


def test_a_b_and_c_may_have_paddings_and_offsets_of_their_own():
    entries = [{"square": [64, 65], "padding": [1, 4, 2], "offset": [0, 1, 3]}, {"square": 66, "offset": 2}, [67, 67, 67]]
    expanded = problems(entries, padding=[0, 5, 0])
    assert [(p.label, p.lda, p.ldb, p.ldc, p.offsets, p.names()["alignment"]) for p in expanded] == [
        ("64 padding=1,4,2 offset=0,1,3", 65, 68, 66, [0, 1, 3], 4),
        ("65 padding=1,4,2 offset=0,1,3", 66, 69, 67, [0, 1, 3], 4),
        ("66 padding=0,5,0 offset=2", 66, 71, 66, [2, 2, 2], 8),
        ("67 padding=0,5,0", 67, 72, 67, [0, 0, 0], 16),
    ]


def test_an_entry_may_have_several_distributions():
    several = {"M": 8, "N": 9, "K": [10, 20], "distribution": ["normal", "sparse"]}
    expanded = problems([several, {"square": 64, "distribution": "huge"}, {"square": 64}], distribution="positive")
    assert [p.label for p in expanded] == [
        "8x9x10 distribution=normal", "8x9x10 distribution=sparse", "8x9x20 distribution=normal", "8x9x20 distribution=sparse",
        "64 distribution=huge", "64 distribution=positive",
    ]  # fmt: skip
    with pytest.raises(InputError, match=r'problems.cuda\[0\]: got .*"gamma".*'):
        problems([{"square": 64, "distribution": "gamma"}])


def test_every_configuration_and_baseline_is_planned():
    plan = load(change(parameters={"cuda/03_shared_tile": {"BM": [16, 64], "BN": [16, 32], "BK": [16]}}))
    assert plan.jobs("cuda") == ["baselines.float32", "03_shared_tile.float32"]
    objections = {c["label"]: c["objection"] for c in plan.plan("cuda", "03_shared_tile.float32")["candidates"]}
    assert objections == {
        "BM=16 BN=16 BK=16": "", "BM=16 BN=32 BK=16": "", "BM=64 BN=16 BK=16": "",
        "BM=64 BN=32 BK=16": "2048 threads a block; at most 1024",
    }  # fmt: skip


def test_a_baseline_is_planned_for_the_element_types_that_it_has_and_cublaslt_with_its_algorithms():
    plan = load(change(element_types=["float32", "bfloat16"]))
    by_type = {kind: plan.plan("cuda", f"baselines.{kind}")["candidates"] for kind in ("float32", "bfloat16")}
    names = {kind: list(dict.fromkeys(c["name"] for c in candidates)) for kind, candidates in by_type.items()}
    assert names == {
        "float32": ["cublas", "cublas_tf32", "cublaslt_best"],
        "bfloat16": ["cublas", "cublas_fp32_sums", "cublaslt_best"],
    }
    labels = [c["label"] for c in by_type["float32"] if c["name"] == "cublaslt_best"]
    assert labels == ["-", *(f"ALGORITHM={number}" for number in range(8))]


def test_configurations_are_compiled_in_every_way_asked_for():
    given = {"compiler": ["nvcc", "nvrtc"], "options": {"dlcm": "cg", "maxrregcount": [128, 255]}}
    plan = load(change(parameters={"cuda/03_shared_tile": {"BM": [16], "BN": [16], "BK": [16]}}, **given))
    candidates = plan.plan("cuda", "03_shared_tile.float32")["candidates"]
    assert [candidate["label"].removeprefix("BM=16 BN=16 BK=16 ") for candidate in candidates] == [
        "maxrregcount=128 dlcm=cg", "maxrregcount=255 dlcm=cg",
        "compiler=nvrtc maxrregcount=128 dlcm=cg", "compiler=nvrtc maxrregcount=255 dlcm=cg",
    ]  # fmt: skip
    assert len({candidate["label"] for candidate in candidates}) == 4
    assert len(plan.configurations["cpu/03_blocked"]) == len(load(BASE).configurations["cpu/03_blocked"])


@pytest.mark.parametrize(("keys", "message"), [
    ({"compiler": "clang"}, 'compiler: got "clang"; expected nvcc, nvrtc, or a list of both'),
    ({"options": {"use_fast_math": True}}, "options: unknown key 'use_fast_math'; expected one of dlcm, maxrregcount"),
    ({"options": {"maxrregcount": [128, 256]}}, "options.maxrregcount: got [128, 256]; expected a whole number from 16 to 255"),
    ({"options": {"dlcm": "cv"}}, 'options.dlcm: got "cv"; expected ca, cg, or a list of both'),
    ({"problem": 1}, "config/test.yaml: unknown key 'problem'; did you mean `problems`? Expected one of alpha,"),
    ({"campaign": "Über"}, 'campaign: got "\\u00dcber"; expected a name'),
    ({"figures": {"width": 1}}, "figures.width: got 1; expected a width in inches from 3 to 20, such as 3.4 or 7.1"),
    ({"figures": {"wide": 4}}, "figures: unknown key 'wide'; expected one of formats, width"),
    ({"figures": {"formats": ["gif"]}}, 'figures.formats[0]: got "gif"; expected pdf or png'),
    ({"campaign": "redrawn"}, 'campaign: got "redrawn"; expected a name other than'),
    ({"alpha": "one"}, 'alpha: got "one"; expected a number'),
    ({"problems": {"cuda": [{"square": [64, -5]}]}}, 'problems.cuda[0]: got {"square": [64, -5]}; expected a problem'),
    ({"problems": {"cuda": [{"square": [0]}]}}, "sizes are whole numbers from 1"),
    ({"problems": {"cuda": [[64, 64]]}}, "problems.cuda[0]: got [64, 64]; expected a problem"),
    ({"problems": {"cuda": [{"square": 64, "padding": -1}]}}, "problems.cuda[0]: got"),
    ({"problems": {"cuda": [{"square": 64, "offset": [1, 2]}]}}, "problems.cuda[0]: got"),
    ({"padding": [1, 2]}, "padding: got [1, 2]; expected a whole number of elements from 0 to 4096, or three of them"),
    ({"problems": {"cuda": [{"square": 64, "seed": 1}]}}, "problems.cuda[0]: got"),
    ({"problems": {"gpu": [[1, 1, 1]]}}, "problems: unknown key 'gpu'; expected one of cpu, cuda"),
    ({"partitions": {"a": {}}}, "partitions.a: missing key device"),
    ({"partitions": {"a": {"device": "nvidia-h200"}}}, "partitions.a: missing key architecture; expected that of its GPUs"),
    ({"partitions": {"build": {"device": "cpu-x"}}}, 'partitions: got "build"; expected a name'),
    ({"partitions": {"a": {"device": "cpu-x", "resources": {"gpu": 1.5}}}}, "resources.gpu: got 1.5; expected a whole number"),
    ({"partitions": {"a": {"device": "cpu-x", "resources": {"Gres": 1}}}}, 'got "Gres"; expected a resource such as'),
    ({"kernels": ["cuda/03_shared"]}, 'kernels[0]: got "cuda/03_shared"; did you mean `cuda/03_shared_tile`? Expected one of'),
    ({"campaign": "export"}, 'campaign: got "export"; expected a name other than'),
    ({"campaign": "try"}, 'campaign: got "try"; expected a name other than export, published, redrawn, studies and try'),
    ({"element_types": ["float32"] * 2},
     'got ["float32", "float32"]; expected a list of float32, float64, float16, bfloat16, each once'),
    ({"parameters": {"cuda/33": {"BM": [1]}}}, "parameters.cuda/33: unknown kernel; expected one of"),
    ({"parameters": {"cuda/03_shared_tile": {"BQ": [1]}}},
     "parameters.cuda/03_shared_tile.BQ: got [1]; expected one of BM, BN, BK"),
    ({"parameters": {"cuda/03_shared_tile": {"BM": ["x"]}}},
     'parameters.cuda/03_shared_tile.BM[0]: got "x"; expected a whole number'),
    ({"parameters": {"cuda/03_shared_tile": {"BM": [512]}}}, "none of the 2 configurations is legal; expected at least one"),
    ({"element_types": ["float33"]}, 'element_types[0]: got "float33"; expected float32'),
    ({"element_types": ["float16"]}, 'element_types: got ["float16"]; cpu/03_blocked supports float32, float64 only'),
    ({"measure": {"min_samples": 20, "max_samples": 10}}, "measure.max_samples: got 10; expected at least min_samples, 20"),
    ({"measure": {"samples": 1}}, "measure: unknown key 'samples'; did you mean `sample_us`? Expected one of max_samples,"),
    ({"measure": {"sustained": [0]}}, "measure.sustained[0]: got 0; expected a problem such as 4096 or 64x4096x4096"),
    ({"measure": {"sustained": ["4096x2"]}},
     'measure.sustained[0]: got "4096x2"; expected a problem such as 4096 or 64x4096x4096'),
    ({"confirm": {"process": 3}},
     "confirm: unknown key 'process'; did you mean `processes`? Expected one of cpu, cuda, finalists, processes, rounds"),
    ({"confirm": {"processes": 2}},
     "confirm.processes: got 2; expected 0, which leaves the confirmation out, or at least 3: how far"),
    ({"confirm": {"cpu": {"processes": 3}}}, "confirm.cpu: unknown key 'processes'; expected one of finalists, rounds, seconds"),
    ({"confirm": {"cpu": {"rounds": 2}}}, "confirm.cpu.rounds: got 2; expected a whole number from 3 to 10000"),
    ({"confirm": {"rounds": 2}}, "confirm.rounds: got 2; expected a whole number from 3 to 10000"),
    ({"confirm": {"within": 2}}, "confirm.within: got 2; expected a share from 0 to 0.5"),
    ({"baselines": {"cuda": ["cublas_tf32"]}}, "that has cublas, the reference, in it"),
    ({"architectures": ["90"]}, 'architectures: got ["90"]; expected auto, or a list'),
])  # fmt: skip
def test_a_bad_key_is_named(keys, message):
    with pytest.raises(InputError) as error:
        load(change(**keys))
    assert message in str(error.value)
    assert str(error.value).startswith("config/test.yaml: ")


def test_yaml_that_is_none_is_named():
    for text in ("campaign: [", "campaign: a\ncampaign: b\n", "just text", "!!python/object/apply:os.system [ls]"):
        with pytest.raises(InputError, match=r"config/test\.yaml: "):
            load(text)


def test_a_problem_must_fit_the_device():
    plan = load(change(problems={"cuda": [{"square": 100000}], "cpu": [[1, 1, 1]]}))
    message = r"problems\.cuda: got \[100000, 100000, 100000\] in float32, which takes .* GiB of NVIDIA H200"
    with pytest.raises(InputError, match=message):
        detect.resolve(plan, [H200], CPU)


def test_devices():
    assert detect.resolve(load(BASE), [], CPU) == [CPU]
    assert detect.resolve(load(BASE), [H200], CPU) == [H200]
    assert detect.resolve(load(change(devices=["cpu", "cuda"])), [H200], CPU) == [CPU, H200]
    for keys, message in [
        ({"devices": ["cuda"]}, r"devices\[0\]: got 'cuda', but no usable GPU was found here"),
        ({"devices": ["nvidia-h200"]},
         "got 'nvidia-h200', which is not on this machine; expected auto, cuda, cpu or one of cpu-test"),
        ({"devices": ["cpu"], "problems": {"cuda": [[1, 1, 1]]}}, "problems.cpu: missing"),
        ({"problems": {"cuda": [[1, 1, 1]]}}, "problems: got none for cpu"),
    ]:  # fmt: skip
        with pytest.raises(InputError, match=message):
            detect.resolve(load(change(**keys)), [], CPU)


PARTITIONS = {
    "a100": {"device": "nvidia-a100", "architecture": "sm_80", "resources": {"slurm_partition": "a"}},
    "h100": {"device": "nvidia-h100", "architecture": "sm_90"},
    "epyc": {"device": "cpu-test"},
}


def test_with_partitions_the_devices_are_the_clusters_whatever_is_here():
    plan = load(change(partitions=PARTITIONS))
    everywhere = detect.resolve(plan, [], CPU)
    assert everywhere == detect.resolve(plan, [H200], CPU)
    assert [(d.slug, d.kind, d.name, d.arch) for d in everywhere] == [
        ("a100", "cuda", "nvidia-a100", "sm_80"),
        ("epyc", "cpu", "cpu-test", "cpu-test"),
        ("h100", "cuda", "nvidia-h100", "sm_90"),
    ]
    assert toolchain.architectures(plan, everywhere, [H200]) == ["sm_80", "sm_90"]
    assert toolchain.architectures(plan, everywhere[1:2], [H200]) == []
    chosen = detect.resolve(load(change(partitions=PARTITIONS, devices=["h100"])), [], CPU)
    assert [device.slug for device in chosen] == ["h100"]
    for keys, message in [
        ({"devices": ["cpu"]}, r"devices\[0\]: got 'cpu'; expected one of the campaign's partitions, a100, epyc, h100"),
        ({"problems": {"cuda": [[1, 1, 1]]}}, "problems.cpu: missing; expected problems for partition epyc"),
    ]:
        with pytest.raises(InputError, match=message):
            detect.resolve(load(change(partitions=PARTITIONS, **keys)), [], CPU)


def test_a_job_compares_the_machine_it_was_sent_to_with_its_partition(monkeypatch):
    monkeypatch.setattr(detect, "detect_gpus", lambda: [H200])
    monkeypatch.setattr(detect, "detect_cpu", lambda: CPU)
    monkeypatch.setattr(provenance, "detect_cpu", lambda: CPU)
    monkeypatch.setattr(detect.platform, "node", lambda: "node7")
    device = detect.here("nvidia-h200", "sm_90", "new")
    assert (device.slug, device.uuids) == ("nvidia-h200", ())  # any GPU of the model will do
    assert detect.here("nvidia-h200").uuids == ("GPU-1",)
    with pytest.raises(InputError, match="got 'nvidia-a100', but this job was sent to node7, which has nvidia-h200, cpu-test"):
        detect.here("nvidia-a100", "sm_80", "a100")
    with pytest.raises(InputError, match=r"partitions.new.architecture: got 'sm_80'; expected sm_90"):
        detect.here("nvidia-h200", "sm_80", "new")
    detect.check_native("sm_80")
    with pytest.raises(InputError, match="cpu-other: code for it is compiled on it, and node7 has cpu-test"):
        detect.check_native("cpu-other")
    provenance.check_alike({"driver": "1"}, {"driver": "1"}, "x/environment.json: fingerprint")
    with pytest.raises(
        InputError, match=r"^x/environment.json: fingerprint.driver: got '1'; expected '2', as on this machine, node7"
    ):
        provenance.check_alike({"driver": "2"}, {"driver": "1"}, "x/environment.json: fingerprint")


def test_architectures():
    assert toolchain.architectures(load(BASE), [CPU], []) == ["sm_90"]
    assert toolchain.architectures(load(BASE), [H200], [H200]) == ["sm_90"]
    assert toolchain.architectures(load(change(architectures=["sm_86"])), [H200], [H200]) == ["sm_86", "sm_90"]


def test_a_plan_of_2000_configurations_takes_no_longer_than_a_quick_test_may():
    lists = {"BM": [*range(1, 21)], "BN": [*range(1, 21)], "BK": [1, 2, 3, 4, 5]}
    asked = load(change(parameters={"cuda/03_shared_tile": lists})).plan("cuda", "03_shared_tile.float32")
    digest(asked)
    assert len(asked["candidates"]) == 2000


def test_every_campaign_of_the_project_is_good():
    for path in sorted(set((ROOT / "config").glob("*.yaml")) - {ROOT / "config" / "claims.yaml"}):
        data = yaml_schema.load(path.read_text(), str(path))
        campaign_file.load({name: "all" if it == "published" else it for name, it in data.items()}, str(path), KERNELS)
    assert campaign_file.find(ROOT / "config", "default").name == "config.yaml"
    with pytest.raises(InputError, match=r"campaign=nope: no such campaign in .*; expected one of .*default"):
        campaign_file.find(ROOT / "config", "nope")


def test_rivals_are_timed_in_the_element_types_that_they_have():
    rivals = campaign_file.load(yaml_schema.load((ROOT / "config" / "rivals.yaml").read_text(), "rivals"), "rivals", KERNELS)
    jobs = {job.rpartition(".")[::2] for job in rivals.jobs("cuda")}
    beside = {"float32": ("21_tensor_split", "62_cutlass", "63_cutlass_tf32x3", "65_triton", "67_triton_tf32x3")}
    beside["bfloat16"] = ("40_half_fitted_tile", "65_triton", "68_cutlass_half", "69_cutlass_wgmma")
    for element_type, names in beside.items():
        assert {(name, element_type) for name in names} < jobs
    assert not jobs & {("62_cutlass", "bfloat16"), ("68_cutlass_half", "float32"), ("40_half_fitted_tile", "float32")}


def test_the_full_ladder_has_every_configuration_of_the_default_campaign():
    default, full = (
        campaign_file.load(yaml_schema.load((ROOT / "config" / name).read_text(), name), name, KERNELS).configurations
        for name in ("config.yaml", "ladder-full.yaml")
    )
    assert {id: missing for id, configurations in full.items() if (missing := set(default[id]) - set(configurations))} == {}


def test_a_kernel_s_own_configurations_are_tried_beside_lists_where_asked_for():
    lists = {"cuda/03_shared_tile": {"BM": [8]}}
    plain, both = (load(change(parameters=lists, header_configurations=too)).configurations for too in (False, True))
    own = load(BASE).configurations
    assert both["cuda/03_shared_tile"] == [*plain["cuda/03_shared_tile"], *own["cuda/03_shared_tile"]]
    assert both["cpu/03_blocked"] == own["cpu/03_blocked"]


def test_a_device_kind_may_be_confirmed_in_its_own_way():
    plan = load(change(confirm={"rounds": 7, "finalists": 2, "cpu": {"rounds": 4, "seconds": 0.03}}))
    for kind, expected in (("cuda", (7, 0.3, 2)), ("cpu", (4, 0.03, 2))):
        given = plan.confirmation(kind)
        assert (given["limits"]["max_samples"], given["limits"]["max_seconds"], given["finalists"]) == expected


def test_every_key_is_explained():
    whole = yaml.safe_load(Path(ROOT / "workflow/schemas/config.schema.yaml").read_text())
    schema = whole["properties"]
    page = (ROOT / "config/README.md").read_text()
    tables = {part.splitlines()[0]: part for part in page.split("\n| ")}
    explained = set(re.findall(r"`([^`]+)`", " ".join(row.split(" | ")[0] for row in tables)))
    of = {name: set(schema[name]["properties"]) for name in ("measure", "confirm")}
    assert {*schema, *of["measure"], *of["confirm"]} - explained == set()
    assert set(DISTRIBUTIONS) - {"exact", "exact_tf32"} - explained == set()
    assert set(whole["$defs"]["distribution"]["enum"]) == set(DISTRIBUTIONS) - {"exact", "exact_tf32"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the default campaign and another."""
    written(tmp_path / "config" / "config.yaml", "campaign: default\nkernels: all\n")
    return written(tmp_path / "config" / "b.yaml", "campaign: other\nkernels: [cpu/a]\n").parent


def test_the_campaign_that_the_command_line_asks_for(folder):
    merged = {"campaign": "default", "kernels": "x"}, "config/config.yaml and --config"
    assert campaign_file.read(folder, [], {"kernels": "x"}) == merged
    assert campaign_file.read(folder, [], {"campaign": "other"}) == ({"campaign": "other", "kernels": ["cpu/a"]}, "config/b.yaml")
    with pytest.raises(InputError, match=r"campaign=third: no such campaign in .*; expected one of other, default"):
        campaign_file.read(folder, [], {"campaign": "third"})
    data, source = campaign_file.read(folder, [folder / "b.yaml", folder / "config.yaml"], {"campaign": "merged"})
    assert (data, source.count("b.yaml, "), source.endswith("config/config.yaml")) == ({"campaign": "merged"}, 1, True)
    (folder / "c.yaml").write_text("campaign: a\ncampaign: b\n")
    with pytest.raises(InputError, match=r"c\.yaml"):
        campaign_file.read(folder, [folder / "c.yaml"], {"campaign": "b"})


def test_other_kernels_are_a_campaign_of_their_own(folder):
    """Else a run of one kernel would put its tables and figures in the place of those of all."""

    def name(*files, **given):
        return campaign_file.read(folder, files, given)[0]["campaign"]

    assert name(kernels=["cpu/mine"]) == "default-cpu-mine"
    assert name(kernels=["cpu/mine", "cuda/02_b"]) == "default-cpu-mine-cuda-02_b"
    assert name(kernels="all") == name(seed=3) == "default"
    assert name(folder / "b.yaml", campaign="other", kernels=["cpu/a"]) == "other"
    assert name(folder / "b.yaml", campaign="other", kernels="all") == "other"
    assert name(folder / "b.yaml", campaign="other", kernels=["cpu/b"]) == "other-cpu-b"
    shortened = {name(kernels=[f"cpu/{pattern}"]) for pattern in ("a" * 60, "b" * 60, "a", "a*", "A")}
    assert len(shortened) == 5
    for short in shortened:
        campaign_file.load({"campaign": short, "problems": {"cpu": [[1, 1, 1]]}}, "t", KERNELS)
    assert name(kernels=[3]) == "default"  # refused by the schema


def test_numbers_inside_lists_and_mappings_of_the_command_line_are_numbers(folder):
    """Snakemake reads them as text."""
    (file := folder / "config.yaml").write_text(
        "campaign: default\nproblems: {cpu: [[1, 1, 1]]}\nmeasure: {sustained: ['4096']}\n"
    )
    given = {"problems": {"cpu": [["256", "256", "256"]]}, "measure": {"max_seconds": "1", "race": "false"}, "kernels": ["cpu/a"]}
    data, _ = campaign_file.read(folder, [], given)
    assert data["problems"] == {"cpu": [[256, 256, 256]]}
    assert data["measure"] == {"max_seconds": 1, "race": False}
    assert data["kernels"] == ["cpu/a"]
    data, _ = campaign_file.read(folder, [file], {"measure": {"sustained": ["4096"]}, "problems": {"cpu": [["2", "2", "2"]]}})
    assert (data["measure"], data["problems"]) == ({"sustained": ["4096"]}, {"cpu": [[2, 2, 2]]})


@pytest.mark.parametrize(("text", "message"), [
    ("measure: {target: 1e-3}", r'measure\.target: got "1e-3"; expected .*; 1e-3 is text in YAML, write 1\.0e-03'),
    ("measure: {max_samples: 64.0}", r"measure\.max_samples: got 64\.0; expected a whole number"),
    ("measure: {max_samples: yes}", r"measure\.max_samples: got true; expected a whole number"),
    ("seed: 010", r'seed: got "010"; expected a whole number .*; 010 is text in YAML, write 10'),
    ("seed: 1:30", 'seed: got "1:30"; expected a whole number'),
    ("problems: {cpu: [{square: [8, 1e3]}]}", r"problems\.cpu\[0\]: got .*; 1e3 is text in YAML, write 1000"),
    ("problems: {cpu: [{square: 64.0}]}", r"problems\.cpu\[0\]: got .*64\.0"),
    ("alpha: .nan", "alpha: got a number that is NaN"),
])  # fmt: skip
def test_a_number_that_yaml_reads_in_another_way_is_explained(tmp_path, text, message):
    """Also in a file of --configfile, which Snakemake reads in its own way first."""
    whole = f"campaign: 2024-11-29\n{text}\n" + "problems: {cpu: [[1, 1, 1]]}\n" * ("problems" not in text)
    file = written(tmp_path / "mine.yaml", whole)
    data, source = campaign_file.read(tmp_path, [file], yaml.safe_load(whole))
    for each in (data, yaml_schema.load(whole, "t")):
        with pytest.raises(InputError, match=message):
            campaign_file.load(each, source, KERNELS)


def test_numbers_and_names_are_read_as_they_are_meant(tmp_path):
    text = "campaign: {}\nproblems: {{cpu: [[0x10, 1_000, 0b11]]}}\nmeasure: {{race: on}}\nkernels: [cpu/03_blocked]\n"
    for name in ("2024-11-29", "010", "1e3"):
        file = written(tmp_path / "mine.yaml", text.format(name))
        for given in (
            ([file], yaml.safe_load(file.read_text())),
            ([], {"campaign": yaml.safe_load(name) if "-" in name else name}),
        ):
            plan = campaign_file.load(*campaign_file.read(tmp_path, *given), KERNELS)
            assert (plan.name, plan.limits.race) == (name, True)
            assert [(p.m, p.n, p.k) for p in plan.problems("cpu", "float32")] == [(16, 1000, 3)]


def test_two_files_of_one_name_are_told(tmp_path):
    for name in ("a", "b", "c"):
        written(tmp_path / f"{name}.yaml", f"campaign: {'other' if name == 'c' else 'mine'}\nproblems: {{cpu: [[1, 1, 1]]}}\n")
    assert campaign_file.find(tmp_path, "other").name == "c.yaml"
    with pytest.raises(InputError, match=r"b\.yaml: campaign: got mine, as in .*a\.yaml; expected another name"):
        campaign_file.find(tmp_path, "mine")


def test_a_kernel_that_cannot_be_used_is_refused_where_it_is_asked_for():
    refused = {"cpu/wrong": InputError("wrong.c: header: unknown key")}
    data = {"campaign": "t", "problems": {"cpu": [[1, 1, 1]]}}
    for kernels_ in (["cpu/*"], ["cpu/wrong"], "all"):
        with pytest.raises(InputError, match=r"wrong\.c: header: unknown key"):
            campaign_file.load(data | {"kernels": kernels_}, "t", KERNELS, refused)
    assert campaign_file.load(data | {"kernels": ["cpu/0*"]}, "t", KERNELS, refused).kernels
