"""What a call can raise. Everything is a :class:`ClientError`."""

from __future__ import annotations

import math
from typing import Any, ClassVar


class ClientError(Exception):
    """Any failure of a call."""


class Unreachable(ClientError):
    """No connection was made, so nothing was sent and nothing was done."""


class BadReply(ClientError):
    """The answer is not one of this API: too large, cut short, or not its JSON. After a write see :class:`OutcomeUnknown`."""


class Refused(ClientError):
    """The server refused. There is a subclass for each code; a code that this version does not know is a plain ``Refused``."""

    code: str = "internal"
    _by_code: ClassVar[dict[str, type[Refused]]] = {}

    def __init_subclass__(cls) -> None:
        Refused._by_code[cls.code] = cls

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        details: dict[str, Any] | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code or type(self).code
        #: Facts for a program, as ``current_version`` of a conflict.
        self.details = details or {}
        #: Whether the same request may succeed later.
        self.retryable = retryable
        #: After how many seconds, if the server says so.
        self.retry_after = retry_after
        #: The HTTP status, if it came from the server.
        self.status = status
        self._hint = hint

    @property
    def message(self) -> str:
        return str(self.args[0])

    @property
    def hint(self) -> str | None:
        """What to do next, if the server says so."""
        named = self._hint or self.details.get("remediation")
        if isinstance(named, str):
            return named
        # A message says what is wrong, then what to do, divided by a semicolon.
        return self.message.partition("; ")[2] or None

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    @staticmethod
    def from_wire(failure: object, status: int | None) -> Refused:
        """The error for ``{"code", "message", "details", "retryable", "retry_after_ms"}``."""
        body = failure if isinstance(failure, dict) else {}
        code, details, after = body.get("code"), body.get("details"), body.get("retry_after_ms")
        code = code if isinstance(code, str) else "internal"
        kind = Refused._by_code.get(code, Refused)
        error = kind(
            str(body.get("message") or f"the server refused with status {status}"),
            code=code,
            details=details if isinstance(details, dict) else {},
            retryable=body.get("retryable") is True,
            retry_after=_seconds(after),
            status=status,
            hint=body.get("hint") if isinstance(body.get("hint"), str) else None,
        )
        return error


def _seconds(millis: object) -> float | None:
    """``None`` for what is no length of time."""
    try:
        seconds = float(millis) / 1000 if isinstance(millis, (int, float)) else math.nan
    except OverflowError:
        return None
    return seconds if 0 <= seconds < math.inf else None


class InvalidArgument(Refused, ValueError):
    code = "invalid_argument"


class NotFound(Refused):
    code = "not_found"


class Conflict(Refused):
    """A precondition does not hold, or an idempotency key was used for another request."""

    code = "conflict"

    @property
    def current_version(self) -> int | None:
        """The version that is stored, if there is one."""
        version = self.details.get("current_version")
        return version if isinstance(version, int) else None


class DriftDetected(Refused):
    code = "drift_detected"


class WrongType(Refused):
    code = "wrong_type"


class TooLarge(Refused):
    code = "too_large"


class QuotaExceeded(Refused):
    code = "quota_exceeded"


class CapabilityUnsupported(Refused):
    code = "capability_unsupported"


class VectorUnsupported(Refused):
    code = "vector_unsupported"


class EmbedderNotConfigured(Refused):
    code = "embedder_not_configured"


class DimensionMismatch(Refused):
    code = "dimension_mismatch"


class ScopeDenied(Refused):
    code = "scope_denied"


class StatementRefused(Refused):
    code = "statement_refused"


class ReadOnly(Refused):
    code = "read_only"


class Timeout(Refused):
    """A read took too long, here or at the server. A write that takes too long is :class:`OutcomeUnknown`."""

    code = "timeout"


class ResultTooLarge(Refused):
    code = "result_too_large"


class TransactionLost(Refused):
    code = "transaction_lost"


class TransactionLimit(Refused):
    code = "transaction_limit"


class RunEnded(Refused):
    code = "run_ended"


class Unauthenticated(Refused):
    code = "unauthenticated"


class Forbidden(Refused):
    code = "forbidden"


class RateLimited(Refused):
    code = "rate_limited"


class Unavailable(Refused):
    code = "unavailable"


class OutcomeUnknown(Refused):
    """A write was sent and no answer came: it may have been done. Read before you write again.

    ``idempotency_key`` is the key it was sent with. The same call with this key is not done twice, if it comes within ten
    minutes.
    """

    code = "outcome_unknown"
    idempotency_key: str | None = None


class EgressDenied(Refused):
    code = "egress_denied"


class Corrupt(Refused):
    code = "corrupt"


class Internal(Refused):
    code = "internal"


__all__ = [
    "BadReply", "CapabilityUnsupported", "ClientError", "Conflict", "Corrupt", "DimensionMismatch",
    "DriftDetected", "EgressDenied", "EmbedderNotConfigured", "Forbidden", "Internal", "InvalidArgument",
    "NotFound", "OutcomeUnknown", "QuotaExceeded", "RateLimited", "ReadOnly", "Refused", "ResultTooLarge",
    "RunEnded", "ScopeDenied", "StatementRefused", "Timeout", "TooLarge", "TransactionLimit", "TransactionLost",
    "Unauthenticated", "Unavailable", "Unreachable", "VectorUnsupported", "WrongType",
]  # fmt: skip
