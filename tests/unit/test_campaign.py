import re
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml
from ladder.compiling import provenance, toolchain
from ladder.core import yaml_schema
from ladder.core.errors import InputError
from ladder.devices import detect
from ladder.devices.detect import DetectedDevice
from ladder.model import campaign, campaign_file
from planted import HOME, written
from rungs import ALL as KERNELS

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
    data = yaml_schema.load(BASE, "t") | yaml_schema.load(text, "config/test.yaml")
    return campaign_file.load(data, "config/test.yaml", KERNELS)


@pytest.mark.parametrize(
    ("keys", "labels"),
    [
        (
            "problems: {cuda: [{M: [1, 2], N: 3, K: [4, 5]}, {square: [7, 7]}, [1, 3, 4]]}",
            ["1x3x4", "1x3x5", "2x3x4", "2x3x5", "7"],
        ),
        (
            "{beta: 0.25, problems: {cuda: [{square: 64}, {square: [64, 65], beta: 0.5, padding: "
            "3}, {M: 8, N: 9, K: 10, alpha: 2}]}}",
            [
                "8x9x10 alpha=2 beta=0.25",
                "64 beta=0.25",
                "64 beta=0.5 padding=3",
                "65 beta=0.5 padding=3",
            ],
        ),
        (
            "{distribution: positive, problems: {cuda: ["
            "{M: 8, N: 9, K: [10, 20], distribution: [normal, sparse]}, {square: 64}]}}",
            [
                "8x9x10 distribution=normal",
                "8x9x10 distribution=sparse",
                "8x9x20 distribution=normal",
                "8x9x20 distribution=sparse",
                "64 distribution=positive",
            ],
        ),
    ],
)
def test_problems_are_crossed_and_have_operands_of_their_own(keys, labels):
    assert [problem.label for problem in change(keys).problems("cuda", "float32")] == labels


def test_a_b_and_c_may_have_paddings_and_offsets_of_their_own():
    plan = change(
        "padding: [0, 5, 0]\n"
        "problems: {cuda: [{square: 64, padding: [1, 4, 2], offset: [0, 1, 3]}, "
        "{square: 66, offset: 2}]}"
    )
    first, second = plan.problems("cuda", "float32")
    assert first.label == "64 padding=1,4,2 offset=0,1,3"
    assert (first.lda, first.ldb, first.ldc, first.names()["alignment"]) == (65, 68, 66, 4)
    assert second.label == "66 padding=0,5,0 offset=2"
    assert (second.lda, second.ldb, second.ldc, second.names()["alignment"]) == (66, 71, 66, 8)


def test_every_configuration_and_baseline_is_planned():
    plan = change("parameters: {cuda/03_shared_tile: {BM: [16, 64], BN: [16, 32], BK: [16]}}")
    shares = plan.shares["cuda", "float32"]
    assert [share["name"] for share in shares] == ["03_shared_tile.float32", "baselines.float32"]
    candidates = shares[0]["candidates"]
    assert [candidate["label"] for candidate in candidates if not candidate["objection"]] == [
        "BM=16 BN=16 BK=16",
        "BM=16 BN=32 BK=16",
        "BM=64 BN=16 BK=16",
    ]
    assert candidates[3]["objection"] == "2048 threads a block; at most 1024"


@pytest.mark.parametrize(
    ("element_type", "names"),
    [
        ("float32", ["cublas_tf32", "cublas_bf16x9"]),
        ("bfloat16", ["cublas_fp32_sums"]),
        ("float8_e4m3", ["cublas_fast_accum"]),
    ],
)
def test_a_baseline_is_planned_for_the_element_types_that_it_has(element_type, names):
    """The library's own choice, eight algorithms, and one to search for, are candidates of the
    best one.
    """
    plan = change("element_types: [float32, bfloat16, float8_e4m3]")
    *_, share = plan.shares["cuda", element_type]
    numbered = [f"cublaslt_best ALGORITHM={number}" for number in range(8)]
    first = [f"{name} -" for name in ("cublas", *names, "cublaslt_best")]
    expected = [*first, *numbered, "cublaslt_best SEARCH=1"]
    assert [f"{each['name']} {each['label']}" for each in share["candidates"]] == expected


