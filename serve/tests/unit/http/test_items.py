"""Actions with ids and named features, over HTTP: JSON, the document, limits and clients."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_serve import Decide
from mixts_serve.client import AsyncClient, Client
from mixts_serve.http.protocol import Limits, read_decide
from mixts_serve.http.refusals import RefusalError

from mixts.errors import ActionError, MaskError
from serve.tests.contracts.test_store_items import OFFER, prior
from serve.tests.unit.test_client_service import deciding, served


def test_clients_and_a_decider_take_the_same_actions(tmp_path: Path) -> None:
    with deciding(tmp_path / "a.db", prior()) as decider, served(decider) as url:
        with Client(url) as client:
            decision = client.decide("x", OFFER, key="k")
            assert decision.arm == "abc"[decision.action]
            # A retry over another way is the same request: keys are digests of names and values.
            whole = [{**one, "features": {**one["features"], "price": 2}} for one in OFFER]
            assert decider.decide("x", OFFER, key="k").id == decision.id
            assert client.decide("x", whole, key="w").id == decider.decide("x", whole, key="w").id
            numpy_offer = [
                {"id": np.str_(one["id"]), "features": {**one["features"], "price": np.float32(2)}}
                for one in OFFER
            ]
            assert client.decide("x", numpy_offer, mask=["b"]).arm == "b"
            many = client.decide_many([Decide("y", OFFER), Decide("y", OFFER, ["c"])])
            assert many[1].arm == "c"
            assert client.task("x").ids == ("a", "b", "c")
            for actions, kind in (([{"id": "a", "features": {"price": 1.0}}], ActionError),):
                with pytest.raises(kind, match="'task' is missing"):
                    client.decide("x", actions)
            with pytest.raises(ActionError, match="finite"):
                client.decide("x", [{"features": {"price": float("nan"), "task": "work"}}])
            with pytest.raises(MaskError, match="names 'z', which"):
                client.decide("x", OFFER, mask=["z"])

        async def alone() -> Any:
            async with AsyncClient(url) as other:
                return await other.decide("x", OFFER, mask=["a"])

        assert asyncio.run(alone()).arm == "a"


def test_the_limit_of_actions_counts_objects() -> None:
    limits = Limits(actions=100)
    one = {"id": "x", "features": {"new": True, "price": 1.0}}
    read_decide(json.dumps({"task": "t", "actions": [one] * 100}).encode(), limits)
    with pytest.raises(RefusalError, match="at most 100 actions"):
        read_decide(json.dumps({"task": "t", "actions": [one] * 101}).encode(), limits)
