"""The decision service over HTTP, in JSON: a layer over ``Decider``."""

from mixts.errors import MissingExtraError

try:
    import httptools  # noqa: F401 - only whether they are there
    import prometheus_client  # noqa: F401
    import starlette  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        f"the service needs {error.name}: pip install 'mixts[serve]'"
    ) from error