def test_configurations_are_compiled_in_every_way_asked_for():
    plan = change(
        "{parameters: {cuda/03_shared_tile: {BM: [16], BN: [16], BK: [16]}},"
        "compiler: [nvcc, nvrtc], options: {dlcm: cg, maxrregcount: [128, 255]}}"
    )
    candidates = plan.shares["cuda", "float32"][0]["candidates"]
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
        ("options: {use_fast_math: true}", "options: unknown key 'use_fast_math'; expected one of"),
        ("options: {maxrregcount: [128, 256]}", "options.maxrregcount: got [128, 256]; expected a"),
        ("problem: 1", "unknown key 'problem'; did you mean `problems`? Expected one of alpha,"),
        ("figures: {wide: 4}", "figures: unknown key 'wide'; expected one of formats"),
        ("campaign: redrawn", 'campaign: got "redrawn"; expected a name other than export, publ'),
        ("problems: {cuda: [{square: [64, -5]}]}", 'problems.cuda[0]: got {"square": [64, -5]}; '),
        ("problems: {cuda: [[64, 64]]}", "problems.cuda[0]: got [64, 64]; expected a problem"),
        ("padding: [1, 2]", "padding: got [1, 2]; expected a whole number of elements from 0 to"),
        ("partitions: {a: {}}", "partitions.a: missing key device"),
        ("partitions: {a: {device: h200}}", "partitions.a: missing key architecture; expected the"),
        ("partitions: {build: {device: cpu-x}}", 'partitions: got "build"; expected a name'),
        ("kernels: [cuda/03_shared]", 'kernels[0]: got "cuda/03_shared"; did you mean `cuda/03_s'),
        ("kernels: [/**/*.cu]", 'kernels: got ["/**/*.cu"]; expected all, published, or a list of'),
        (
            "element_types: [float32, float32]",
            "bfloat16, float8_e4m3, float8_e4m3_float16, float8_e4m3_blocks, each once",
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
        ("element_types: [float16]", 'got ["float16"]; cpu/03_blocked supports float32, float64'),
        (
            "measure: {max_samples: 10, min_samples: 20}",
            "measure.max_samples: got 10; expected at least min_samples, 20",
        ),
        ("measure: {sustained: [4096x2]}", 'measure.sustained[0]: got "4096x2"; expected a prob'),
        ("confirm: {processes: 2}", "confirm.processes: got 2; expected 0, which leaves the conf"),
        ("confirm: {cpu: {processes: 3}}", "confirm.cpu: unknown key 'processes'; expected one of"),
        (
            "confirm: {cpu: {rounds: 2}}",
            "confirm.cpu.rounds: got 2; expected a whole number from 3",
        ),
        ("baselines: {cuda: [cublas_tf32]}", "that has cublas, the reference, in it"),
        ("architectures: ['90']", 'architectures: got ["90"]; expected auto, or a list'),
        ("measure: {max_samples: 64.0}", "measure.max_samples: got 64.0; expected a whole number"),
        ("measure: {max_samples: yes}", "measure.max_samples: got true; expected a whole number"),
        ("seed: 010", 'seed: got "010"; expected a whole number'),
        ("seed: 1:30", 'seed: got "1:30"; expected a whole number'),
        ("seed: 1e3", 'seed: got "1e3"; expected a whole number'),
        ("alpha: .nan", "alpha: got NaN; expected a number from -1000 to 1000"),
    ],
)
def test_a_bad_key_is_named(keys, message):
    with pytest.raises(InputError, match=re.escape(message)) as error:
        change(keys)
    assert str(error.value).startswith("config/test.yaml: ")


@pytest.mark.parametrize(
    "text", ["campaign: [", "campaign: a\ncampaign: b\n", "just text", "!!python/object:os.x []"]
)
def test_yaml_that_is_none_is_named(text):
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
        (PARTITIONS, [], "a100 h100 epyc"),
        (PARTITIONS, [H200], "a100 h100 epyc"),
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
            r"devices\[0\]: got 'cpu'; expected one of the campaign's partitions, a100, h100, epyc",
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
    assert toolchain.architectures(plan, everywhere[2:], [H200]) == []
    assert toolchain.architectures(change("{}"), [CPU], []) == []
    asked = change("architectures: [sm_86]")
    assert toolchain.architectures(asked, [H200], [H200]) == ["sm_86", "sm_90"]


@pytest.fixture
def node7(monkeypatch):
    monkeypatch.setattr(detect, "detect_gpus", lambda: [H200])
    monkeypatch.setattr(detect, "detect_cpu", lambda: CPU)
    monkeypatch.setattr(detect.platform, "node", lambda: "node7")


