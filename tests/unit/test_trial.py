"""What `ladder try` does before it has a kernel's binary."""

import os
import subprocess
import sys

import pytest
from ladder import wording
from ladder.lock import exclusive

WITHOUT_PANDAS = """
import sys
import ladder.trial
from ladder.campaign import Problem
from ladder.contestants import best_rung
from ladder.environment import ROOT, Device

device = Device("nvidia-h200", "cuda", "NVIDIA H200", "sm_90", 1, (), "")
assert best_rung(device, ROOT / "kernels" / "cuda" / "mine.cu", Problem(4096, 4096, 4096))
assert "pandas" not in sys.modules
"""


def test_pandas_which_takes_longer_than_all_else_is_not_imported():
    done = subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_device_is_taken_at_once_or_not_at_all():
    with exclusive(["test-a"]):
        with exclusive(["test-a", "test-b"], wait=False) as (uuid, _):
            assert uuid == "test-b"
        with pytest.raises(BlockingIOError), exclusive(["test-a"], wait=False):
            pass


@pytest.mark.parametrize(
    ("kind", "others", "said"),
    [
        ("cpu", 0.2, ""),
        ("cpu", 1.26, f"timed while other processes used 1.3 of {os.cpu_count()} cores"),
        ("cuda", 0, ""),
        ("cuda", 1, "timed while 1 other process(es) computed on the device"),
    ],
)
def test_what_others_did_beside_it_is_told_where_it_counts(kind, others, said):
    assert wording.beside(kind, others) == said
