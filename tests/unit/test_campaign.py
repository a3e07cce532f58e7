import re
from pathlib import Path

import pytest
import yaml
from ladder.compiling import provenance, toolchain
from ladder.core import yaml_schema
from ladder.core.errors import InputError
from ladder.core.types import DISTRIBUTIONS
from ladder.devices import detect
from ladder.devices.detect import DetectedDevice
from ladder.model import campaign, campaign_file, kernel_file
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
    return campaign_file.load(
        yaml_schema.load(text, "config/test.yaml"), "config/test.yaml", KERNELS
    )


def change(text: str) -> campaign.Campaign:
    """The campaign with these keys in place of its own."""
    return load(yaml.safe_dump(yaml.safe_load(BASE) | yaml.safe_load(text)))


@pytest.mark.parametrize(
    ("keys", "labels"),
    [
        (
            "problems: {cuda: [{M: [1, 2], N: 3, K: [4, 5]}, {square: [7, 7]}, [1, 3, 4]]}",
            "1x3x4; 1x3x5; 2x3x4; 2x3x5; 7",
        ),
        (
            "{beta: 0.25, problems: {cuda: [{square: 64}, {square: [64, 65], beta: 0.5, padding: "
            "3}, {M: 8, N: 9, K: 10, alpha: 2}]}}",
            "8x9x10 alpha=2 beta=0.25; 64 beta=0.25; 64 beta=0.5 padding=3; 65 beta=0.5 padding=3",
        ),
        (
            "{distribution: positive, problems: {cuda: ["
            "{M: 8, N: 9, K: [10, 20], distribution: [normal, sparse]}, {square: 64, distribution: "
            "huge}, {square: 64}]}}",
            "8x9x10 distribution=normal; 8x9x10 distribution=sparse; 8x9x20 distribution=normal; "
            "8x9x20 distribution=sparse; "
            "64 distribution=huge; 64 distribution=positive",
        ),
    ],
)
def test_problems_are_crossed_and_have_operands_of_their_own(keys, labels):
    assert (
        "; ".join(problem.label for problem in change(keys).problems("cuda", "float32")) == labels
    )


def test_a_b_and_c_may_have_paddings_and_offsets_of_their_own():
    own = "{square: [64, 65], padding: [1, 4, 2], offset: [0, 1, 3]}"
    plan = change(
        f"{{padding: [0, 5, 0], problems: {{cuda: [{own}, {{square: 66, offset: 2}}, [67, 67, "
        f"67]]}}}}"
    )
    assert [
        (p.label, p.lda, p.ldb, p.ldc, p.names()["alignment"])
        for p in plan.problems("cuda", "float32")
    ] == [
        ("64 padding=1,4,2 offset=0,1,3", 65, 68, 66, 4),
        ("65 padding=1,4,2 offset=0,1,3", 66, 69, 67, 4),
        ("66 padding=0,5,0 offset=2", 66, 71, 66, 8),
        ("67 padding=0,5,0", 67, 72, 67, 16),
    ]


def test_every_configuration_and_baseline_is_planned():
    plan = change("parameters: {cuda/03_shared_tile: {BM: [16, 64], BN: [16, 32], BK: [16]}}")
    assert plan.jobs("cuda") == ["baselines.float32", "03_shared_tile.float32"]
    candidates = plan.plan("cuda", "03_shared_tile.float32")["candidates"]
    assert [candidate["label"] for candidate in candidates if not candidate["objection"]] == [
        "BM=16 BN=16 BK=16",
        "BM=16 BN=32 BK=16",
        "BM=64 BN=16 BK=16",
    ]
    assert candidates[3]["objection"] == "2048 threads a block; at most 1024"


@pytest.mark.parametrize(
    ("element_type", "names"),
    [
        ("float32", ["cublas", "cublas_tf32", *["cublaslt_best"] * 9]),
        ("bfloat16", ["cublas", "cublas_fp32_sums", *["cublaslt_best"] * 9]),
    ],
)
def test_a_baseline_is_planned_for_the_element_types_that_it_has(element_type, names):
    """The library's own choice, and eight algorithms, are candidates of the best one."""
    plan = change("element_types: [float32, bfloat16]").plan("cuda", f"baselines.{element_type}")
    assert [candidate["name"] for candidate in plan["candidates"]] == names
    assert [plan["candidates"][at]["label"] for at in (2, 3, -1)] == [
        "-",
        "ALGORITHM=0",
        "ALGORITHM=7",
    ]


