"""The rule that rung 21 keeps for the teams that fill its ring of stages in turns.

A barrier knows no more of its phase than the parity. Who waits for a phase with the parity of the
one before the present one goes on at once. So a producer must never come to a stage while the
consumers have yet to give it back twice: there are at most as many teams as the ring has chunks of
two stages, a begun one among them.
"""

import pytest
from ladder.model.kernel_file import discover
from planted import HOME


@pytest.mark.parametrize("stages", range(3, 10))
def test_no_more_teams_fill_the_ring_than_it_has_chunks(stages):
    swept = {"BM": [64], "BN": [64], "STAGES": [stages], "SLICES": [1], "DIRECT": [1, 2, 3]}
    kernel = discover(HOME)["cuda/21_tensor_split"]
    for configuration, objection in kernel.expand(swept, ["float32"]):
        teams = dict(configuration.parameters)["DIRECT"]
        assert (teams <= (stages + 1) // 2) == (not objection)
