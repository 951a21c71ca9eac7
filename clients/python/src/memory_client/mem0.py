"""The calls of mem0 (``mem0ai`` 2), kept by a memory server: change ``from mem0 import Memory`` to this module.

A memory is one entry of one scope, and whose it is (``user_id``, ``agent_id``, ``run_id``) is metadata to filter by, as in
mem0. No language model is asked: each message is stored as it is, whatever ``infer`` says.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
import secrets
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping
from datetime import date, datetime, timezone
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from .client import Client, new_entry
from .errors import Conflict
from .types import Entry, Scope

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A", bound="_Async")

_ROOT = "mem0/"
_MEMORIES = "mem0/memory/"
_IDS = ("user_id", "agent_id", "app_id", "run_id")
_PROMOTED = (*_IDS, "actor_id", "role", "expiration_date")
_MAX_HISTORY = 1000
_ATTEMPTS = 5
_UNSET: Any = object()
_TIMES = ("created_at", "updated_at")
_UNSERVED = ("memory", "hash", "categories", "keywords")
# Of earlier clients of the hosted service; nothing here depends on them.
_FORMER = ("async_mode", "output_format", "version")
_OPERATORS = {"eq", "ne", "gt", "gte", "lt", "lte"}


class Memory:
    """``mem0.Memory``. ``client`` defaults to ``Client()``, which reads ``MEMORY_URL`` and ``MEMORY_TOKEN``."""

    def __init__(self, config: Any = None, *, client: Client | None = None, scope: Scope | None = None) -> None:
        if config is not None:
            logger.warning("the configuration of mem0 is not used: the memory server stores, embeds and searches")
        self._client = client or Client()
        self._scope = scope or Scope.agent("mem0")

    @classmethod
    def from_config(cls, config_dict: dict[str, Any]) -> Memory:
        return cls(config_dict)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def add(
        self,
        messages: str | dict[str, Any] | list[dict[str, Any]],
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        timestamp: Any = None,
        expiration_date: Any = None,
        infer: bool = True,
        memory_type: str | None = None,
        prompt: str | None = None,
    ) -> dict[str, Any]:
        """Stores each message but those of the system; all of them or none."""
        if timestamp is not None:
            raise ValueError("`timestamp` is served by mem0's platform alone; leave it out")
        if memory_type is not None:
            raise ValueError("memories by type need a language model, which is not asked here; leave out `memory_type`")
        ids = _ids({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        return {"results": self._add(messages, ids, metadata, expiration_date)}

    def _add(
        self, messages: Any, ids: dict[str, str], metadata: Mapping[str, Any] | None, expiration_date: Any
    ) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = []
        items: list[dict[str, Any]] = []
        for message in _messages(messages):
            if isinstance(message, dict) and message.get("role") == "system":
                continue
            text = _text(message.get("content")) if isinstance(message, dict) and message.get("role") else ""
            if not text:
                logger.warning("a message without a role or without text is left out")
                continue
            memory_id = _new_id(len(results))
            payload = _payload(text, metadata or {}, ids, expiration_date)
            payload["role"] = message["role"]
            if message.get("name"):
                payload["actor_id"] = message["name"]
            items.append(_item(memory_id, payload, if_absent=True))
            items.append(new_entry(_history(memory_id), [_event(memory_id, None, payload, "ADD")], if_absent=True))
            results.append(
                {
                    "id": memory_id,
                    "memory": text,
                    "event": "ADD",
                    "actor_id": message.get("name"),
                    "role": message["role"],
                }
            )
        if items:
            self._client.bulk_insert(self._scope, items)
        return results

    def get(self, memory_id: str) -> dict[str, Any] | None:
        entry = self._client.get(self._scope, _key(memory_id))
        return None if entry is None else _shown(entry)

    def get_all(
        self, /, *, filters: dict[str, Any] | None = None, top_k: int = 20, show_expired: bool = False, **kwargs: Any
    ) -> dict[str, Any]:
        """The oldest ``top_k`` memories, in the order in which they were added."""
        filters, top_k = _of_version_1(filters, top_k, kwargs)
        found: list[dict[str, Any]] = []
        cursor = None
        while len(found) < top_k:
            page = self._client.list(
                self._scope, prefix=_MEMORIES, filter=_filter(filters, show_expired),
                limit=min(top_k - len(found), 1000), cursor=cursor,
            )  # fmt: skip
            found += [_shown(entry) for entry in page.entries]
            cursor = page.next
            if cursor is None:
                break
        for each in found:
            del each["score"]
        return {"results": found}

    def search(
        self,
        /,
        query: str,
        *,
        top_k: int = 20,
        filters: dict[str, Any] | None = None,
        threshold: float | None = None,
        rerank: bool = False,
        explain: bool = False,
        reference_date: Any = None,
        show_expired: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Finds memories as the server does: by words, or by meaning if it has an embedder. ``rerank`` changes nothing.

        No ``threshold`` applies unless it is given: mem0's own, 0.1, is one of cosines.
        """
        if explain or reference_date is not None:
            raise ValueError("`explain` and `reference_date` are not served; leave them out")
        if not query.strip():
            raise ValueError("the query is empty")
        if threshold is not None and not 0 <= threshold <= 1:
            raise ValueError("`threshold` is between 0 and 1")
        filters, top_k = _of_version_1(filters, top_k, kwargs)
        if top_k == 0:
            return {"results": []}
        hits = self._client.search(
            self._scope, query.strip(), prefix=_MEMORIES, filter=_filter(filters, show_expired), top_k=top_k,
            threshold=threshold,
        )  # fmt: skip
        return {"results": [_shown(hit.entry, hit.score) for hit in hits]}

    def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: dict[str, Any] | None = None,
        expiration_date: Any = _UNSET,
        data: str | None = None,
    ) -> dict[str, Any]:
        """Replaces the text, and the members of the metadata that are given; whose it is stays."""
        text = data if text is None else text
        if text is None and metadata is None and expiration_date is _UNSET:
            raise ValueError("give at least one of text, metadata and expiration_date")

        def changed(entry: Entry, history: Entry | None) -> None:
            payload = dict(entry.value)
            payload["metadata"] = {**payload["metadata"], **_own(metadata or {})}
            if text is not None:
                payload["data"], payload["hash"] = text, _hash(text)
            if expiration_date is not _UNSET:
                payload["expiration_date"] = _day(expiration_date)
            payload["updated_at"] = _now()
            events = [*(history.value if history else []), _event(memory_id, entry.value["data"], payload, "UPDATE")]
            kept = new_entry(
                _history(memory_id), events[-_MAX_HISTORY:],
                if_absent=history is None, if_version=history.version if history else None,
            )  # fmt: skip
            self._client.bulk_insert(self._scope, [_item(memory_id, payload, if_version=entry.version), kept])

        self._change(memory_id, changed)
        return {"message": "Memory updated successfully!"}

    def delete(self, memory_id: str) -> dict[str, Any]:
        """Deletes the memory; its text stays in its history, as in mem0, until ``reset``."""

        def deleted(entry: Entry, _: Entry | None) -> None:
            self._client.delete(self._scope, _key(memory_id), if_version=entry.version)
            self._client.update(self._scope, _history(memory_id), _deletion(memory_id, entry.value))

        self._change(memory_id, deleted)
        return {"message": "Memory deleted successfully!"}

    def _change(self, memory_id: str, change: Callable[[Entry, Entry | None], None]) -> None:
        """Reads and changes, again if somebody else wrote in between."""
        for attempt in range(_ATTEMPTS):
            entry, history = self._client.get_many(self._scope, [_key(memory_id), _history(memory_id)])
            if entry is None:
                raise ValueError(f"Memory with id {memory_id} not found")
            try:
                return change(entry, history)
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise

    def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> dict[str, Any]:
        """Deletes the memories that have all the ids that are given."""
        self._delete_all(_ids({"user_id": user_id, "agent_id": agent_id, "run_id": run_id}))
        return {"message": "Memories deleted successfully!"}

    def _delete_all(self, ids: dict[str, str]) -> None:
        scope = self._scope.to_wire()
        for entry in list(self._client.entries(self._scope, prefix=_MEMORIES, filter=_filter(dict(ids), True))):
            memory_id = entry.key.removeprefix(_MEMORIES)
            update = {"key": _history(memory_id), "reducer": _deletion(memory_id, entry.value)}
            calls = [("delete", {"scope": scope, "key": entry.key}), ("update", {"scope": scope, **update})]
            for reply in self._client.batch(calls):
                if isinstance(reply, Exception):
                    raise reply

    def history(self, memory_id: str) -> list[dict[str, Any]]:
        """The latest 1,000 changes, oldest first."""
        entry = self._client.get(self._scope, _history(memory_id))
        return [] if entry is None else list(entry.value)

    def reset(self) -> None:
        """Deletes every memory of the scope, and all history."""
        for entry in list(self._client.entries(self._scope, prefix=_ROOT)):
            self._client.delete(self._scope, entry.key)