def test_configurations_are_compiled_in_every_way_asked_for():
    plan = change(
        "{parameters: {cuda/03_shared_tile: {BM: [16], BN: [16], BK: [16]}},"
        "compiler: [nvcc, nvrtc], options: {dlcm: cg, maxrregcount: [128, 255]}}"
    )
    candidates = plan.plan("cuda", "03_shared_tile.float32")["candidates"]
    assert [candidate["label"].removeprefix("BM=16 BN=16 BK=16 ") for candidate in candidates] == [
        "maxrregcount=128 dlcm=cg",
        "maxrregcount=255 dlcm=cg",
        "compiler=nvrtc maxrregcount=128 dlcm=cg",
        "compiler=nvrtc maxrregcount=255 dlcm=cg",
    ]
    assert plan.configurations["cpu/03_blocked"] == load(BASE).configurations["cpu/03_blocked"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("compiler: clang", 'compiler: got "clang"; expected nvcc, nvrtc, or a list of both'),
        (
            "options: {use_fast_math: true}",
            "options: unknown key 'use_fast_math'; expected one of dlcm, maxrregcount",
        ),
        (
            "options: {maxrregcount: [128, 256]}",
            "options.maxrregcount: got [128, 256]; expected a whole number from 16 to 255",
        ),
        ("options: {dlcm: cv}", 'options.dlcm: got "cv"; expected ca, cg, or a list of both'),
        (
            "problem: 1",
            "config/test.yaml: unknown key 'problem'; did you mean `problems`? Expected one of "
            "alpha,",
        ),
        ("campaign: Über", 'campaign: got "\\u00dcber"; expected a name'),
        (
            "figures: {width: 1}",
            "figures.width: got 1; expected a width in inches from 3 to 20, such as 3.4 or 7.1",
        ),
        ("figures: {wide: 4}", "figures: unknown key 'wide'; expected one of formats, width"),
        ("figures: {formats: [gif]}", 'figures.formats[0]: got "gif"; expected pdf or png'),
        ("campaign: redrawn", 'campaign: got "redrawn"; expected a name other than'),
        ("alpha: one", 'alpha: got "one"; expected a number'),
        (
            "problems: {cuda: [{square: [64, -5]}]}",
            'problems.cuda[0]: got {"square": [64, -5]}; expected a problem',
        ),
        ("problems: {cuda: [{square: [0]}]}", "sizes are whole numbers from 1"),
        ("problems: {cuda: [[64, 64]]}", "problems.cuda[0]: got [64, 64]; expected a problem"),
        ("problems: {cuda: [{padding: -1, square: 64}]}", "problems.cuda[0]: got"),
        ("problems: {cuda: [{offset: [1, 2], square: 64}]}", "problems.cuda[0]: got"),
        (
            "padding: [1, 2]",
            "padding: got [1, 2]; expected a whole number of elements from 0 to 4096, or three of "
            "them",
        ),
        ("problems: {cuda: [{seed: 1, square: 64}]}", "problems.cuda[0]: got"),
        ("problems: {gpu: [[1, 1, 1]]}", "problems: unknown key 'gpu'; expected one of cpu, cuda"),
        ("partitions: {a: {}}", "partitions.a: missing key device"),
        (
            "partitions: {a: {device: nvidia-h200}}",
            "partitions.a: missing key architecture; expected that of its GPUs",
        ),
        ("partitions: {build: {device: cpu-x}}", 'partitions: got "build"; expected a name'),
        (
            "partitions: {a: {device: cpu-x, resources: {gpu: 1.5}}}",
            "resources.gpu: got 1.5; expected a whole number",
        ),
        (
            "partitions: {a: {device: cpu-x, resources: {Gres: 1}}}",
            'got "Gres"; expected a resource such as',
        ),
        (
            "kernels: [cuda/03_shared]",
            'kernels[0]: got "cuda/03_shared"; did you mean `cuda/03_shared_tile`? Expected one of',
        ),
        ("campaign: export", 'campaign: got "export"; expected a name other than'),
        (
            "campaign: try",
            'campaign: got "try"; expected a name other than export, published, redrawn, studies '
            "and try",
        ),
        (
            "element_types: [float32, float32]",
            'got ["float32", "float32"]; expected a list of float32, float64, float16, bfloat16, '
            "each once",
        ),
        ("parameters: {cuda/33: {BM: [1]}}", "parameters.cuda/33: unknown kernel; expected one of"),
        (
            "parameters: {cuda/03_shared_tile: {BQ: [1]}}",
            "parameters.cuda/03_shared_tile.BQ: got [1]; expected one of BM, BN, BK",
        ),
        (
            "parameters: {cuda/03_shared_tile: {BM: [x]}}",
            'parameters.cuda/03_shared_tile.BM[0]: got "x"; expected a whole number',
        ),
        (
            "parameters: {cuda/03_shared_tile: {BM: [512]}}",
            "none of the 2 configurations is legal; expected at least one",
        ),
        ("element_types: [float33]", 'element_types[0]: got "float33"; expected float32'),
        (
            "element_types: [float16]",
            'element_types: got ["float16"]; cpu/03_blocked supports float32, float64 only',
        ),
        (
            "measure: {max_samples: 10, min_samples: 20}",
            "measure.max_samples: got 10; expected at least min_samples, 20",
        ),
        (
            "measure: {samples: 1}",
            "measure: unknown key 'samples'; did you mean `sample_us`? Expected one of max_samples,",
        ),
        (
            "measure: {sustained: [0]}",
            "measure.sustained[0]: got 0; expected a problem such as 4096 or 64x4096x4096",
        ),
        (
            "measure: {sustained: [4096x2]}",
            'measure.sustained[0]: got "4096x2"; expected a problem such as 4096 or 64x4096x4096',
        ),
        (
            "confirm: {process: 3}",
            "confirm: unknown key 'process'; did you mean `processes`? Expected one of cpu, cuda, "
            "finalists, processes, rounds",
        ),
        (
            "confirm: {processes: 2}",
            "confirm.processes: got 2; expected 0, which leaves the confirmation out, or at least "
            "3: how far",
        ),
        (
            "confirm: {cpu: {processes: 3}}",
            "confirm.cpu: unknown key 'processes'; expected one of finalists, rounds, seconds",
        ),
        (
            "confirm: {cpu: {rounds: 2}}",
            "confirm.cpu.rounds: got 2; expected a whole number from 3 to 10000",
        ),
        ("confirm: {rounds: 2}", "confirm.rounds: got 2; expected a whole number from 3 to 10000"),
        ("confirm: {within: 2}", "confirm.within: got 2; expected a share from 0 to 0.5"),
        ("baselines: {cuda: [cublas_tf32]}", "that has cublas, the reference, in it"),
        ("architectures: ['90']", 'architectures: got ["90"]; expected auto, or a list'),
    ],
)
def test_a_bad_key_is_named(keys, message):
    with pytest.raises(InputError) as error:
        change(keys)
    assert message in str(error.value)
    assert str(error.value).startswith("config/test.yaml: ")