def test_a_job_takes_any_gpu_of_the_model_on_a_partition_and_else_those_planned(node7):
    assert detect.here("nvidia-h200", "sm_90", "new").uuids == ()
    assert detect.here("nvidia-h200").uuids == ("GPU-1",)
    detect.check_native("sm_80")
    provenance.check_alike({"driver": "1"}, {"driver": "1"}, "x")


@pytest.mark.parametrize(
    ("check", "given", "message"),
    [
        (
            detect.here,
            ("nvidia-a100", "sm_80", "a100"),
            "got 'nvidia-a100', but this job was sent to node7, which has nvidia-h200, cpu-test",
        ),
        (
            detect.here,
            ("nvidia-h200", "sm_80", "new"),
            "partitions.new.architecture: got 'sm_80'; expected sm_90",
        ),
        (
            detect.check_native,
            ("cpu-other",),
            "cpu-other: code for it is compiled on it, and node7 has cpu-test",
        ),
        (
            provenance.check_alike,
            ({"driver": "2"}, {"driver": "1"}, "x"),
            "^x.driver: got '1'; expected '2', as on this machine, node7",
        ),
    ],
)
def test_a_job_compares_the_machine_it_was_sent_to_with_its_partition(node7, check, given, message):
    with pytest.raises(InputError, match=message):
        check(*given)


def published(name: str) -> campaign.Campaign:
    """A campaign of the project; `all` is there whatever of it is published."""
    data = yaml_schema.load((HOME / "config" / name).read_text(), name)
    data = {key: "all" if value == "published" else value for key, value in data.items()}
    return campaign_file.load(data, name, KERNELS)


def test_every_campaign_of_the_project_is_good():
    for path in (HOME / "config").glob("*.yaml"):
        if path.name != "claims.yaml":
            published(path.name)
    assert campaign_file.find("default").name == "config.yaml"


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
        given = plan.confirmation(kind, plan.blocks[kind][""].items)
        assert given["finalists"] == 2
        assert given["limits"]["max_samples"] == rounds
        assert given["limits"]["max_seconds"] == seconds


@pytest.mark.parametrize(
    ("schema", "page"), [("kernel", "docs/header.md"), ("config", "config/README.md")]
)
def test_the_page_of_a_file_explains_every_key(schema, page):
    path = HOME / "workflow" / "schemas" / f"{schema}.schema.yaml"
    keys = yaml_schema.load(path.read_text(), schema)["properties"]
    text = (HOME / page).read_text()
    assert [key for key in keys if f"`{key}`" not in text] == []


