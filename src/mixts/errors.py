"""All exceptions of mixts.

::

    MixtsError
    +-- ParameterError (ValueError)      an invalid parameter of a prior, family or agent
    |   +-- CovarianceError              a covariance is not symmetric or not positive semi-definite
    |   +-- WeightsError                 weights are negative or do not sum to one
    +-- ObservationError (ValueError)    an invalid observation or decision request
    |   +-- ActionError                  an unknown arm, or features of the wrong shape
    |   +-- OutcomeError                 a reward outside the family's support
    |   +-- MaskError                    a mask of the wrong shape, or without available actions
    |   +-- FeedbackError                feedback for a decision that was not made
    |   +-- TrajectoryError              an episode malformed, or impossible under every component
    |   +-- ConflictError                a key or decision that already has another answer
    +-- TaskError (IndexError)           a task that does not exist
    +-- UnknownTaskError (LookupError)   a task that is not in the store
    +-- UnknownDecisionError (LookupError)  a decision that is not in the store
    +-- StatisticsError (ValueError)     statistics that do not fit each other or the prior
    +-- FormatError (ValueError)         a file of another program, damaged, or of a newer version
    +-- LogsError (ValueError)           logs from which nothing can be learned
    +-- OutputError                      an output folder of another program, or of other settings
    +-- StoreError                       a store of another program, damaged, or of a newer version
    |   +-- StoreUnavailableError        a store that cannot be reached or written to now: retry
    |   +-- TaskLockedError              another writer keeps a task locked: retry later
    |   +-- OverloadedError              too many operations are waiting: retry later
    +-- ClusterError                     a cluster cannot be used, or failed during the work
    +-- MissingExtraError (ImportError)  an optional dependency is not installed

    ConvergenceWarning (UserWarning)     learning stopped before it converged

Every message names what was expected, the value received, and a remedy. A call that raises changes
nothing.
"""

from __future__ import annotations

from typing import Self

__all__ = [
    "ActionError",
    "ClusterError",
    "ConflictError",
    "ConvergenceWarning",
    "CovarianceError",
    "FeedbackError",
    "FormatError",
    "LogsError",
    "MaskError",
    "MissingExtraError",
    "MixtsError",
    "ObservationError",
    "OutcomeError",
    "OutputError",
    "OverloadedError",
    "ParameterError",
    "StatisticsError",
    "StoreError",
    "StoreUnavailableError",
    "TaskError",
    "TaskLockedError",
    "TrajectoryError",
    "UnknownDecisionError",
    "UnknownTaskError",
    "WeightsError",
]


class MixtsError(Exception):
    """Base class of all exceptions that mixts raises."""

    field: str | None = None
    """Field of a request that is at fault, where the exception's class does not imply it."""

    def at(self, field: str) -> Self:
        """Name the field at fault, and return the exception.

        Parameters
        ----------
        field
            Name of the field.

        Returns
        -------
        MixtsError
            The exception itself.
        """
        self.field = field
        return self


class ParameterError(MixtsError, ValueError):
    """An invalid parameter of a prior, a family or an agent."""


class CovarianceError(ParameterError):
    """A covariance is not symmetric, or not positive semi-definite."""


class WeightsError(ParameterError):
    """Weights are negative, not finite, or do not sum to one."""


class ObservationError(MixtsError, ValueError):
    """An invalid observation or decision request."""


class ActionError(ObservationError):
    """An unknown arm, or action features of the wrong shape."""


class OutcomeError(ObservationError):
    """A reward outside the support of the family."""


class MaskError(ObservationError):
    """A mask of the wrong shape, or without available actions."""


class FeedbackError(ObservationError):
    """Feedback for a decision that was not made, or that already has feedback."""


class TrajectoryError(ObservationError):
    """A malformed episode, or one that is impossible under every component."""


class ConflictError(ObservationError):
    """A key that was used for another request, or a decision that got another reward."""


class TaskError(MixtsError, IndexError):
    """A task that does not exist."""


class UnknownTaskError(MixtsError, LookupError):
    """A task that is not in the store of decisions."""


class UnknownDecisionError(MixtsError, LookupError):
    """A decision that is not in the store."""


class StatisticsError(MixtsError, ValueError):
    """Statistics that do not fit each other, or do not fit the prior."""


class FormatError(MixtsError, ValueError):
    """A file that another program wrote, is damaged, or has a newer version."""


class LogsError(MixtsError, ValueError):
    """Logs from which nothing can be learned: something else was recorded than is needed."""


class OutputError(MixtsError):
    """An output folder that another program wrote, is damaged, or has other settings."""


class StoreError(MixtsError):
    """A store that another program wrote, is damaged, or has a newer version."""


class StoreUnavailableError(StoreError):
    """A store that cannot be reached or written to now; the message says if anything changed."""


class TaskLockedError(StoreError):
    """A task that another writer keeps locked; this operation was not carried out."""


class OverloadedError(StoreError):
    """Too many operations are waiting; the new one was not accepted."""


class ClusterError(MixtsError):
    """A cluster that cannot be used, or that failed during the work."""


class MissingExtraError(MixtsError, ImportError):
    """An optional dependency is not installed."""


class ConvergenceWarning(UserWarning):
    """Learning stopped at its last iteration although the objective still grew."""
