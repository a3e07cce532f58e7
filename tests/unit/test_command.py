"""The command `ladder`: its help holds examples that it understands."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from ladder.cli import main as command
from ladder.cli import publish
from ladder.storage import published_index
from planted import HOME

LADDER = Path(sys.executable).with_name("ladder")


@pytest.mark.parametrize(
    ("function", "example"),
    command.COMMANDS.items(),
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_an_example_is_shown_and_understood(function, example, capsys):
    words = shlex.split(example)
    assert words[:2] == ["ladder", function.__name__.rstrip("_")]
    assert callable(command.parser().parse_args(words[1:]).run)
    with pytest.raises(SystemExit, match="0"):
        command.main([words[1], "--help"])
    assert f"example:\n  {example}\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", [example.split()[1] for example in command.COMMANDS.values()])
def test_help_is_as_wide_as_the_terminal(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    with pytest.raises(SystemExit, match="0"):
        command.main([name, "--help"])
    assert max(map(len, capsys.readouterr().out.partition("\nexample:")[0].splitlines())) <= 60


def test_help_names_every_command_at_once():
    slow = {"numpy", "pandas", "matplotlib", "pyarrow", "snakemake"}  # to import
    code = (
        "import sys\nfrom ladder.cli.main import main\ntry: main(['--help'])\nfinally: assert "
        f"not {slow} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(
        f"\n    {example.split()[1]} " in done.stdout for example in command.COMMANDS.values()
    )
    for first, group in command.GROUPS.items():
        assert f"\n  {group}:\n    {first} " in done.stdout


def test_what_is_not_a_dataset_is_one_line(tmp_path):
    done = subprocess.run(
        [LADDER, "publish", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {tmp_path}: no environment.json")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_who_stops_reading_is_no_error():
    """As `| head` does."""
    first, second, *_ = published_index.runs(HOME / "results" / "published").values()
    command = [LADDER, "compare", first, second]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 0


@pytest.mark.parametrize(
    ("options", "given"),
    [([], (False, False)), (["--repeat"], (True, False)), (["--not-from-lock"], (False, True))],
)
def test_publish_passes_on_what_it_is_given(options, given, monkeypatch, capsys):
    monkeypatch.setattr(publish, "publish", lambda *passed: passed)
    command.main(["publish", "here", "why not", *options])
    passed = Path("here"), HOME / "results" / "published", "why not", *given
    assert capsys.readouterr().out == f"published {passed}; now commit it\n"


def test_publish_without_a_dataset_draws_all_again(monkeypatch, capsys):
    monkeypatch.setattr(publish, "redraw", lambda published: [published / "a", published / "b"])
    command.main(["publish"])
    assert capsys.readouterr().out == "".join(
        f"drew {HOME}/results/published/{name} again\n" for name in "ab"
    )