class MemoryClient(Memory):
    """``mem0.MemoryClient`` of the hosted service: its calls for memories, on a memory server.

    ``api_key`` is a token of the server and ``host`` its URL.
    """

    def __init__(
        self, api_key: str | None = None, host: str | None = None, client: Client | None = None,
        scope: Scope | None = None,
    ) -> None:  # fmt: skip
        super().__init__(client=client or Client(host, api_key), scope=scope)

    def add(
        self, /, messages: str | dict[str, Any] | list[dict[str, Any]], options: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        given = _given(options, kwargs)
        ids = _whose(given)
        metadata, expiration_date = given.pop("metadata", None), given.pop("expiration_date", None)
        given.pop("infer", None)
        _none_left(given)
        return {"results": self._add(messages, ids, metadata, expiration_date)}

    def get_all(self, /, options: Any = None, **kwargs: Any) -> dict[str, Any]:
        """One page: ``{"count", "next", "previous", "results"}``, where ``next`` and ``previous`` are numbers of pages."""
        given = _given(options, kwargs)
        page, size = int(given.pop("page", 1)), int(given.pop("page_size", 100))
        if page < 1 or size < 1:
            raise ValueError("page and page_size are at least 1")
        found = super().get_all(top_k=2**31, **given)["results"]
        return {
            "count": len(found),
            "next": page + 1 if page * size < len(found) else None,
            "previous": page - 1 if page > 1 else None,
            "results": found[(page - 1) * size : page * size],
        }

    def search(self, /, query: str, options: Any = None, **kwargs: Any) -> dict[str, Any]:
        return super().search(query, **_given(options, kwargs))

    def update(self, /, memory_id: str, options: Any = None, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        given = _given(options, kwargs, but="expiration_date")
        return super().update(memory_id, **given)

    def delete(self, memory_id: str, delete_linked: bool = False) -> dict[str, Any]:
        """Deletes the memory. ``delete_linked`` changes nothing: no memory replaces another here."""
        return super().delete(memory_id)

    def delete_all(self, /, options: Any = None, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        given = _given(options, kwargs)
        ids = _whose(given)
        _none_left(given)
        self._delete_all(ids)
        return {"message": "Memories deleted successfully!"}


def _awaitable(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[_Async, P], Coroutine[Any, Any, R]]:
    @functools.wraps(method)
    async def call(self: _Async, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self._memory, *args, **kwargs)

    return call


class _Async:
    """The calls that both classes share, each on a thread."""

    _memory: Memory

    async def __aenter__(self: A) -> A:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    get = _awaitable(Memory.get)
    history = _awaitable(Memory.history)
    reset = _awaitable(Memory.reset)

    def close(self) -> None:
        self._memory.close()


class AsyncMemory(_Async):
    """``mem0.AsyncMemory``: the calls of :class:`Memory`, each on a thread."""

    def __init__(self, config: Any = None, *, client: Client | None = None, scope: Scope | None = None) -> None:
        self._memory = Memory(config, client=client, scope=scope)

    @classmethod
    def from_config(cls, config_dict: dict[str, Any]) -> AsyncMemory:
        return cls(config_dict)

    add = _awaitable(Memory.add)
    get_all = _awaitable(Memory.get_all)
    search = _awaitable(Memory.search)
    update = _awaitable(Memory.update)
    delete = _awaitable(Memory.delete)
    delete_all = _awaitable(Memory.delete_all)


class AsyncMemoryClient(_Async):
    """``mem0.AsyncMemoryClient``: the calls of :class:`MemoryClient`, each on a thread."""

    def __init__(
        self, api_key: str | None = None, host: str | None = None, client: Client | None = None,
        scope: Scope | None = None,
    ) -> None:  # fmt: skip
        self._memory = MemoryClient(api_key, host, client, scope)

    add = _awaitable(MemoryClient.add)
    get_all = _awaitable(MemoryClient.get_all)
    search = _awaitable(MemoryClient.search)
    update = _awaitable(MemoryClient.update)
    delete = _awaitable(MemoryClient.delete)
    delete_all = _awaitable(MemoryClient.delete_all)


def _key(memory_id: str) -> str:
    return _MEMORIES + memory_id


def _history(memory_id: str) -> str:
    return "mem0/history/" + memory_id


def _new_id(place: int) -> str:
    """A UUID of version 7, so that keys are in the order of adding. ``place`` is that within one ``add``."""
    number = time.time_ns() // 1_000_000 << 80 | 7 << 76 | place % 4096 << 64 | 2 << 62 | secrets.randbits(62)
    return str(uuid.UUID(int=number))


def _now() -> str:
    return datetime.now(timezone.utc).isoformat()


def _hash(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _messages(messages: Any) -> list[Any]:
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    if isinstance(messages, dict):
        return [messages]
    if not isinstance(messages, list):
        raise ValueError("messages must be str, dict, or list[dict]")
    return messages


def _text(content: Any) -> str:
    """Of a message's content: a text, or parts of which some are text."""
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text")
        return " ".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _ids(given: Mapping[str, Any]) -> dict[str, str]:
    ids: dict[str, str] = {}
    for name, value in given.items():
        if value is None:
            continue
        ids[name] = str(value).strip()
        if len(ids[name].split()) != 1:
            raise ValueError(f"{name} is empty or has white space in it")
    if not ids:
        raise ValueError(f"give at least one of {', '.join(given)}")
    return ids


def _day(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.date().isoformat()
    try:
        return (value if isinstance(value, date) else date.fromisoformat(value)).isoformat()
    except (TypeError, ValueError) as error:
        raise ValueError("expiration_date must be a date as YYYY-MM-DD") from error


def _own(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What a caller may choose: not whose the memory is."""
    return {name: value for name, value in metadata.items() if name not in _PROMOTED}


def _payload(text: str, metadata: Mapping[str, Any], ids: Mapping[str, str], expiration_date: Any) -> dict[str, Any]:
    now = _now()
    payload: dict[str, Any] = {"data": text, "hash": _hash(text), "created_at": now, "updated_at": now, **ids}
    payload["metadata"] = _own(metadata)
    if expiration_date is not None:
        payload["expiration_date"] = _day(expiration_date)
    return payload


def _item(memory_id: str, payload: dict[str, Any], **expected: Any) -> dict[str, Any]:
    """The entry: its metadata is what filters can ask for."""
    fields = {**payload["metadata"], **{name: payload[name] for name in _PROMOTED if payload.get(name) is not None}}
    scalars = {name: value for name, value in fields.items() if isinstance(value, (bool, int, float, str))}
    return new_entry(_key(memory_id), payload, metadata=scalars, text=payload["data"], **expected)


def _event(memory_id: str, old: str | None, payload: Mapping[str, Any], event: str) -> dict[str, Any]:
    return {
        "id": str(uuid.uuid4()),
        "memory_id": memory_id,
        "old_memory": old,
        "new_memory": None if event == "DELETE" else payload["data"],
        "event": event,
        "created_at": payload["created_at"],
        "updated_at": _now() if event == "DELETE" else payload["updated_at"],
        "is_deleted": event == "DELETE",
        "actor_id": payload.get("actor_id"),
        "role": payload.get("role"),
    }


def _deletion(memory_id: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    event = _event(memory_id, payload["data"], payload, "DELETE")
    return {"bounded_list": {"item": event, "limit": _MAX_HISTORY}}


def _shown(entry: Entry, score: float | None = None) -> dict[str, Any]:
    payload = entry.value
    shown = {
        "id": entry.key.removeprefix(_MEMORIES),
        "memory": payload["data"],
        "hash": payload["hash"],
        "metadata": payload["metadata"] or None,
        "score": score,
        "created_at": payload["created_at"],
        "updated_at": payload["updated_at"],
    }
    return {**shown, **{name: payload[name] for name in _PROMOTED if name in payload}}


def _of_version_1(
    filters: Mapping[str, Any] | None, top_k: int, given: dict[str, Any]
) -> tuple[dict[str, Any], int]:
    """Takes ids and ``limit`` as arguments too, as mem0 did before version 2; there must be an id."""
    chosen = dict(filters or {})
    chosen.update({name: given.pop(name) for name in _IDS if given.get(name) is not None})
    limit = given.pop("limit", None)
    top_k = top_k if limit is None else limit
    if top_k < 0:
        raise ValueError("top_k is at least 0")
    _none_left({name: value for name, value in given.items() if value is not None})
    if not _names_an_id(chosen):
        raise ValueError("filters must contain at least one of: user_id, agent_id, run_id")
    plain = {name: chosen[name] for name in _IDS if isinstance(chosen.get(name), (str, int))}
    return {**chosen, **(_ids(plain) if plain else {})}, top_k


def _names_an_id(filters: Mapping[str, Any]) -> bool:
    return any(
        name in _IDS or (name in ("AND", "OR") and any(_names_an_id(each) for each in wanted))
        for name, wanted in filters.items()
    )


def _given(options: Any, kwargs: dict[str, Any], *, but: str = "") -> dict[str, Any]:
    """The options of the hosted client: a mapping, or an object of its own classes. None is as if it were not given, ``but``
    for one that it clears."""
    dumped = options.model_dump(exclude_unset=True) if hasattr(options, "model_dump") else dict(options or {})
    given = {**dumped, **kwargs}
    return {name: value for name, value in given.items() if name not in _FORMER and (value is not None or name == but)}


def _whose(given: dict[str, Any]) -> dict[str, str]:
    """Takes the ids out of the options of the hosted client, where they are among the filters since version 2."""
    filters = dict(given.pop("filters", {}))
    ids = {name: given.pop(name, filters.get(name)) for name in _IDS}
    _none_left({name: value for name, value in filters.items() if ids.get(name) != value})
    return _ids(ids)


def _none_left(given: Mapping[str, Any]) -> None:
    if given:
        raise TypeError(f"not served: {', '.join(sorted(given))}; leave it out")


def _filter(filters: Mapping[str, Any], show_expired: bool) -> dict[str, Any]:
    wanted = _all_of(filters)
    if show_expired:
        return wanted
    day = "metadata.expiration_date"
    today = datetime.now(timezone.utc).date().isoformat()
    return {"and": [wanted, {"or": [{"not": {"exists": day}}, {"gte": [day, today]}]}]}


def _all_of(filters: Mapping[str, Any]) -> dict[str, Any]:
    return {"and": [_condition(name, wanted) for name, wanted in filters.items()]}


def _condition(name: str, wanted: Any) -> dict[str, Any]:
    """A condition of mem0 as one of the server."""
    if name in ("AND", "OR", "NOT"):
        if not isinstance(wanted, list) or not wanted:
            raise ValueError(f"{name} takes a list of conditions")
        inner = [_all_of(each) for each in wanted]
        return {"not": {"or": inner}} if name == "NOT" else {name.lower(): inner}
    if name in _UNSERVED:
        raise ValueError(f"memories are not filtered by {name} here; search for words, or filter by metadata of your own")
    is_time = name in _TIMES
    field = name if is_time else f"metadata.{name}"
    if wanted == "*":
        return {"exists": field}
    if not isinstance(wanted, dict):
        return {"eq": [field, _time(wanted) if is_time else wanted]}
    parts: list[dict[str, Any]] = []
    for operator, operand in wanted.items():
        if operator in _OPERATORS:
            parts.append({operator: [field, _time(operand) if is_time else operand]})
        elif operator in ("in", "nin"):
            within = {"in": [field, [_time(each) for each in operand] if is_time else list(operand)]}
            parts.append(within if operator == "in" else {"not": within})
        else:
            raise ValueError(f"the operator {operator} is not served; use eq, ne, gt, gte, lt, lte, in or nin")
    return {"and": parts}


def _time(value: Any) -> Any:
    """A time as the server reads it; a day is its beginning in UTC."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).isoformat()
    if isinstance(value, date):
        return f"{value.isoformat()}T00:00:00Z"
    return f"{value}T00:00:00Z" if isinstance(value, str) and len(value) == 10 else value
