"""What a page says was measured is what the committed data say."""

import json

from planted import ROOT


def data(name):
    return json.loads((ROOT / "results" / "published" / f"{name}.json").read_text())


def test_the_image():
    facts, page = data("robustness/image"), (ROOT / "docs" / "container.md").read_text()
    assert f"{facts['unpacked'] / 1000:.2f} GB unpacked, {facts['archive'] / 1000:.2f} GB as an OCI archive" in page
    assert f"on a base of {facts['base']} MB" in page
    assert f"| {facts['base']} | Debian's base" in page
    rest = facts["unpacked"] - facts["base"]
    shown = {"nvcc": "| {} | `nvcc`", "bindings": "| {} | `cuda-bindings`", "tables and figures": "| {} | pandas"}
    shown |= {"project": "| {} | the project", "cuBLASLt": "({} of them cuBLASLt)", "bytecode": "{} MB of all that is Python"}
    for what, size in facts["parts"].items():
        assert shown.get(what, f"| {{}} | {what}").format(size) in page, what
        rest -= 0 if what in ("cuBLASLt", "bytecode") else size
    assert f"| {rest} | the rest" in page
    assert f"the same {facts['packages']} packages and the same\nbytes in all {facts['files']:,} files" in page
    assert (facts["files_that_differ"], facts["layers_that_differ"]) == ([], 0)
    assert "builds took {} s and {} s".format(*facts["build_seconds"]) in page
