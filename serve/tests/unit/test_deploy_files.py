"""The files of ``serve/deploy``: they name what exists, and programs that can check them do."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from mixts_serve import Decider, DecisionStore
from mixts_serve.commands import serve
from mixts_serve.http.app import Service
from mixts_serve.http.metrics import lift_gauges

from serve.tests.contracts.stores import arms
from serve.tests.unit.dashboard.test_worth import worth
from serve.tests.unit.http.calls import get, post

DEPLOY = Path(__file__).parents[2] / "deploy"
ROOT = DEPLOY.parents[1]
BROUGHT = {"prior.json", "tokens.txt", "metrics-token.txt", "mixts.pem", "mixts.key"}
"""Files that the operator puts beside the compose file."""


def options() -> set[str]:
    """Return all options of ``mixts serve``."""
    parser = argparse.ArgumentParser()
    serve.register(parser)
    return {name for action in parser._actions for name in action.option_strings}


def container_file() -> list[str]:
    """Return the instructions of the container file, each in one line."""
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    return [line for line in re.sub(r"\\\n\s*", "", text).splitlines() if line]


def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def checked(*command: str) -> None:
    """Run a program that checks a file, if it is installed."""
    program = shutil.which(command[0])
    if program is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_git_ignores_what_an_operator_brings() -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    brought = [str(DEPLOY / name) for name in sorted({*BROUGHT, ".env"})]
    found = subprocess.run(
        ["git", "check-ignore", *brought], capture_output=True, text=True, cwd=ROOT
    )
    if found.returncode == 128:
        pytest.skip("this is no clone")
    assert found.stdout.split() == brought


def test_the_container_file_copies_what_exists_and_runs_as_a_user() -> None:
    lines = container_file()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY")]
    assert copied
    for source in (name for names in copied for name in names):
        assert (ROOT / source).exists(), source
        assert ROOT / source not in (DEPLOY, *DEPLOY.parents), "it may have tokens and keys"
    assert "USER 10001" in lines[lines.index("WORKDIR /var/lib/mixts") - 1]
    assert 'ENTRYPOINT ["mixts", "serve"]' in lines
    (check,) = [line for line in lines if line.startswith("HEALTHCHECK")]
    _, code = json.loads("[" + check.partition("[")[2])[1:]
    compile(code, "HEALTHCHECK", "exec")
    assert "/readyz" in code


def test_every_option_exists() -> None:
    texts = [(DEPLOY / "Containerfile").read_text().partition("FROM")[0]]
    unit = (DEPLOY / "mixts.service").read_text()
    texts += [line.partition("mixts serve")[2] for line in unit.splitlines()]
    texts += compose()["services"]["mixts"]["command"]
    used = {name for text in texts for name in re.findall(r"(?<![\w-])--[a-z-]+", text)}
    assert {"--store", "--prior", "--token-file", "--log-format"} <= used
    assert used - {"--now"} <= options()


def test_the_compose_file_mounts_what_exists() -> None:
    services, volumes = compose()["services"], compose()["volumes"]
    assert set(services) == {"mixts", "postgres", "proxy", "prometheus", "grafana"}
    build = services["mixts"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).exists()
    for service in services.values():
        for mount in service.get("volumes", ()):
            source = mount.split(":")[0]
            known = source in volumes or source.removeprefix("./") in BROUGHT
            assert known or (DEPLOY / source).exists(), mount
        assert service.get("depends_on", {}).keys() <= services.keys()
    told = (DEPLOY / "compose.yaml").read_text().partition("services:")[0]
    assert all(name in told for name in BROUGHT | {".env"})
    (target,) = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())[
        "scrape_configs"
    ][0]["static_configs"][0]["targets"]
    assert target == "mixts:8321"
    changed = f"s/{nginx_upstream()}/{target}/"
    assert changed in services["proxy"]["command"][-1]


def nginx_upstream() -> str:
    found = re.search(r"^ +server (.*?);", (DEPLOY / "nginx.conf").read_text(), re.MULTILINE)
    assert found
    return found[1]


def test_every_metric_of_alerts_and_charts_exists(tmp_path: Path) -> None:
    with DecisionStore(tmp_path / "d.db") as store, Decider(arms(), store, seed=1) as decider:
        app = Service(decider, store)
        made = post(app, "/v1/decide", {"task": "ada"}).json
        post(app, "/v1/reward", {"id": made["id"], "value": 1})
        text = get(app, "/metrics").body.decode()
        app.close()
    there = set(re.findall(r"^(mixts_\w+)", text, re.MULTILINE))
    # These come once the log has been read, and some of them with a holdback.
    there |= {"mixts_prior_expected_reward", "mixts_prior_earned_reward"}
    there |= {f"mixts_{name}" for name in lift_gauges(worth((0.2, 0.3)))}
    endpoints = set(re.findall(r'endpoint="(\w+)"', text)) | {"decisions"}
    charts = json.loads((DEPLOY / "grafana/mixts.json").read_text())
    panels = [target["expr"] for panel in charts["panels"] for target in panel["targets"]]
    rules = yaml.safe_load((DEPLOY / "prometheus/rules.yml").read_text())["groups"][0]["rules"]
    assert len(panels) > 10
    for text in [*panels, *(rule["expr"] for rule in rules)]:
        assert set(re.findall(r"\bmixts_\w+", text)) <= there, text
        assert set(re.findall(r'(?:operation|endpoint)="(\w+)"', text)) <= endpoints, text


def test_the_rules_fire_when_they_should() -> None:
    folder = DEPLOY / "prometheus"
    checked("promtool", "check", "rules", str(folder / "rules.yml"))
    checked("promtool", "test", "rules", str(folder / "rules.test.yml"))


def test_prometheus_accepts_its_configuration() -> None:
    path = DEPLOY / "prometheus/prometheus.yml"
    checked("promtool", "check", "config", "--syntax-only", str(path))


def test_a_linter_accepts_the_container_file() -> None:
    checked("hadolint", str(DEPLOY / "Containerfile"))


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "mixts.service").read_text()
    program = shutil.which("true")
    unit = tmp_path / "mixts.service"
    unit.write_text(text.replace("/opt/mixts/bin/mixts", str(program)))
    checked("systemd-analyze", "verify", str(unit))
