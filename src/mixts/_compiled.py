"""The decorator of all compiled loops: compile at the first call and cache the code on disk.

numba invalidates a cached loop only when the loop's own file changes, but our loops call loops of
other files. So the name of the cache folder is a hash of all kernel sources (``_kernels.py`` and
``_kernels/*.py`` of every package) and of this file: after any edit or upgrade all loops are
compiled again. Where no folder can be written to, every process compiles its loops in memory.
"""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

config: Any = numba.config
log = logging.getLogger("mixts")
_HERE = Path(__file__).parent


def _digest() -> str:
    content = hashlib.sha256()
    sources = [
        *_HERE.glob("*/_kernels.py"),
        *_HERE.glob("*/_kernels/*.py"),
        *(_HERE / name for name in ("_compiled.py", "_inner_functions.py")),
    ]
    for source in sorted(sources):
        content.update(source.read_bytes())
    return content.hexdigest()[:16]


def _bases() -> Iterator[Path]:
    """Yield numba's configured folder only, else a folder beside the sources and the user's cache.

    The system's folder for temporary files is not among them: another user could put code there.
    """
    if config.CACHE_DIR:
        yield Path(config.CACHE_DIR)
        return
    yield _HERE / "__pycache__"
    if os.environ.get("XDG_CACHE_HOME"):
        yield Path(os.environ["XDG_CACHE_HOME"]) / "mixts"
        return
    try:
        home = Path.home()
    except RuntimeError:  # HOME is not set, and the system does not know the user
        return
    yield home / ".cache" / "mixts"


def _folder() -> str | None:
    """Return the first folder that can be written to, or None with a warning."""
    name = f"loops-{_digest()}"
    tried = [base / name for base in _bases()]
    for folder in tried:
        if _is_writable(folder):
            return str(folder)
    if multiprocessing.parent_process() is None:  # warn once, not in every worker
        log.warning(
            "mixts cannot keep compiled code in %s, so every process compiles its own and starts "
            "slowly: set NUMBA_CACHE_DIR to a folder that you can write to",
            " or ".join(str(folder.parent) for folder in tried),
        )
    return None


def _is_writable(folder: Path) -> bool:
    """Make the folder if it is missing, and try to write to it and to numba's folders in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        return all(os.access(inner, os.W_OK) for inner in folder.iterdir())
    except OSError:
        return False


FOLDER = _folder()
"""Where compiled loops are kept; None if they stay in memory."""


TRIED = (0, 60), (0, 68)
"""First and last version of numba of which private parts are used, to compile in half the time."""


def _private_options(is_inner: bool, borrows: bool) -> dict[str, Any]:
    """Return options for numba's private parts; none for a version that was not tried."""
    options: dict[str, Any] = {}
    first, last = TRIED
    if not first <= numba.version_info.short <= last:
        return options
    from mixts._inner_functions import Compiler, InnerCompiler

    options["pipeline_class"] = InnerCompiler if is_inner else Compiler
    if borrows:
        options["_nrt"] = False  # numba's runtime, which counts references and allocates
    return options


def compiled(*, inner: bool = False, borrows: bool = False, **options: Any) -> Callable[[F], F]:
    """Return ``numba.njit`` with the shared cache.

    Division by zero gives infinity or NaN as in numpy: checking for it would make loops with
    divisions several times slower. Functions that are ``inner``, or whose name begins with an
    underscore, can be called from other loops only: they are compiled as a part of their callers,
    and only the callers are cached. A function that ``borrows`` its arrays allocates none and
    counts no references, because the caller holds the arrays anyway: a call takes about 0.2 us less
    for each array, and compiling takes less, too.
    """

    def decorate(function: F) -> F:
        is_inner = inner or function.__name__.startswith("_")
        options["no_cfunc_wrapper"] = True  # no compiled loop is called from C
        if is_inner:
            options["no_cpython_wrapper"] = True
        options.update(_private_options(is_inner, borrows))
        # An inner function that was compiled as such has nothing that could be cached.
        cached = FOLDER is not None and not (is_inner and "pipeline_class" in options)
        before = config.CACHE_DIR
        config.CACHE_DIR = FOLDER or before
        try:
            loop: F = njit(cache=cached, error_model="numpy", **options)(function)
        finally:
            config.CACHE_DIR = before
        return loop

    return decorate
