"""Studies that use mixts like any user: they live beside the package and are not part of it."""
