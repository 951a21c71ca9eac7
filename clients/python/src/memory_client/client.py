"""The client: one method for each operation."""

from __future__ import annotations

import base64
import math
import os
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from types import TracebackType
from typing import Any, Literal, TypeVar

from . import types
from .errors import InvalidArgument, Refused
from .transport import Transport
from .types import Added, Entry, Executed, Fact, Filter, Forgotten, Hit, Json, Metadata, Page, Rows, Run, Scope, SetResult

#: Operations that change nothing, and may be repeated.
READS = frozenset(
    "get get_many list search stats scopes scope_uses tenants tombstones drift_state health recall facts event query "
    "describe_tables sql_usage sql_scopes".split()
)
#: Operations that this client does not serve, and the commands that do the same.
STREAMS = {"export_scope": "export", "import_scope": "import", "dump": "sql --dump", "restore": "sql --restore"}
MAX_BATCH = 100

#: Seconds to live; ``"never"`` clears an expiry; ``None`` keeps it.
Ttl = float | Literal["never"] | None

R = TypeVar("R")

# Named here, since `list` is a method below.
_Hits = list[Hit]
_Replies = list[Any]
_Results = list[SetResult]
_Facts = list[Fact]


class Client:
    """A server's memory. May be used by several threads; close it, or use ``with``.

    ``url`` and ``token`` default to ``MEMORY_URL`` (else ``http://127.0.0.1:7077``) and ``MEMORY_TOKEN``. ``timeout`` is in
    seconds, for a call with its repeats. What may be repeated is repeated up to ``retries`` times: what was not sent, what the
    server refused for now, reads, and writes that expect a version. Any other write whose answer is lost raises
    :class:`OutcomeUnknown`. With ``repeat_lost_writes`` it is sent again with its idempotency key instead, which the servers
    of a store remember for ten minutes.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 2,
        repeat_lost_writes: bool = False,
        max_reply_bytes: int = 64 << 20,
        ca_file: str | None = None,
        allow_plain_http: bool = False,
    ) -> None:
        self._transport = Transport(
            url or os.environ.get("MEMORY_URL") or "http://127.0.0.1:7077",
            token or os.environ.get("MEMORY_TOKEN") or "",
            timeout=timeout,
            retries=retries,
            repeat_lost_writes=repeat_lost_writes,
            max_reply_bytes=max_reply_bytes,
            ca_file=ca_file,
            allow_plain_http=allow_plain_http,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes idle connections."""
        self._transport.close()

    # Any operation

    def call(
        self, op: str, arguments: Mapping[str, Any], *, timeout: float | None = None, idempotency_key: str | None = None
    ) -> Any:
        """An operation under ``/v1/ops`` by name, but no stream, with arguments and reply as in ``openapi.json``."""
        return self._call(op, arguments, lambda reply: reply, timeout=timeout, idempotency_key=idempotency_key)

    def _call(
        self, op: str, arguments: Mapping[str, Any], read: Callable[[Any], R], *, timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> R:  # fmt: skip
        if op in STREAMS:
            raise InvalidArgument(f"`{op}` is a stream, which this client does not serve; use `memory {STREAMS[op]}`")
        write = op not in READS
        options = arguments.get("options") or {}
        expect = options.get("expect", "any") if isinstance(options, Mapping) else "any"
        return self._transport.call(
            "POST",
            f"/v1/ops/{urllib.parse.quote(op, safe='')}",
            dict(arguments),
            read,
            write=write,
            conditional=op in ("set", "delete") and expect != "any",
            timeout=timeout,
            idempotency_key=idempotency_key,
        )

    def capabilities(self) -> dict[str, Any]:
        """What the server's memory serves: ``{"provider", "capabilities"}``."""
        return self._transport.call("GET", "/v1/capabilities", None, _object, write=False)

    def batch(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Any]:
        """Up to 100 operations in one request, one after another, and no transaction.

        Returns the reply of each, or the :class:`Refused` it got. If the answer of a batch with writes is lost, it is not sent
        again.
        """
        if len(calls) > MAX_BATCH:
            raise InvalidArgument(f"a batch has at most {MAX_BATCH} operations; send several")
        body = [{"op": op, "arguments": dict(arguments)} for op, arguments in calls]
        write = any(op not in READS for op, _ in calls)

        def read(reply: Any) -> _Replies:
            return [Refused.from_wire(a["error"], None) if "error" in a else a["reply"] for a in _list(reply, len(calls))]

        return self._transport.call("POST", "/v1/batch", body, read, write=write, keyed=False)

    # Entries

    def get(self, scope: Scope, key: str) -> Entry | None:
        """The entry; ``None`` if there is none, or it has expired."""
        return self._call("get", {"scope": scope.to_wire(), "key": key}, _optional_entry)

    def get_many(self, scope: Scope, keys: Sequence[str]) -> list[Entry | None]:
        """Up to 1,000 entries, in the order of the keys."""
        arguments = {"scope": scope.to_wire(), "keys": list(keys)}
        return self._call("get_many", arguments, lambda found: [_optional_entry(each) for each in _list(found, len(keys))])

    def set(
        self,
        scope: Scope,
        key: str,
        value: Json,
        *,
        ttl: Ttl = None,
        metadata: Metadata | None = None,
        source: str | None = None,
        text: str | None = None,
        if_version: int | None = None,
        if_absent: bool = False,
        idempotency_key: str | None = None,
    ) -> SetResult:
        """Writes an entry as a whole; of the old one only the expiry is kept.

        ``if_version`` and ``if_absent`` are the API's ``If-Match`` and ``If-None-Match: *``; if they do not hold,
        :class:`Conflict`. ``text`` is searched in place of the value's own words.
        """
        item = new_entry(
            key, value, ttl=ttl, metadata=metadata, source=source, text=text, if_version=if_version, if_absent=if_absent
        )
        arguments = {"scope": scope.to_wire(), **item}
        return self._call("set", arguments, types.set_result, idempotency_key=idempotency_key)

    def bulk_insert(
        self, scope: Scope, items: Iterable[Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> list[SetResult]:
        """Writes up to 10,000 items made by :func:`new_entry`, all or none."""
        sent = [dict(item) for item in items]

        def read(reply: Any) -> _Results:
            return [types.set_result(each) for each in _list(reply, len(sent))]

        arguments = {"scope": scope.to_wire(), "items": sent}
        return self._call("bulk_insert", arguments, read, idempotency_key=idempotency_key)

    def delete(
        self, scope: Scope, key: str, *, if_version: int | None = None, idempotency_key: str | None = None
    ) -> bool:
        """Deletes an entry; false if there was none."""
        arguments: dict[str, Any] = {"scope": scope.to_wire(), "key": key}
        if if_version is not None:
            arguments["options"] = {"expect": {"version": if_version}}
        return self._call("delete", arguments, lambda done: bool(done["deleted"]), idempotency_key=idempotency_key)

    def list(
        self, scope: Scope, *, prefix: str = "", filter: Filter | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page:
        """A page of entries in byte order of their keys."""
        query = {"prefix": prefix, "filter": filter, "limit": limit, "cursor": cursor}

        def read(page: Any) -> Page:
            return Page([types.entry(each) for each in _list(page["entries"])], page.get("next"))

        return self._call("list", {"scope": scope.to_wire(), "query": query}, read)

    def entries(self, scope: Scope, *, prefix: str = "", filter: Filter | None = None) -> Iterator[Entry]:
        """Every entry, page by page."""
        cursor = None
        while True:
            page = self.list(scope, prefix=prefix, filter=filter, limit=1000, cursor=cursor)
            yield from page.entries
            cursor = page.next
            if cursor is None:
                return

    def increment(self, scope: Scope, key: str, by: int = 1, *, idempotency_key: str | None = None) -> int:
        """Adds to an integer and returns the sum; an absent one counts as 0."""
        arguments = {"scope": scope.to_wire(), "key": key, "delta": by}
        return self._call("increment", arguments, lambda sum: int(sum["value"]), idempotency_key=idempotency_key)

    def update(
        self, scope: Scope, key: str, reducer: Mapping[str, Any], *, ttl: Ttl = None, idempotency_key: str | None = None
    ) -> Json:
        """Changes a value in place and returns it. ``reducer`` is ``{"merge": …}``, ``{"append_dedupe": …}`` or
        ``{"bounded_list": {"item": …, "limit": …}}``."""
        arguments = {"scope": scope.to_wire(), "key": key, "reducer": dict(reducer), "options": {"ttl": _ttl(ttl)}}
        return self._call("update", arguments, lambda done: done["value"], idempotency_key=idempotency_key)

    def search(
        self,
        scope: Scope,
        text: str,
        *,
        mode: Literal["auto", "lexical", "vector", "hybrid"] = "auto",
        prefix: str = "",
        filter: Filter | None = None,
        top_k: int = 10,
        threshold: float | None = None,
    ) -> _Hits:
        """Finds entries by words, by meaning, or both, best first."""
        query = {
            "text": text, "mode": mode, "prefix": prefix, "filter": filter, "top_k": top_k, "threshold": threshold,
        }  # fmt: skip

        def read(hit: Any) -> Hit:
            return Hit(types.entry(hit["entry"]), hit["score"], hit["rank_score"], hit.get("merged") or [])

        arguments = {"scope": scope.to_wire(), "query": query}
        return self._call("search", arguments, lambda found: [read(hit) for hit in _list(found["hits"])])

    # Conversations

    def add(
        self,
        /,
        run: Run,
        scope: Scope,
        messages: str | Sequence[Mapping[str, Any]],
        *,
        infer: bool | None = None,
        metadata: Metadata | None = None,
        ttl: Ttl = None,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> Added:
        """Adds what was said: a text of the user, or messages with ``role`` and ``content``. Options as in ``openapi.json``."""
        said = [{"role": "user", "content": messages}] if isinstance(messages, str) else [dict(m) for m in messages]
        chosen: dict[str, Any] = {**options, "metadata": dict(metadata or {}), "ttl": _ttl(ttl)}
        if infer is not None:
            chosen["infer"] = infer
        arguments = {"run": run.to_wire(), "scope": scope.to_wire(), "messages": said, "options": chosen}
        return self._call("add", arguments, types.added, idempotency_key=idempotency_key)

    def recall(
        self,
        run: Run,
        scope: Scope,
        text: str,
        *,
        top_k: int = 10,
        threshold: float | None = None,
        at: datetime | None = None,
        as_of: datetime | None = None,
        unconfirmed_since: datetime | None = None,
        explain: bool = False,
    ) -> _Facts:
        """What was said that answers a question, best first.

        ``at`` is when it is asked, from which "yesterday" counts; ``as_of`` asks for what held then. With ``explain``
        each fact's ``shares`` say what its score is made of.
        """
        query: dict[str, Any] = {"text": text, "top_k": top_k, "threshold": threshold, "explain": explain}
        for name, time in (("at", at), ("as_of", as_of), ("unconfirmed_since", unconfirmed_since)):
            if time is not None:
                query[name] = types.rfc3339(time)
        arguments = {"run": run.to_wire(), "scope": scope.to_wire(), "query": query}
        return self._call("recall", arguments, lambda found: [types.fact(each) for each in _list(found)])

    def facts(
        self, run: Run, scope: Scope, *, limit: int = 100, cursor: str | None = None
    ) -> tuple[_Facts, str | None]:
        """A page of all facts, and the cursor of the next."""
        query = {"limit": limit, "cursor": cursor}

        def read(page: Any) -> tuple[_Facts, str | None]:
            return [types.fact(each) for each in _list(page["facts"])], page.get("next")

        return self._call("facts", {"run": run.to_wire(), "scope": scope.to_wire(), "query": query}, read)

    def forget(
        self, run: Run, scope: Scope, ids: Sequence[str] | Literal["all"], *, idempotency_key: str | None = None
    ) -> Forgotten:
        """Forgets facts by id, or every fact of the scope."""
        what = "all" if ids == "all" else {"ids": list(ids)}
        arguments = {"run": run.to_wire(), "scope": scope.to_wire(), "what": what}

        def read(done: Any) -> Forgotten:
            return Forgotten(done.get("forgotten"), done["not_found"], done.get("remains") or [])

        return self._call("forget", arguments, read, idempotency_key=idempotency_key)

    # SQL

    def exec(
        self, run: Run, scope: Scope, sql: str, args: Sequence[Any] = (), *, tx: str | None = None,
        idempotency_key: str | None = None,
    ) -> Executed:  # fmt: skip
        """Runs a statement that writes. ``bytes``, ``Decimal`` and special floats may be arguments."""

        def read(done: Any) -> Executed:
            returning = done.get("returning")
            return Executed(done["rows_affected"], None if returning is None else _rows(returning))

        return self._call("exec", _statement(run, scope, sql, args, tx), read, idempotency_key=idempotency_key)

    def query(self, run: Run, scope: Scope, sql: str, args: Sequence[Any] = (), *, tx: str | None = None) -> Rows:
        """Runs a statement that only reads."""
        return self._call("query", _statement(run, scope, sql, args, tx), _rows)

    def begin(self, run: Run, scope: Scope, *, parent: str | None = None) -> str:
        """Opens a transaction, or a savepoint in ``parent``; returns its id."""
        arguments = {"run": run.to_wire(), "scope": scope.to_wire(), "parent": parent}
        return self._call("begin", arguments, lambda begun: str(begun["tx"]))

    def commit(self, run: Run, scope: Scope, tx: str) -> None:
        self.call("commit", {"run": run.to_wire(), "scope": scope.to_wire(), "tx": tx})

    def rollback(self, run: Run, scope: Scope, tx: str) -> None:
        self.call("rollback", {"run": run.to_wire(), "scope": scope.to_wire(), "tx": tx})


def new_entry(
    key: str,
    value: Json,
    *,
    ttl: Ttl = None,
    metadata: Metadata | None = None,
    source: str | None = None,
    text: str | None = None,
    if_version: int | None = None,
    if_absent: bool = False,
) -> dict[str, Any]:
    """An item of :meth:`Client.bulk_insert`, with the arguments of :meth:`Client.set`."""
    if if_absent and if_version is not None:
        raise InvalidArgument("`if_version` and `if_absent` exclude each other; give one")
    expect: Any = "absent" if if_absent else "any" if if_version is None else {"version": if_version}
    options = {"ttl": _ttl(ttl), "metadata": dict(metadata or {}), "source": source, "text": text, "expect": expect}
    return {"key": key, "value": value, "options": options}


def _ttl(ttl: Ttl) -> Any:
    if ttl is None or ttl == "never":
        return ttl or "keep"
    try:
        return {"after_ms": round(ttl * 1000)}
    except (OverflowError, ValueError) as error:
        raise InvalidArgument('`ttl` is a finite number of seconds; "never" clears an expiry') from error


def _object(reply: Any) -> dict[str, Any]:
    if not isinstance(reply, dict):
        raise TypeError("it is not an object")
    return reply


def _list(reply: Any, length: int | None = None) -> list[Any]:
    if not isinstance(reply, list) or length not in (None, len(reply)):
        raise TypeError("it is not a list" if length is None else f"it is not a list of {length}")
    return reply


def _optional_entry(found: Any) -> Entry | None:
    return None if found is None else types.entry(found)


def _statement(run: Run, scope: Scope, sql: str, args: Sequence[Any], tx: str | None) -> dict[str, Any]:
    return {
        "run": run.to_wire(),
        "scope": scope.to_wire(),
        "sql": sql,
        "args": [_to_sql(each) for each in args],
        "options": {"tx": tx},
    }


def _to_sql(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$blob": base64.b64encode(value).decode()}
    if isinstance(value, Decimal):
        return {"$numeric": str(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$real": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}
    return value


def _from_sql(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        [(kind, inner)] = value.items()
        if kind == "$blob":
            return base64.b64decode(inner, validate=True)
        if kind == "$numeric":
            return Decimal(inner)
        if kind == "$real":
            return float(inner)
        if kind == "$int":
            return int(inner)
        if kind == "$json":
            return inner
    return [_from_sql(each) for each in value] if isinstance(value, list) else value


def _rows(wire: dict[str, Any]) -> Rows:
    found = types.rows(wire)
    return Rows(found.columns, [[_from_sql(cell) for cell in row] for row in found.rows], found.truncated)
