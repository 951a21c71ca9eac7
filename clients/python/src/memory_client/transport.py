"""Requests over HTTP/1.1: deadlines, sizes, kept connections, and which requests are sent again."""

from __future__ import annotations

import functools
import http.client
import io
import json
import math
import random
import selectors
import socket
import ssl
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from .errors import BadReply, InvalidArgument, OutcomeUnknown, RateLimited, Refused, Timeout, Unavailable, Unreachable
from .types import Number

R = TypeVar("R")

#: A connection that was idle for longer is not used again: the server ends one after 15 seconds.
IDLE_SECONDS = 5.0
MAX_IDLE = 8
#: A socket takes no timeout over 24 days.
MAX_WAIT = 86_400.0


class _Lost(Exception):
    """The request was sent, at least in part, and has no usable answer. ``final``: the next would be no better."""

    def __init__(self, what: object, *, final: bool = False) -> None:
        super().__init__(what)
        self.final = final


class _Timed(io.RawIOBase):
    """Reads from a socket until a deadline, however slowly the bytes come."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(_left(self._deadline))
        return self._sock.recv_into(buffer)


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, deadline: float, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self.fp = io.BufferedReader(_Timed(sock, deadline))


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the deadline has passed")
    return min(left, MAX_WAIT)


def _encoded(value: object) -> bytes:
    """The JSON of it. Python's encoder has no way to write a number as it is, so each is put in the place of a mark."""
    mark, numbers = uuid.uuid4().hex, []

    def marked(each: object) -> str:
        if not isinstance(each, Number):
            raise TypeError(f"Object of type {type(each).__name__} is not JSON serializable")
        numbers.append(each.text)
        return mark

    first, *rest = json.dumps(value, ensure_ascii=False, allow_nan=False, default=marked).split(f'"{mark}"')
    return (first + "".join(number + part for number, part in zip(numbers, rest, strict=True))).encode()


def _integer(text: str) -> int | Number:
    try:
        return int(text)
    except ValueError:
        return Number(text)


def _float(text: str) -> float | Number:
    value = float(text)
    too_small = value == 0 and text.lower().partition("e")[0].strip("-0.")
    return Number(text) if too_small or math.isinf(value) else value


def _is_readable(sock: socket.socket) -> bool:
    # Not `select.select`, which refuses the 1,024th open file and those after it.
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))


