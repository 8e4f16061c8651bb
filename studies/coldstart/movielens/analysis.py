"""What priors learned from some people are worth for others."""

from __future__ import annotations

import numpy as np

from mixts.experiments.base import Arrays, Findings, Measured
from mixts.experiments.paper._analysis import pm
from mixts.experiments.verdicts import N_BETTER, better, weaker
from mixts.pages import Claim, Table, Verdict
from mixts.simulation import Estimate
from studies.coldstart.movielens.figures import (
    evidence_drawing,
    reward_drawing,
    signed,
)
from studies.coldstart.movielens.paired import EARLY, Pairs, Scores
from studies.coldstart.movielens.priors import (
    AGENTS,
    COMPONENTS,
    FLAT,
    MIXTURE,
    ONE,
    RIDGES,
    TWO_STAGE,
    UNI,
)
from studies.coldstart.movielens.splits import (
    LEAST_RATINGS,
    N_OFFERED,
    N_PLAYS,
)

_PLACE = "not in the paper"


def analyse(measured: Measured, *, published: bool) -> Findings:
    """Rewards and held-out evidence of every agent, with paired differences."""
    arrays = measured.parts["splits"]
    pairs = Pairs(arrays)
    scores = {name: pairs.scores(name) for name in AGENTS}
    leads = {name: pairs.scores(MIXTURE, name) for name in AGENTS if name != MIXTURE}
    n_rounds = measured.setting.n_rounds
    early = min(EARLY, n_rounds)
    order = ", ".join(f"{name} {scores[name].early.mean:.2f}" for name in AGENTS)
    return Findings(
        _paragraphs(arrays, published),
        tuple(_claims(pairs, leads, early, n_rounds)),
        (
            _table(scores, early, n_rounds),
            _lead_table(leads, early, n_rounds),
            _split_table(pairs),
            _kinds_table(arrays, measured.kept["names"]),
        ),
        (reward_drawing(measured, pairs), evidence_drawing(pairs, leads)),
        f"With people it has never seen, the first {early} films of each agent are rated: {order}.",
    )


def _paragraphs(arrays: Arrays, published: bool) -> tuple[str, ...]:
    n_splits = len(arrays["chosen"])
    per_split = len(arrays["latent"]) // n_splits
    n_users = len(np.unique(arrays["latent"]))
    source = (
        "Data: MovieLens ml-latest-small, 100,836 ratings by 610 users, by GroupLens at the "
        "University of Minnesota, who endorse nothing said here; for research, not for commercial "
        "use without permission, and passed on under the same terms only (its README). Harper and "
        "Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5, 4 (2015)."
        if published
        else "Data: ratings of the user's own, in the form of MovieLens. They are not "
        "ml-latest-small, or a changed copy of it; MovieLens itself is for research, and not for "
        "commercial use."
    )
    return (
        source,
        f"A task is a person. In each of {n_splits} splits {per_split} users with at least "
        f"{LEAST_RATINGS} ratings are held out, and all others train. A round offers {N_OFFERED} "
        "films that the user has rated and that were not taken yet, and the reward is the real "
        "rating, 0.5 to 5. All agents are offered the same films, but for those that they have "
        f"taken. Every user is played {N_PLAYS} times, and counts once.",
        "Films have 11 features that only training users determine: the constant, what everybody "
        "thinks of the film, and the nine combinations of genres, year, popularity and mean rating "
        "about which people disagree most. A training user's own rating is left out of the "
        "features of its film: with it, a film that few have seen is described by what is to be "
        "predicted, and every prior is far too sure of itself.",
        f"{FLAT} has N(0, s² I), {UNI} one Gaussian and “{TWO_STAGE}” a mixture fitted to the "
        f"training users' ridge estimates; “{ONE}” and {MIXTURE} are learned by the evidence. All "
        "that is chosen is chosen on the split's training users: s by their evidence; the ridge "
        f"({', '.join(f'{one:g}' for one in RIDGES)}) and the number of components "
        f"({', '.join(map(str, COMPONENTS))}) of the two stages by cross-validated evidence, the "
        f"best of all; the components of {MIXTURE} by the one-standard-error rule. How films are "
        "described, and two constants that shrink means, were chosen once on the training users of "
        "one other split, some of whom are held out here; all agents share them.",
        f"± is one standard error. {n_users} users are held out in one split or more: pairs of the "
        "same user are alike, and pairs of the same split share a prior, so errors are clustered "
        "both ways (V_user + V_split − V_pair, and not less than either). Splits overlap in whom "
        "they train on: what another 610 people would change for all splits alike is not in it. "
        f"Differences are paired, and called noise where they are within {N_BETTER:g} errors.",
    )


