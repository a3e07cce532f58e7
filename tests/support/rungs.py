"""All kernels of the checkout by id, read once a process, however many files of tests need them."""

from ladder.core.places import HOME
from ladder.model.kernel_file import discover

ALL = discover(HOME)
