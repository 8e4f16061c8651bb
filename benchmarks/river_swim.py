"""RiverSwim: PSRL and MixTS, 500 runs at once and one at a time, against rlberry."""

from __future__ import annotations

import river_ours
import river_peers
from episodes import EpisodeBenchmark

N_AT_ONCE = 500
N_ONE_BY_ONE = 8
PSRL = "rlberry PSRL (L = 1)"

ours_at_once = {
    name: river_ours.together(prior, N_AT_ONCE) for name, prior in river_ours.PRIORS.items()
}
ours_one_by_one = {
    name: river_ours.one_by_one(prior, N_ONE_BY_ONE) for name, prior in river_ours.PRIORS.items()
}
peer_psrl = river_peers.player(river_peers.psrl, N_ONE_BY_ONE)

BENCHMARKS = [
    EpisodeBenchmark(
        name="river-psrl",
        title=f"RiverSwim, L = 1 (PSRL), {N_AT_ONCE} runs at once",
        ours=ours_at_once["PSRL"],
        peer=peer_psrl,
        peer_name=PSRL,
        target=10.0,
        target_time=15e-6,
    ),
    EpisodeBenchmark(
        name="river-psrl-one",
        title="RiverSwim, L = 1 (PSRL), one run at a time",
        ours=ours_one_by_one["PSRL"],
        peer=peer_psrl,
        peer_name=PSRL,
        target=None,
    ),
    EpisodeBenchmark(
        name="river-mixts",
        title=f"RiverSwim, L = 2 (MixTS), {N_AT_ONCE} runs at once",
        ours=ours_at_once["MixTS"],
        peer=peer_psrl,
        peer_name=PSRL,
        target=None,
    ),
    EpisodeBenchmark(
        name="river-mixts-one",
        title="RiverSwim, L = 2 (MixTS), one run at a time",
        ours=ours_one_by_one["MixTS"],
        peer=peer_psrl,
        peer_name=PSRL,
        target=None,
    ),
    EpisodeBenchmark(
        name="river-ucbvi",
        title="RiverSwim, L = 1 (PSRL), one run at a time, beside UCBVI",
        ours=ours_one_by_one["PSRL"],
        peer=river_peers.player(river_peers.ucbvi, N_ONE_BY_ONE),
        peer_name="rlberry UCBVI",
        target=None,
    ),
    EpisodeBenchmark(
        name="river-ucbvi-scool",
        title="RiverSwim, L = 1 (PSRL), one run at a time, beside UCBVI not compiled",
        ours=ours_one_by_one["PSRL"],
        peer=river_peers.player(river_peers.scool_ucbvi, 1),
        peer_name="rlberry-scool UCBVI",
        target=None,
    ),
]
