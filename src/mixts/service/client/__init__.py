"""The decision service from another process: what ``Decider`` does, over HTTP."""

from mixts.service.client.answers import ServiceError
from mixts.service.client.clients import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "ServiceError"]
