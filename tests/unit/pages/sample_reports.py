"""Reports that tests render: one as an experiment would fill it, and one full of traps."""

from __future__ import annotations

from mixts.pages import Claim, Figure, Report, Section, Table

DRAWING = (
    b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" width="244.8pt" height="180pt" '
    b'viewBox="0 0 244.8 180"><rect width="244.8" height="180" fill="#0072B2"/></svg>'
)
WIDE_DRAWING = DRAWING.replace(b'width="244.8pt"', b'width="504pt"')
ARMED_DRAWING = (
    b'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    b'width="100pt" height="50pt"><style>@import url("http://outside.invalid/a.css");</style>'
    b'<script>document.title = "taken"; fetch("http://outside.invalid/b")</script>'
    b'<image xlink:href="http://outside.invalid/c.png" width="9" height="9"/>'
    b'<rect width="100" height="50"/></svg>'
)
TRAP = "<script>document.title='taken'</script><img src=http://outside.invalid/d onerror=a()>"
"""Text that would run or load something if it were not escaped."""
LONG = "without-any-space" * 20
COMMAND = "mixts reproduce paper/width --runs 200 --seed 0 --out results --features a/long/path.npz"


def typical_report() -> Report:
    """Two sections with claims of each verdict, and one with nothing but a paragraph."""
    width = Section(
        id="paper/width",
        title="Regret against the width of the prior",
        place="Sec. 6.1",
        paragraphs=("The bound takes `max_prior_variance`; see [the end](#run).",),
        figures=(
            Figure(DRAWING, "Regret over width.", "Regret.", ("fig/width.svg", "fig/width.png")),
            Figure(DRAWING, "Regret over rounds.", "Round by round."),
            Figure(WIDE_DRAWING, "One task.", "A single task as it is identified."),
        ),
        tables=(
            Table(
                ("policy", "reward", *(f"column number {i}" for i in range(20))),
                (("MixTS", "0.82 ± 0.01", *["1,234.5"] * 20), ("TS", "—", *["6.7"] * 20)),
                "A table wider than any window, with a caption that has to be read all the same.",
            ),
        ),
        claims=(
            Claim("Sec. 6.1", "The shape is right.", "Correlation 0.98.", "holds", "Flat below 1."),
            Claim("Thm 1", "It scales correctly.", "Up, but slowly.", "direction only"),
        ),
        settings={"runs": "200", "widths": "0.01, 0.05"},
        command=COMMAND,
        seconds=125.0,
    )
    river = Section(
        id="paper/riverswim",
        title="RiverSwim",
        place="Sec. 6.3",
        claims=(
            Claim("Sec. 6.3", "MixTS is better.", "2 against 219.", "holds"),
            Claim("Thm 2", "The bound is near.", "1.3e6 against 2.", "does not hold"),
        ),
        command="mixts reproduce paper/riverswim",
    )
    limits = Section("limits", "Limits", "", paragraphs=("As [above](#paper/width).",))
    return Report(
        title="The paper, repeated",
        paragraphs=("Each claim beside what was measured.",),
        sections=(width, river, limits),
        versions={"mixts": "0.1.0"},
        settings={"seed": "0"},
        command="mixts reproduce --seed 0",
        made="2026-02-03T14:05:11+00:00",
        seconds=23.4,
        summary=("It holds, mostly.", "See `MixTS` in [the table](#claims)."),
        processor_seconds=303.0,
    )


def hostile_report() -> tuple[Report, list[str]]:
    """A report with a trap in every text, and the traps, each different from the others."""
    traps: list[str] = []

    def trap() -> str:
        traps.append(f"{len(traps)}\"'>{TRAP}&amp;{{{{ 7 * 7 }}}}{LONG}")
        return traps[-1]

    def texts(n: int) -> tuple[str, ...]:
        return tuple(trap() for _ in range(n))

    figure = Figure(ARMED_DRAWING, trap(), trap(), ("a b&<\">'#?.svg",))
    table = Table(texts(2), (texts(2), texts(2)), trap())
    claims = tuple(
        Claim(trap(), trap(), trap(), verdict, trap())
        for verdict in ("holds", "direction only", "undecided", "does not hold")
    )
    section = Section(
        "paper/traps", trap(), trap(), texts(2), (figure, figure), (table,), claims,
        {trap(): trap()}, trap(), 1.0, trap(),
    )  # fmt: skip
    report = Report(
        trap(), texts(1), (section,), {trap(): trap()}, {trap(): trap()}, trap(), "2026-02-03", 1.0,
        texts(2), 2.0,
    )  # fmt: skip
    return report, traps