PROBLEMS = "problems: {cpu: [[1, 1, 1]]}\n"
TINY = {"campaign": "t", "problems": {"cpu": [[1, 1, 1]]}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """A folder with the default campaign and another."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "config" / "config.yaml", f"campaign: default\nkernels: all\n{PROBLEMS}")
    text = f"campaign: other\nkernels: [cpu/a]\n{PROBLEMS}"
    return written(tmp_path / "config" / "b.yaml", text).parent


@pytest.mark.parametrize(
    ("files", "given", "name", "source"),
    [
        ([], {"seed": 3}, "default", "config/config.yaml and --config"),
        ([], {"campaign": "other"}, "other", "config/b.yaml"),
        (["b", "config"], {"campaign": "merged"}, "merged", "config/b.yaml, config/config.yaml"),
        ([], {"kernels": "all"}, "default", "config/config.yaml and --config"),
        # other kernels: else their tables and figures would replace those of all
        ([], {"kernels": ["cpu/mine"]}, "default-cpu-mine", "config/config.yaml and --config"),
        (["b"], {"kernels": ["cpu/a"]}, "other", "config/b.yaml"),
        (["b"], {"kernels": "all"}, "other", "config/b.yaml and --config"),
        (
            ["b"],
            {"kernels": ["cpu/b", "cuda/c"]},
            "other-cpu-b-cuda-c",
            "config/b.yaml and --config",
        ),
    ],
)
def test_the_campaign_that_the_command_line_asks_for(folder, files, given, name, source):
    paths = [folder / f"{file}.yaml" for file in files]
    for path in reversed(paths):  # as Snakemake merges them
        given = yaml.safe_load(path.read_text()) | given
    data, of = campaign_file.read(paths, given)
    assert (data["campaign"], of) == (name, source)
    assert data["kernels"] == given.get("kernels", data["kernels"])


def test_an_unknown_campaign_and_two_of_one_name_are_refused(folder):
    message = r"campaign=third: no such campaign in .* or .*; expected one of other, default"
    with pytest.raises(InputError, match=message):
        campaign_file.find("third")
    with pytest.raises(InputError, match=r"othr: no such campaign in .*; did you mean `other`\? E"):
        campaign_file.find("othr")
    written(folder / "c.yaml", "campaign: other")
    with pytest.raises(
        InputError, match=r"c\.yaml: campaign: got other, as in .*b\.yaml; expected"
    ):
        campaign_file.find("other")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"campaign": "other", "problms": {}}, "unknown key 'problms'; did you mean `problems`?"),
        ({"campaigned": "m", "problems": {}}, "unknown key 'campaigned'; did you mean `campaign`?"),
        ({"campaign": "othr"}, "campaign=othr: no such campaign in "),
        ({"campaign": "other", "seed": -1}, "seed: got -1; expected a whole number from 0 to"),
    ],
)
def test_what_is_wrong_in_the_config_of_a_module_is_named(folder, given, message):
    with pytest.raises(InputError, match=f"the config of the module: {re.escape(message)}"):
        campaign_file.read(None, given)
    assert campaign_file.read(None, {"campaign": "other", "seed": 3})[0]["seed"] == 3


@pytest.mark.parametrize(
    ("pattern", "searched"),
    [
        ("cpu/*", True),
        ("**/*.cu", True),
        ("../mine/*.cu", True),
        ("/srv/*/a.cu", True),
        ("/*.cu", False),
        ("//./**/a.cu", False),
        ("/../*/a.cu", False),
        (".././**/a.cu", False),
        ("./a/../../[a-z]*/", False),
    ],
)
def test_a_pattern_does_not_search_the_whole_disk(pattern, searched):
    with nullcontext() if searched else pytest.raises(InputError, match="below a folder with a na"):
        yaml_schema.check({**TINY, "kernels": [pattern]}, "config", "t")


def test_the_shortened_name_of_a_campaign_is_its_own_and_a_good_one(folder):
    patterns = ["a" * 60, "b" * 60, "a", "a*", "A"]
    names = {campaign_file.narrowed("default", [f"cpu/{pattern}"]) for pattern in patterns}
    assert len(names) == 5
    for name in names:
        campaign_file.load({"campaign": name, "problems": {"cpu": [[1, 1, 1]]}}, "t", KERNELS)


def test_numbers_inside_lists_and_mappings_of_the_command_line_are_numbers(folder):
    """Snakemake reads them as text."""
    text = "{problems: {cpu: [['256', '1', '1']]}, measure: {target: '1e-1', race: 'false'}}"
    meant = "{problems: {cpu: [[256, 1, 1]]}, measure: {target: 0.1, race: false}}"
    data, _ = campaign_file.read([], yaml.safe_load(text))
    assert data.items() >= yaml.safe_load(meant).items()


@pytest.mark.parametrize("name", ["2024-11-29", "010", "1e3"])
def test_numbers_and_names_are_read_as_they_are_meant(folder, name):
    """Although Snakemake makes dates and numbers of them."""
    text = (
        f"campaign: {name}\nkernels: [cpu/03_blocked]\nmeasure: {{race: on, target: 1e-3}}\n"
        "problems: {cpu: [[0x10, 1_000, 0b11]]}\n"
    )
    file = written(folder / "mine.yaml", text)
    given = yaml.safe_load(text)
    plan = campaign_file.load(*campaign_file.read([file], given), KERNELS)
    assert (plan.name, plan.limits.race, plan.limits.target) == (name, True, 1e-3)
    assert [problem.label for problem in plan.problems("cpu", "float32")] == ["16x1000x3"]
    if name != "010":  # which --config gives as text
        named = {"campaign": given["campaign"]}
        assert campaign_file.read([], named)[0]["campaign"] == name


def test_a_kernel_that_cannot_be_used_is_refused_where_it_is_asked_for():
    refused = {"cpu/wrong": InputError("wrong.c: header: unknown key")}
    data = {"campaign": "t", "problems": {"cpu": [[1, 1, 1]]}}
    for asked in (["cpu/*"], ["cpu/wrong"], "all"):
        with pytest.raises(InputError, match=r"wrong\.c: header: unknown key"):
            campaign_file.load(data | {"kernels": asked}, "t", KERNELS, refused)
    assert campaign_file.load(data | {"kernels": ["cpu/0*"]}, "t", KERNELS, refused).kernels
