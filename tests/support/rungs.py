"""All kernels of the checkout by id, read once a process, however many files of tests need them."""

from ladder.core.files import ROOT
from ladder.model.kernel_file import discover

ALL = discover(ROOT)