def test_yaml_that_is_none_is_named():
    for text in (
        "campaign: [",
        "campaign: a\ncampaign: b\n",
        "just text",
        "!!python/object/apply:os.system [ls]",
    ):
        with pytest.raises(InputError, match=r"config/test\.yaml: "):
            load(text)


PARTITIONS = """
partitions:
  a100: {device: nvidia-a100, architecture: sm_80, resources: {slurm_partition: a}}
  h100: {device: nvidia-h100, architecture: sm_90}
  epyc: {device: cpu-test}
"""


@pytest.mark.parametrize(
    ("keys", "gpus", "slugs"),
    [
        ("{}", [], "cpu-test"),
        ("{}", [H200], "nvidia-h200"),
        ("devices: [cpu, cuda]", [H200], "cpu-test nvidia-h200"),
        (PARTITIONS, [], "a100 epyc h100"),
        (PARTITIONS, [H200], "a100 epyc h100"),
        (PARTITIONS + "devices: [h100]", [], "h100"),
    ],
)
def test_devices_are_those_here_or_the_clusters(keys, gpus, slugs):
    devices = detect.resolve(change(keys), gpus, CPU)
    assert " ".join(device.slug for device in devices) == slugs


@pytest.mark.parametrize(
    ("keys", "gpus", "message"),
    [
        (
            "problems: {cuda: [{square: 100000}], cpu: [[1, 1, 1]]}",
            [H200],
            r"problems.cuda: got \[100000, 100000, 100000\] in float32, which takes .* GiB of "
            r"NVIDIA H200",
        ),
        ("devices: [cuda]", [], r"devices\[0\]: got 'cuda', but no usable GPU was found here"),
        (
            "devices: [nvidia-h200]",
            [],
            "got 'nvidia-h200', which is not on this machine; expected auto, cuda, cpu or one of "
            "cpu-test",
        ),
        ("{devices: [cpu], problems: {cuda: [[1, 1, 1]]}}", [], "problems.cpu: missing"),
        ("problems: {cuda: [[1, 1, 1]]}", [], "problems: got none for cpu"),
        (
            PARTITIONS + "devices: [cpu]",
            [],
            r"devices\[0\]: got 'cpu'; expected one of the campaign's partitions, a100, epyc, h100",
        ),
        (
            PARTITIONS + "problems: {cuda: [[1, 1, 1]]}",
            [],
            "problems.cpu: missing; expected problems for partition epyc",
        ),
    ],
)
def test_devices_that_cannot_be_had_are_named(keys, gpus, message):
    with pytest.raises(InputError, match=message):
        detect.resolve(change(keys), gpus, CPU)


