from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "examples" / "frozen_lake.py"


def test_knowing_the_kinds_of_map_pays() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT), "--runs", "8", "--episodes", "40"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if "±" in line}
    assert list(lines) == ["MixTS", "UniTS", "neighbours", "flat"]
    for name in ("neighbours", "flat"):
        gap, error = map(float, re.findall(r"(-?[\d.]+) ± ([\d.]+)", lines[name])[-1])
        assert gap > 4 * error > 0
    assert "MixTS knew the kind of map (99%) in 8 of 8 runs" in done.stdout
