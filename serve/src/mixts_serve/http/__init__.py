"""The decision service over HTTP, in JSON: a layer over ``Decider``."""