def test_architectures_are_those_of_the_devices_and_those_asked_for():
    plan = change(PARTITIONS)
    everywhere = detect.resolve(plan, [], CPU)
    assert toolchain.architectures(plan, everywhere, [H200]) == ["sm_80", "sm_90"]
    assert toolchain.architectures(plan, everywhere[1:2], [H200]) == []
    assert toolchain.architectures(load(BASE), [CPU], []) == ["sm_90"]
    asked = change("architectures: [sm_86]")
    assert toolchain.architectures(asked, [H200], [H200]) == ["sm_86", "sm_90"]


def test_a_job_compares_the_machine_it_was_sent_to_with_its_partition(monkeypatch):
    monkeypatch.setattr(detect, "detect_gpus", lambda: [H200])
    monkeypatch.setattr(detect, "detect_cpu", lambda: CPU)
    monkeypatch.setattr(provenance, "detect_cpu", lambda: CPU)
    monkeypatch.setattr(detect.platform, "node", lambda: "node7")
    device = detect.here("nvidia-h200", "sm_90", "new")
    assert (device.slug, device.uuids) == ("nvidia-h200", ())  # any GPU of the model will do
    assert detect.here("nvidia-h200").uuids == ("GPU-1",)
    with pytest.raises(
        InputError,
        match="got 'nvidia-a100', but this job was sent to node7, which has nvidia-h200, cpu-test",
    ):
        detect.here("nvidia-a100", "sm_80", "a100")
    with pytest.raises(
        InputError, match=r"partitions.new.architecture: got 'sm_80'; expected sm_90"
    ):
        detect.here("nvidia-h200", "sm_80", "new")
    detect.check_native("sm_80")
    with pytest.raises(
        InputError, match="cpu-other: code for it is compiled on it, and node7 has cpu-test"
    ):
        detect.check_native("cpu-other")
    provenance.check_alike({"driver": "1"}, {"driver": "1"}, "x/environment.json: fingerprint")
    message = (
        "x/environment.json: fingerprint.driver: got '1'; expected '2', as on this machine, node7"
    )
    with pytest.raises(InputError, match=f"^{message}"):
        provenance.check_alike({"driver": "2"}, {"driver": "1"}, "x/environment.json: fingerprint")


def published(name: str) -> campaign.Campaign:
    """A campaign of the project; `all` is there whatever of it is published."""
    data = yaml_schema.load((ROOT / "config" / name).read_text(), name)
    data = {key: "all" if value == "published" else value for key, value in data.items()}
    return campaign_file.load(data, name, KERNELS)


def test_every_campaign_of_the_project_is_good():
    for path in (ROOT / "config").glob("*.yaml"):
        if path.name != "claims.yaml":
            published(path.name)
    assert campaign_file.find(ROOT / "config", "default").name == "config.yaml"


@pytest.mark.parametrize(
    ("element_type", "beside", "without"),
    [
        (
            "float32",
            "21_tensor_split 62_cutlass 63_cutlass_tf32x3 65_triton 67_triton_tf32x3",
            "68_cutlass_half",
        ),
        (
            "bfloat16",
            "40_half_fitted_tile 65_triton 68_cutlass_half 69_cutlass_wgmma",
            "62_cutlass",
        ),
    ],
)
def test_rivals_are_timed_in_the_element_types_that_they_have(element_type, beside, without):
    jobs = set(published("rivals.yaml").jobs("cuda"))
    assert {f"{name}.{element_type}" for name in beside.split()} < jobs
    assert f"{without}.{element_type}" not in jobs


