"""In place of `ladder.baselines.cublas`: a product by NumPy."""


class Cublas:
    """The fake device computes for it."""

    def __init__(self, device: object) -> None:
        self.device = device

    def version(self) -> str:
        return "fake"
