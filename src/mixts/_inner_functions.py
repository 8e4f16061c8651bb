"""Compile functions that only other compiled functions call in half the time.

numba links the code of a function into every caller, and optimises it there again. So an inner
function needs neither an optimisation of its own nor machine code, which are most of what the
compiler does. This module overrides private parts of numba, so ``mixts._compiled`` imports it only
for the versions of numba that it was tried with; other versions compile inner functions as usual.
"""

from __future__ import annotations

from typing import Any

from numba.core import codegen, compiler, cpu

JITCodeLibrary: Any = codegen.JITCodeLibrary
Compiler: Any = compiler.Compiler
make_function: Any = vars(cpu)["_dynfunc"].make_function


class _Ingredient(JITCodeLibrary):  # type: ignore[misc]
    """The code of an inner function: input for the optimiser of its callers, never run."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class InnerCompiler(Compiler):  # type: ignore[misc]
    """numba's compiler, without the steps that turn a function's code into something to call."""

    def _compile_bytecode(self) -> Any:
        state = self.state
        state.library = _Ingredient(state.targetctx.codegen(), state.func_id.func_qualname)
        # The context is this compilation's own copy.
        state.targetctx.get_executable = _nothing_to_call
        return super()._compile_bytecode()


def _nothing_to_call(library: Any, description: Any, environment: Any) -> Any:
    """Return the object by which callers know an inner function; calling it is impossible."""
    module, name = description.lookup_module(), description.qualname.split(".")[-1]
    return make_function(module, name, "", 0, environment, (library,))
