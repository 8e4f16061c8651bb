"""The example that routes questions to language models, at a small scale."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

import route_models as routes  # noqa: E402


def test_the_data_have_57_subjects_with_100_questions_or_more() -> None:
    names, counts = routes.read_subjects()
    assert len(set(names)) == 57
    assert counts.sum() == 14042  # questions of the MMLU test
    assert counts.sum(axis=1).min() == 100
    first = routes.right_answers(counts)[names.index("anatomy")]
    assert first.tolist() == [84 + 5, 84 + 26]


def test_questions_are_paired_and_not_repeated() -> None:
    counts = np.array([[3, 2, 1, 4], [1, 1, 1, 7]])
    streams = routes.draw_streams(counts, 5, 10, np.random.default_rng(1))
    assert streams.right.shape == (10, 10, 2)
    # All ten questions of a subject, so that every customer has the subject's own counts.
    both = streams.right.all(axis=2).sum(axis=1)
    np.testing.assert_array_equal(both, [3] * 5 + [1] * 5)
    np.testing.assert_array_equal(streams.right.sum(axis=1)[0], [4, 5])
    with pytest.raises(ValueError, match="has 10 questions, not 11"):
        routes.draw_streams(counts, 1, 11, np.random.default_rng(1))


def test_policies_lie_between_the_worst_and_the_best_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subjects, counts = routes.read_subjects()
    values = (2.0, 32.0)
    scores, strong = routes.run(counts[:12], values, 2, 30, seed=1, n_folds=2)
    both = np.stack([scores["always cheap"], scores["always strong"]])
    for name in routes.POLICIES:
        assert (scores[name].mean(axis=1) < both.max(axis=0).mean(axis=1) + 0.5).all()
        assert (scores[name].mean(axis=1) > both.min(axis=0).mean(axis=1)).all()
    # A right answer that is worth twice the strong model's price does not pay for it.
    assert strong[0].mean() < 0.2 < strong[1].mean()
    np.testing.assert_array_equal(scores[routes.FIXED][0], scores["always cheap"][0])
    np.testing.assert_array_equal(scores[routes.FIXED][1], scores["always strong"][1])
    routes.print_tables(values, scores, strong, subjects)
    routes.draw(values, scores, tmp_path / "routes.png", 30)
    assert (tmp_path / "routes.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert printed.count(routes.MIXTURE) == printed.count(routes.DIRECTED) == 2