def test_the_full_ladder_has_every_configuration_of_the_default_campaign():
    default = published("config.yaml").configurations
    for name, configurations in published("ladder-full.yaml").configurations.items():
        assert set(default[name]) <= set(configurations), name


def test_a_kernel_s_own_configurations_are_tried_beside_lists_where_asked_for():
    lists = "parameters: {cuda/03_shared_tile: {BM: [8]}}\nheader_configurations: "
    plain, both = (change(lists + asked).configurations for asked in ("false", "true"))
    own = load(BASE).configurations
    name = "cuda/03_shared_tile"
    assert both == own | {name: [*plain[name], *own[name]]}


def test_a_device_kind_may_be_confirmed_in_its_own_way():
    plan = change("confirm: {rounds: 7, finalists: 2, cpu: {rounds: 4, seconds: 0.03}}")
    for kind, rounds, seconds in (("cuda", 7, 0.3), ("cpu", 4, 0.03)):
        given = plan.confirmation(kind)
        assert given["finalists"] == 2
        assert given["limits"]["max_samples"] == rounds
        assert given["limits"]["max_seconds"] == seconds


def test_every_key_is_explained():
    whole = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text())
    page = (ROOT / "config/README.md").read_text()
    firsts = [row.split(" | ")[0] for row in page.split("\n| ")]
    keys = whole["properties"]
    chosen = set(DISTRIBUTIONS) - {"exact", "exact_tf32"}
    assert set(whole["$defs"]["distribution"]["enum"]) == chosen
    nested = [key for name in ("measure", "confirm") for key in keys[name]["properties"]]
    assert [key for key in (*keys, *nested, *chosen) if f"`{key}`" not in " ".join(firsts)] == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the default campaign and another."""
    written(tmp_path / "config" / "config.yaml", "campaign: default\nkernels: all\n")
    return written(tmp_path / "config" / "b.yaml", "campaign: other\nkernels: [cpu/a]\n").parent


def test_the_campaign_that_the_command_line_asks_for(folder):
    expected = {"campaign": "default", "kernels": "x"}, "config/config.yaml and --config"
    assert campaign_file.read(folder, [], {"kernels": "x"}) == expected
    expected = {"campaign": "other", "kernels": ["cpu/a"]}, "config/b.yaml"
    assert campaign_file.read(folder, [], {"campaign": "other"}) == expected
    with pytest.raises(
        InputError, match=r"campaign=third: no such campaign in .*; expected one of other, default"
    ):
        campaign_file.read(folder, [], {"campaign": "third"})
    files = [folder / "b.yaml", folder / "config.yaml"]
    data, source = campaign_file.read(folder, files, {"campaign": "merged"})
    assert data == {"campaign": "merged"}
    assert re.fullmatch(r".*b\.yaml, .*config/config\.yaml", source)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"kernels": ["cpu/mine"]}, "default-cpu-mine"),
        ({"kernels": ["cpu/mine", "cuda/02_b"]}, "default-cpu-mine-cuda-02_b"),
        ({"kernels": "all"}, "default"),
        ({"kernels": [3]}, "default"),  # refused by the schema
        ({"seed": 3}, "default"),
        ({"campaign": "other", "kernels": ["cpu/a"]}, "other"),
        ({"campaign": "other", "kernels": "all"}, "other"),
        ({"campaign": "other", "kernels": ["cpu/b"]}, "other-cpu-b"),
    ],
)
def test_other_kernels_are_a_campaign_of_their_own(folder, given, name):
    """Else a run of one kernel would put its tables and figures in the place of those of all."""
    files = [folder / "b.yaml"] * ("campaign" in given)
    assert campaign_file.read(folder, files, given)[0]["campaign"] == name


def test_the_shortened_name_of_such_a_campaign_is_its_own_and_a_good_one(folder):
    patterns = ["a" * 60, "b" * 60, "a", "a*", "A"]
    names = {
        campaign_file.read(folder, [], {"kernels": [f"cpu/{pattern}"]})[0]["campaign"]
        for pattern in patterns
    }
    assert len(names) == 5
    for name in names:
        campaign_file.load({"campaign": name, "problems": {"cpu": [[1, 1, 1]]}}, "t", KERNELS)


def test_numbers_inside_lists_and_mappings_of_the_command_line_are_numbers(folder):
    """Snakemake reads them as text."""
    text = (
        "{problems: {cpu: [['256', '256']]}, measure: {max_seconds: '1', race: 'false'}, "
        "kernels: [cpu/a]}"
    )
    meant = (
        "{problems: {cpu: [[256, 256]]}, measure: {max_seconds: 1, race: false}, kernels: [cpu/a]}"
    )
    data, _ = campaign_file.read(folder, [], yaml.safe_load(text))
    assert data.items() >= yaml.safe_load(meant).items()
    file = written(folder / "config.yaml", "campaign: default\nmeasure: {sustained: ['4096']}\n")
    data, _ = campaign_file.read(folder, [file], {"measure": {"sustained": ["4096"]}})
    assert data["measure"] == {"sustained": ["4096"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "measure: {target: 1e-3}",
            r'measure.target: got "1e-3"; .*; 1e-3 is text in YAML, write 1.0e-03',
        ),
        ("measure: {max_samples: 64.0}", r"measure.max_samples: got 64.0; expected a whole number"),
        ("measure: {max_samples: yes}", "measure.max_samples: got true; expected a whole number"),
        ("seed: 010", 'seed: got "010"; expected a whole number .*; 010 is text in YAML, write 10'),
        ("seed: 1:30", 'seed: got "1:30"; expected a whole number'),
        (
            "problems: {cpu: [{square: [8, 1e3]}]}",
            r"problems.cpu\[0\]: got .*; 1e3 is text in YAML, write 1000",
        ),
        ("problems: {cpu: [{square: 64.0}]}", r"problems.cpu\[0\]: got .*64.0"),
        ("alpha: .nan", "alpha: got a number that is NaN"),
    ],
)
def test_a_number_that_yaml_reads_in_another_way_is_explained(tmp_path, text, message):
    """Also in a file of --configfile, which Snakemake reads in its own way first."""
    whole = f"campaign: 2024-11-29\n{text}\n"
    if "problems" not in text:
        whole += "problems: {cpu: [[1, 1, 1]]}\n"
    data, source = campaign_file.read(
        tmp_path, [written(tmp_path / "mine.yaml", whole)], yaml.safe_load(whole)
    )
    for each in (data, yaml_schema.load(whole, "t")):
        with pytest.raises(InputError, match=message):
            campaign_file.load(each, source, KERNELS)


@pytest.mark.parametrize("name", ["2024-11-29", "010", "1e3"])
def test_numbers_and_names_are_read_as_they_are_meant(tmp_path, name):
    text = (
        f"campaign: {name}\nproblems: {{cpu: [[0x10, 1_000, 0b11]]}}\nmeasure: {{race: "
        f"on}}\nkernels: [cpu/03_blocked]\n"
    )
    file = written(tmp_path / "mine.yaml", text)
    plan = campaign_file.load(*campaign_file.read(tmp_path, [file], yaml.safe_load(text)), KERNELS)
    assert plan.name == name
    assert plan.limits.race
    assert [problem.label for problem in plan.problems("cpu", "float32")] == ["16x1000x3"]
    given = {"campaign": yaml.safe_load(name) if "-" in name else name}
    assert campaign_file.read(tmp_path, [], given)[0]["campaign"] == name


def test_two_files_of_one_name_are_told(tmp_path):
    for name, campaign_name in (("a", "mine"), ("b", "mine"), ("c", "other")):
        written(tmp_path / f"{name}.yaml", f"campaign: {campaign_name}\n")
    assert campaign_file.find(tmp_path, "other").name == "c.yaml"
    with pytest.raises(
        InputError, match=r"b\.yaml: campaign: got mine, as in .*a\.yaml; expected another name"
    ):
        campaign_file.find(tmp_path, "mine")


def test_a_kernel_that_cannot_be_used_is_refused_where_it_is_asked_for():
    refused = {"cpu/wrong": InputError("wrong.c: header: unknown key")}
    data = {"campaign": "t", "problems": {"cpu": [[1, 1, 1]]}}
    for asked in (["cpu/*"], ["cpu/wrong"], "all"):
        with pytest.raises(InputError, match=r"wrong\.c: header: unknown key"):
            campaign_file.load(data | {"kernels": asked}, "t", KERNELS, refused)
    assert campaign_file.load(data | {"kernels": ["cpu/0*"]}, "t", KERNELS, refused).kernels
