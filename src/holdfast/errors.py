"""The families of errors: each error has a stable code, a message and a remedy. Imports no other room."""

INTERRUPTED = 130  # exit code after Ctrl-C, as shells have it (128 + SIGINT)


class HoldfastError(Exception):
    """A failure with a remedy. Raise by name, catch by family."""

    code = "failed"
    exit_code = 1
    said: tuple[str, str] | None = None  # message and remedy as another program sent them; the texts here name it

    def __init__(self, message: str, *, remedy: str, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        if code is not None:
            self.code = code


class TryLater(HoldfastError):
    """The same call may succeed later; loops retry it."""

    code = "unavailable"
    exit_code = 6


class Limited(TryLater):
    """Too many requests; `retry_after_s` says when to try again."""

    code = "resource_exhausted"

    def __init__(self, message: str, *, remedy: str, code: str | None = None, retry_after_s: float = 2.0) -> None:
        super().__init__(message, remedy=remedy, code=code)
        self.retry_after_s = retry_after_s


class NeedsOperator(HoldfastError):
    """Waiting does not help; a person must do what the remedy says."""


class Failed(NeedsOperator):
    """The operation was tried and did not work."""

    code = "failed"
    exit_code = 1


class Invalid(NeedsOperator):
    """The input or the usage is wrong."""

    code = "invalid_argument"
    exit_code = 2


class NotPermitted(NeedsOperator):
    """The request is valid, but not permitted."""

    code = "permission_denied"
    exit_code = 3


class Unauthenticated(NotPermitted):
    """No valid credential: none was sent, or the one sent does not verify."""

    code = "unauthenticated"


class SignatureRequired(NeedsOperator):
    """An operator of a higher grade, or one more operator, has to sign."""

    code = "signature_required"
    exit_code = 4


class Conflict(NeedsOperator):
    """Another change was committed first, or this change is based on an old state."""

    code = "failed_precondition"
    exit_code = 5


class Unreachable(TryLater):
    """The other side did not answer in time."""


class Corrupt(NeedsOperator):
    """The stored bytes are not the bytes that were written: damaged, forged, forked or rolled back."""

    code = "integrity"
    exit_code = 7
