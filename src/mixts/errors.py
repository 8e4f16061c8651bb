"""The exceptions, drawn as a tree.

::

    MixtsError
    +-- ParameterError (ValueError)      a prior, family or agent was given impossible parameters
    |   +-- CovarianceError              a covariance is not symmetric or not positive semi-definite
    |   +-- WeightsError                 weights are negative or do not sum to one
    +-- ObservationError (ValueError)    an observation or a decision cannot be taken as given
    |   +-- ActionError                  an unknown arm, or features of the wrong shape
    |   +-- OutcomeError                 a reward outside the family's support
    |   +-- MaskError                    a mask of the wrong shape, or with nothing left to choose
    |   +-- FeedbackError                feedback for a decision that was not made
    |   +-- TrajectoryError              a malformed episode, or one that no component can explain
    |   +-- ConflictError                a key or a decision that was answered otherwise before
    +-- TaskError (IndexError)           a task that does not exist
    +-- UnknownTaskError (LookupError)   a task that the store has never seen
    +-- UnknownDecisionError (LookupError)  a decision that was never made
    +-- StatisticsError (ValueError)     statistics that do not fit together, or not this prior
    +-- FormatError (ValueError)         a file that is not ours, damaged, or from a newer version
    +-- OutputError                      an output folder is not ours, damaged, or of other settings
    +-- StoreError                       a store of decisions that is not ours, damaged, or newer
    |   +-- StoreUnavailableError        it cannot be written to or reached now: try again later
    |   +-- OverloadedError              more is waiting than was agreed: try again later
    +-- ClusterError                     a cluster cannot be used, or died with the work
    +-- MissingExtraError (ImportError)  an optional dependency is not installed

    ConvergenceWarning (UserWarning)     learning ended before it was finished

Every message says what was expected, what came, and what to do. A refused call changes nothing.
"""

from __future__ import annotations


class MixtsError(Exception):
    """The root of every exception that mixts raises on purpose."""


class ParameterError(MixtsError, ValueError):
    """A prior, a family or an agent was given impossible parameters."""


class CovarianceError(ParameterError):
    """A covariance is not symmetric, or not positive semi-definite."""


class WeightsError(ParameterError):
    """Weights are negative, not finite, or do not sum to one."""


class ObservationError(MixtsError, ValueError):
    """An observation or a decision cannot be taken as given."""


class ActionError(ObservationError):
    """An unknown arm, or action features of the wrong shape."""


class OutcomeError(ObservationError):
    """A reward outside the support of the family."""


class MaskError(ObservationError):
    """A mask of the wrong shape, or one that leaves nothing to choose."""


class FeedbackError(ObservationError):
    """Feedback for a decision that was not made, or was answered before."""


class TrajectoryError(ObservationError):
    """A malformed episode, or one that is impossible under every component."""


class ConflictError(ObservationError):
    """A key that was used for another request, or a decision that got another reward."""


class TaskError(MixtsError, IndexError):
    """A task that does not exist."""


class UnknownTaskError(MixtsError, LookupError):
    """A task that the store of decisions has never seen."""


class UnknownDecisionError(MixtsError, LookupError):
    """A decision that was never made, or not in this store."""


class StatisticsError(MixtsError, ValueError):
    """Statistics that do not fit together, or do not fit the prior."""


class FormatError(MixtsError, ValueError):
    """A file that is not ours, is damaged, or comes from a newer version."""


class OutputError(MixtsError):
    """An output folder that is not ours, is damaged, or was made with other settings."""


class StoreError(MixtsError):
    """A store of decisions that is not ours, is damaged, or comes from a newer version."""


class StoreUnavailableError(StoreError):
    """A store that cannot be written to or reached now; nothing was changed."""


class OverloadedError(StoreError):
    """More operations wait than was agreed; nothing was taken on."""


class ClusterError(MixtsError):
    """A cluster that cannot be used, or that died with the work."""


class MissingExtraError(MixtsError, ImportError):
    """An optional dependency is not installed."""


class ConvergenceWarning(UserWarning):
    """Learning ended at its last iteration although the objective still grew."""