# -- claims --------------------------------------------------------------------------------------


def _claims(pairs: Pairs, leads: dict[str, Scores], early: int, n_rounds: int) -> list[Claim]:
    claims = [_evidence_claim(leads[name], name) for name in (ONE, TWO_STAGE)]
    lead = leads[TWO_STAGE]
    claims.append(
        Claim(
            _PLACE,
            "No reward is worse than that of the two stages.",
            _rewards(lead, early, n_rounds),
            weaker(_not_worse(lead.early), _not_worse(lead.whole)),
            f"Holds unless it is worse by more than {N_BETTER:g} standard errors.",
        )
    )
    for name, what in (
        (FLAT, "Thompson sampling that knows nothing"),
        (UNI, "one Gaussian of point estimates"),
        (TWO_STAGE, "a mixture of point estimates"),
        (ONE, "one Gaussian learned by the evidence"),
    ):
        claims.append(
            Claim(
                _PLACE,
                f"In the first {early} rounds {MIXTURE} earns more than {what}.",
                _rewards(leads[name], early, n_rounds),
                better(leads[name].early),
                "" if better(leads[name].early) == "holds" else "The difference is noise.",
            )
        )
    one = pairs.scores(ONE, TWO_STAGE)
    claims.append(
        Claim(
            _PLACE,
            "One Gaussian learned by the evidence is as good as the mixture of the two stages.",
            f"{_rewards(one, early, n_rounds)}; evidence a rating {signed(one.evidence, 4)}",
            weaker(_not_worse(one.early), _not_worse(one.whole), _not_below(one.evidence)),
            f"Rewards not worse by more than {N_BETTER:g} standard errors, evidence not below.",
        )
    )
    return claims


def _evidence_claim(lead: Scores, name: str) -> Claim:
    what = {ONE: "its one-component form", TWO_STAGE: "the two stages"}[name]
    return Claim(
        _PLACE,
        f"Held-out evidence of the evidence-learned mixture is not below that of {what}.",
        f"{signed(lead.evidence, 4)} a rating over all ratings, {signed(lead.by_user, 4)} where "
        "every user counts the same",
        weaker(_not_below(lead.evidence), _not_below(lead.by_user)),
        f"Holds if neither is below 0; the direction only if within {N_BETTER:g} standard errors. "
        "Each prior is scored with the noise it acts with.",
    )


def _not_below(difference: Estimate) -> Verdict:
    if difference.mean >= 0:
        return "holds"
    near = difference.mean >= -N_BETTER * difference.error
    return "direction only" if near else "does not hold"


def _not_worse(difference: Estimate) -> Verdict:
    near = difference.mean >= -N_BETTER * difference.error
    return "holds" if near else "does not hold"


def _rewards(lead: Scores, early: int, n_rounds: int) -> str:
    return (
        f"{signed(lead.early, 3)} a round in the first {early}, {signed(lead.whole, 3)} in all "
        f"{n_rounds}"
    )


# -- tables --------------------------------------------------------------------------------------


def _table(scores: dict[str, Scores], early: int, n_rounds: int) -> Table:
    rows = tuple(
        (name, pm(one.early, 3), pm(one.whole, 3), pm(one.evidence, 4), pm(one.by_user, 4))
        for name, one in scores.items()
    )
    return Table(
        (
            "agent", f"rating, first {early} rounds", f"all {n_rounds}",
            "log evidence a rating", "every user the same",
        ),
        rows,
        "Mean rating of the films taken, and log evidence of all ratings of held-out users, over "
        "all splits.",
        (False, True, True, True, True),
    )  # fmt: skip


