"""In place of `ladder.cubin`: what the fake GPU runs is Python, which keeps nothing and has no tensor cores."""


def state(binary: bytes) -> list[str]:
    return []


def uses_tensor_cores(binary: bytes) -> bool:
    return False


def code(binary: bytes) -> list[bytes]:
    return []