class Transport:
    """One server. May be used by several threads."""

    def __init__(
        self, url: str, token: str, *, timeout: float, retries: int, repeat_lost_writes: bool,
        max_reply_bytes: int, ca_file: str | None, allow_plain_http: bool,
    ) -> None:  # fmt: skip
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
            raise ValueError("the URL is http://HOST:PORT or https://HOST, without a path")
        if parts.username or parts.password:
            raise ValueError("the URL holds no credentials; pass the token as `token` or in MEMORY_TOKEN")
        loopback = parts.hostname in ("localhost", "127.0.0.1", "::1")
        if parts.scheme == "http" and not (loopback or allow_plain_http):
            raise ValueError(
                "http:// would send the token in the clear; use https://, or allow_plain_http=True on a trusted network"
            )
        if not token:
            raise ValueError("no token; pass `token` or set MEMORY_TOKEN (`memory token create NAME` prints one)")
        if not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError("the token has a space, a line break or a character that is not ASCII; pass it as printed")
        if not timeout > 0 or retries < 0:
            raise ValueError("`timeout` is in seconds and above 0, `retries` at least 0")
        self._host, self._port = parts.hostname, parts.port
        self._tls = ssl.create_default_context(cafile=ca_file) if parts.scheme == "https" else None
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._timeout, self._retries, self._repeat_lost_writes = timeout, retries, repeat_lost_writes
        self._max_reply_bytes = max_reply_bytes
        self._idle: list[tuple[http.client.HTTPConnection, float]] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def call(
        self, method: str, path: str, body: object, read: Callable[[Any], R], *, write: bool, conditional: bool = False,
        keyed: bool = True, timeout: float | None = None, idempotency_key: str | None = None,
    ) -> R:  # fmt: skip
        """Sends a request, again where that cannot do it twice, and returns what ``read`` makes of the JSON of the answer.

        ``conditional``: a write that may be sent again, since it expects a version. ``keyed``: the server knows a repeat of
        this write by its key.
        """
        try:
            content = None if body is None else _encoded(body)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArgument(f"an argument has no JSON form ({error}); nothing was sent") from error
        headers = dict(self._headers)
        if idempotency_key is not None and not (
            1 <= len(idempotency_key) <= 256 and idempotency_key.isascii() and idempotency_key.isprintable()
        ):
            raise InvalidArgument("an idempotency key is 1 to 256 characters of ASCII; nothing was sent")
        key = (idempotency_key or uuid.uuid4().hex) if write and keyed else None
        if key is not None:
            headers["Idempotency-Key"] = key
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        # Whether an earlier attempt may have been done, so that what this one is told proves nothing.
        doubt = False
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                return _shaped(read, self._once(method, path, content, headers, deadline))
            except (Unreachable, RateLimited, Unavailable) as error:
                after = error.retry_after if isinstance(error, Refused) else None
                if last or not self._pause(attempt, after, deadline):
                    raise _unknown(error, key) if doubt else error
            except (_Lost, OutcomeUnknown) as error:
                again = not write or conditional or (key is not None and self._repeat_lost_writes)
                final = isinstance(error, _Lost) and error.final
                doubt = write and not self._repeat_lost_writes
                if again and not last and not final and self._pause(attempt, None, deadline):
                    continue
                if write:
                    raise _unknown(error, key) from error
                if isinstance(error.__cause__, TimeoutError):
                    raise Timeout("no answer in time; allow more with `timeout`", retryable=True) from error
                raise BadReply(f"the answer was lost: {error}") if isinstance(error, _Lost) else error
            except Refused as error:
                raise _unknown(error, key) if doubt else error
        raise AssertionError("the last attempt returns or raises")

    def _pause(self, attempt: int, after: float | None, deadline: float) -> bool:
        """Waits before the next attempt; false if there is no time for one."""
        wait = after if after is not None else 0.1 * 2**attempt * random.uniform(0.5, 1.0)
        if time.monotonic() + wait >= deadline:
            return False
        time.sleep(wait)
        return True

    def _once(
        self, method: str, path: str, content: bytes | None, headers: dict[str, str], deadline: float
    ) -> Any:
        connection = self._connected(deadline)
        try:
            connection.response_class = functools.partial(_Response, deadline=deadline)  # type: ignore[assignment]
            connection.sock.settimeout(_left(deadline))
            try:
                connection.request(method, path, content, headers)
                sent = True
            except (BrokenPipeError, ConnectionResetError):
                sent = False  # Refused before all of it was read, perhaps as too large: the answer says so.
            response = connection.getresponse()
            text = self._read(response)
            status, keep = response.status, sent and not response.will_close
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _Lost(repr(error)) from error
        except _Lost:
            connection.close()
            raise
        if keep:
            self._keep(connection)
        else:
            connection.close()
        try:
            answer = json.loads(text, parse_int=_integer, parse_float=_float)
        except (ValueError, RecursionError) as error:
            raise _Lost(f"status {status} without JSON", final=status < 500) from error
        if status in (200, 201):
            return answer
        failure = answer.get("error") if isinstance(answer, dict) else None
        if not isinstance(failure, dict) or not isinstance(failure.get("code"), str):
            # Not of this server: a proxy, which may have passed the request on.
            raise _Lost(f"status {status} without the JSON of a refusal", final=status < 500)
        raise Refused.from_wire(failure, status)

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        limit, length = self._max_reply_bytes, response.length or 0
        text = b"" if length > limit else response.read(limit + 1)
        if max(length, len(text)) > limit:
            raise _Lost(f"it has more than {limit} bytes; ask for less, or raise `max_reply_bytes`", final=True)
        if response.length:
            raise _Lost("it was cut short")
        return text

    def _connected(self, deadline: float) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection, since = self._idle.pop()
            # Readable while idle: the server has closed it.
            if time.monotonic() - since < IDLE_SECONDS and not _is_readable(connection.sock):
                return connection
            connection.close()
        try:
            left = _left(deadline)
            if self._tls is None:
                connection = http.client.HTTPConnection(self._host, self._port, timeout=left)
            else:
                connection = http.client.HTTPSConnection(self._host, self._port, timeout=left, context=self._tls)
            connection.connect()
        except (OSError, UnicodeError) as error:
            raise Unreachable(f"{self._host}: {error}; is `memory serve --http` running?") from error
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < MAX_IDLE:
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()


def _shaped(read: Callable[[Any], R], answer: object) -> R:
    try:
        return read(answer)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise _Lost(f"its JSON has another shape than this API's: {error!r:.200}", final=True) from error


def _unknown(error: Exception, key: str | None) -> OutcomeUnknown:
    unknown = OutcomeUnknown(
        f"the write was sent and its answer was lost ({error}); it may have been done, so read before you write again"
    )
    unknown.idempotency_key = key
    unknown.__cause__ = error
    return unknown