def _lead_table(leads: dict[str, Scores], early: int, n_rounds: int) -> Table:
    rows = tuple(
        (
            f"{MIXTURE} − {name}",
            *(_judged(one, 3) for one in (lead.early, lead.whole)),
            *(_judged(one, 4) for one in (lead.evidence, lead.by_user)),
        )
        for name, lead in leads.items()
    )
    return Table(
        (
            "difference", f"rating, first {early} rounds", f"all {n_rounds}",
            "log evidence a rating", "every user the same",
        ),
        rows,
        "Paired differences, user by user in the same split.",
        (False, True, True, True, True),
    )  # fmt: skip


def _judged(difference: Estimate, digits: int) -> str:
    noise = abs(difference.mean) <= N_BETTER * difference.error
    return signed(difference, digits) + (" (noise)" if noise else "")


def _split_table(pairs: Pairs) -> Table:
    rows = []
    arrays = pairs.arrays
    for split in range(len(arrays["chosen"])):
        gaps = [
            f"{arrays['selection/gap'][split, i]:.2f}"
            for i in np.flatnonzero(~np.isnan(arrays["selection/gap"][split]))
        ]
        rows.append(
            (
                str(split + 1),
                str(int(arrays["chosen"][split])),
                ", ".join(gaps),
                str(int(arrays["two_stage/components"][split])),
                f"{arrays['two_stage/ridge'][split]:g}",
                f"{arrays['noise'][split, AGENTS.index(MIXTURE)]:.3f}",
                *(
                    f"{pairs.split_lead(split, MIXTURE, name):+.4f}".replace("-", "−")
                    for name in (ONE, TWO_STAGE)
                ),
            )
        )
    return Table(
        (
            "split", "L chosen", "evidence a user below the best, L = 1, 2, ...",
            "two-stage L", "ridge", "noise of MixTS", f"evidence over {ONE}", f"over {TWO_STAGE}",
        ),
        tuple(rows),
        "What was chosen on the training users of each split, by cross-validation, and how much "
        "more log evidence a rating the mixture gives to held-out users.",
        (True, True, False, True, True, True, True, True),
    )  # fmt: skip


def _kinds_table(arrays: Arrays, names: Arrays) -> Table:
    """The components of the first split, in words."""
    genres, titles = (names[key].tobytes().decode().split("\n") for key in ("genres", "titles"))
    n = int(arrays["chosen"][0])
    weight, mean, spread, taste, named = (
        arrays[f"kinds/{key}"][0, :n] for key in ("weight", "mean", "spread", "taste", "named")
    )
    liking = arrays["kinds/genre"][0, :n] - mean[:, None]
    compared = liking - weight @ liking if n > 1 else liking
    rows = []
    for kind in range(n):
        order = np.argsort(-compared[kind], kind="stable")
        rows.append(
            (
                f"{weight[kind]:.0%}",
                f"{mean[kind]:.2f}",
                f"{taste[kind]:.2f}",
                f"{spread[kind]:.2f}",
                ", ".join(genres[i] for i in order[:3]),
                ", ".join(genres[i] for i in order[::-1][:3]),
                "; ".join(titles[int(i)] for i in named[kind]),
            )
        )
    return Table(
        (
            "of people", "mean rating", "taste", "differ by", "rather likes", "rather not",
            "well-known films",
        ),
        tuple(rows),
        f"The kinds of people that {MIXTURE} knows in the first split. Taste: how much a typical "
        "one likes some films more than others (standard deviation over films). Differ by: how "
        "much people of the kind differ in what they think of a film. Genres and films are those "
        "that the kind likes more, or less, than others do, apart from its mean rating.",
        (True, True, True, True, False, False, False),
    )  # fmt: skip
