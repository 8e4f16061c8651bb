"""Make numba compile in half the time, to the same code.

Much of what numba does is not needed:

- For every operation of a function, numba tries all implementations of the operator in turn until
  one fits: most of them are for strings, dictionaries and the like. Here numba remembers what it
  found for the same operator and the same types.
- numba links the code of a function into every caller, and optimises it there again. So an inner
  function needs neither an optimisation of its own nor machine code.
- numba makes hundreds of thousands of objects, and Python looks for garbage among all objects of
  the process again and again.
- Passes of the compiler look for closures, contexts and the like, which no loop has.
- The first of two optimisations only helps to find operations that count references. Functions that
  borrow their arrays have none.

This module overrides private parts of numba, so ``mixts._compiled`` imports it only for the
versions of numba that it was tried with; other versions compile as usual.
"""

from __future__ import annotations

import gc
from typing import Any

from numba.core import codegen, compiler, cpu, targetconfig, types

JITCodeLibrary: Any = codegen.JITCodeLibrary
BaseCompiler: Any = compiler.Compiler
ConfigStack: Any = targetconfig.ConfigStack
BaseFunction: Any = types.functions.BaseFunction
make_function: Any = vars(cpu)["_dynfunc"].make_function

# -- the types of operations ----------------------------------------------------------------------

_resolve: Any = BaseFunction.get_call_type

_options: dict[int, str] = {}
"""Options of each of our functions that is being compiled, by the id of numba's record of them."""

_known: dict[Any, tuple[Any, Any]] = {}
"""Function and signature by the id of the function, the types of arguments and the options."""


def _recall(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """Return the signature of a call, from memory if one of our functions is being compiled."""
    options = _options.get(id(ConfigStack.top_or_none()))
    if options is None or kws:
        return _resolve(function, context, args, kws)
    key = id(function), tuple(args), options
    if key not in _known:
        _known[key] = function, _resolve(function, context, args, kws)
    return _known[key][1]


# -- the code of functions ------------------------------------------------------------------------


class _Ingredient(JITCodeLibrary):  # type: ignore[misc]
    """The code of an inner function: input for the optimiser of its callers, never run."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _Borrower(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function that counts no references: one optimisation is enough."""

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


# -- the compilers --------------------------------------------------------------------------------

_UNUSED = {
    "WithLifting",
    "InlineClosureLikes",
    "RewriteDynamicRaises",
    "MakeFunctionToJitFunction",
    "FindLiterallyCalls",
    "LiteralUnroll",
    "LiteralPropagationSubPipelinePass",
    "NoPythonSupportedFeatureValidation",
    "DumpParforDiagnostics",
}
"""Passes for what no loop has: contexts, closures, comprehensions, ``raise``, loops over types."""


class Compiler(BaseCompiler):  # type: ignore[misc]
    """numba's compiler with a memory, and without collections of garbage."""

    _noted = 0
    """The id of numba's record of the options."""

    def define_pipelines(self) -> Any:
        self._noted = id(ConfigStack().top())
        _options[self._noted] = self.state.flags.summary()
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [one for one in pipeline.passes if one[0].__name__ not in _UNUSED]
            pipeline.finalize()
        return pipelines

    def _compile_core(self) -> Any:
        # Only one thread compiles at a time, but a function may have others compiled.
        collects, outermost = gc.isenabled(), not _options
        try:
            if outermost:
                gc.disable()
                BaseFunction.get_call_type = _recall
            return super()._compile_core()
        finally:
            _options.pop(self._noted, None)
            if outermost:
                BaseFunction.get_call_type = _resolve
                if collects:
                    gc.enable()

    def _compile_bytecode(self) -> Any:
        state = self.state
        if not state.flags.nrt:
            state.library = _Borrower(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
        return super()._compile_bytecode()


class InnerCompiler(Compiler):
    """The same, without the steps that turn a function's code into something to call."""

    def _compile_bytecode(self) -> Any:
        state = self.state
        state.library = _Ingredient(state.targetctx.codegen(), state.func_id.func_qualname)
        # The context is this compilation's own copy.
        state.targetctx.get_executable = _nothing_to_call
        return BaseCompiler._compile_bytecode(self)


def _nothing_to_call(library: Any, description: Any, environment: Any) -> Any:
    """Return the object by which callers know an inner function; calling it is impossible."""
    module, name = description.lookup_module(), description.qualname.split(".")[-1]
    return make_function(module, name, "", 0, environment, (library,))
