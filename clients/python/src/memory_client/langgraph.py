"""LangGraph's store, kept by a memory server: ``MemoryStore(Client(…), Scope.agent("ann"))``.

An item is one entry of the scope. Its key is ``PREFIX/LABEL/…//KEY`` with ``%`` and ``/`` escaped, so that every namespace
prefix is a prefix of keys and no label or key can reach into another namespace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)

from .client import Client, Ttl, new_entry
from .errors import Conflict
from .types import Entry, Number, Scope

_MAX_GET = 1000
_MAX_PUT = 1000
#: The metadata of an item with a lifetime: its minutes, for the refresh after a read.
_MINUTES = "ttl_minutes"


class MemoryStore(BaseStore):
    """A ``BaseStore`` over one scope of a server.

    A search with ``query`` finds items as the server does: by words, or by meaning if it has an embedder. ``index=False`` and
    an empty list of paths leave an item out of such searches; paths choose what is searched. A search without ``query`` lists
    items in the order of namespaces and keys. Filters are LangGraph's, and are applied here: with ``query``, to the first
    ``max_top_k`` hits. ``list_namespaces`` reads every item under the longest prefix without wildcards.
    """

    supports_ttl = True

    def __init__(
        self, client: Client, scope: Scope, *, prefix: str = "langgraph", ttl: TTLConfig | None = None, index: Any = None
    ) -> None:
        if index is not None:
            raise ValueError(
                "there is no `index` to configure: vectors are the server's; start it with an embedder "
                "(docs/embedders.md), and a search with `query` finds by meaning"
            )
        if not prefix or "/" in prefix:
            raise ValueError("`prefix` names a folder of the scope's keys: not empty and without `/`")
        self._client, self._scope, self._root = client, scope, prefix + "/"
        self.ttl_config = ttl
        self._max_top_k: int | None = None

    # Reads see what was stored before the batch; of several writes of one item, the last counts.

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        ops = list(ops)
        for op in ops:
            validate_op_namespace(op)
        results: list[Result] = [None] * len(ops)
        self._get_all(ops, results)
        puts: dict[str, PutOp] = {}
        for index, op in enumerate(ops):
            if isinstance(op, SearchOp):
                results[index] = self._search(op)
            elif isinstance(op, ListNamespacesOp):
                results[index] = self._list(op)
            elif isinstance(op, PutOp):
                puts[self._key(op.namespace, op.key)] = op
            elif not isinstance(op, GetOp):
                raise ValueError(f"unknown operation {type(op).__name__}")
        self._put_all(puts)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    def _get_all(self, ops: list[Op], results: list[Result]) -> None:
        gets = [(index, op) for index, op in enumerate(ops) if isinstance(op, GetOp)]
        for start in range(0, len(gets), _MAX_GET):
            part = gets[start : start + _MAX_GET]
            found = self._client.get_many(self._scope, [self._key(op.namespace, op.key) for _, op in part])
            for (index, op), entry in zip(part, found, strict=True):
                if entry is not None:
                    results[index] = self._item(entry, None)
                    if op.refresh_ttl:
                        self._refresh(entry)

    def _put_all(self, puts: dict[str, PutOp]) -> None:
        items = []
        for key, op in puts.items():
            if op.value is None:
                self._client.delete(self._scope, key)
                continue
            metadata = {} if op.ttl is None else {_MINUTES: float(op.ttl)}
            ttl: Ttl = "never" if op.ttl is None else op.ttl * 60
            items.append(new_entry(key, dict(op.value), ttl=ttl, metadata=metadata, text=_text(op)))
        for start in range(0, len(items), _MAX_PUT):
            self._client.bulk_insert(self._scope, items[start : start + _MAX_PUT])

    def _search(self, op: SearchOp) -> list[SearchItem]:
        prefix, wanted = self._prefix(op.namespace_prefix), op.offset + op.limit
        found: list[tuple[Entry, float | None]] = []
        if op.query:
            top_k = self._most_hits() if op.filter else min(wanted, self._most_hits())
            hits = self._client.search(self._scope, op.query, prefix=prefix, top_k=top_k)
            found = [(hit.entry, hit.score) for hit in hits if _matches(hit.entry.value, op.filter)]
        else:
            for entry in self._entries(prefix):
                if len(found) >= wanted:
                    break
                if _matches(entry.value, op.filter):
                    found.append((entry, None))
        found = found[op.offset : wanted]
        if op.refresh_ttl:
            for entry, _ in found:
                self._refresh(entry)
        return [self._item(entry, score) for entry, score in found]

    def _list(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        fixed: tuple[str, ...] = ()
        for condition in conditions:
            if condition.match_type == "prefix":
                labels = condition.path[: condition.path.index("*")] if "*" in condition.path else condition.path
                fixed = max(fixed, tuple(labels), key=len)
        found = set()
        for entry in self._entries(self._prefix(fixed)):
            namespace, _ = self._parts(entry.key)
            if all(_fits(namespace, condition) for condition in conditions):
                found.add(namespace[: op.max_depth])
        return sorted(found)[op.offset : op.offset + op.limit]

    def _refresh(self, entry: Entry) -> None:
        """Begins the item's lifetime anew. A write that came between begins its own."""
        minutes = entry.metadata.get(_MINUTES)
        if not isinstance(minutes, (int, float)):
            return
        try:
            self._client.set(
                self._scope, entry.key, entry.value, ttl=minutes * 60, metadata=entry.metadata, source=entry.source,
                text=entry.text, if_version=entry.version,
            )  # fmt: skip
        except Conflict:
            pass

    def _entries(self, prefix: str) -> Iterator[Entry]:
        return (entry for entry in self._client.entries(self._scope, prefix=prefix) if "//" in entry.key)

    def _most_hits(self) -> int:
        if self._max_top_k is None:
            self._max_top_k = int(self._client.capabilities()["capabilities"]["max_top_k"])
        return self._max_top_k

    def _prefix(self, namespace: tuple[str, ...]) -> str:
        return self._root + "".join(_escaped(label) + "/" for label in namespace)

    def _key(self, namespace: tuple[str, ...], key: str) -> str:
        if not namespace:
            raise InvalidNamespaceError("the namespace is empty; an item has at least one label")
        return self._prefix(namespace) + "/" + _escaped(key)

    def _parts(self, stored: str) -> tuple[tuple[str, ...], str]:
        path, _, key = stored.removeprefix(self._root).partition("//")
        return tuple(_plain(label) for label in path.split("/")), _plain(key)

    def _item(self, entry: Entry, score: float | None) -> SearchItem:
        namespace, key = self._parts(entry.key)
        return SearchItem(namespace, key, entry.value, entry.created_at, entry.updated_at, score)


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("/", "%2F").replace("\0", "%00")


def _plain(text: str) -> str:
    return text.replace("%00", "\0").replace("%2F", "/").replace("%25", "%")


def _text(op: PutOp) -> str | None:
    """What a search looks at; ``None``: the value's own words."""
    if op.index is None:
        return None
    return "\n".join(text for path in op.index or [] for text in get_text_at_path(op.value, tokenize_path(path)))


def _fits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = condition.path
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def _matches(value: Any, filter: dict[str, Any] | None) -> bool:
    return isinstance(value, dict) and all(_holds(value.get(name), wanted) for name, wanted in (filter or {}).items())


def _holds(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, dict):
        return _equal(value, wanted)
    if any(name.startswith("$") for name in wanted):
        return all(_compare(value, name, operand) for name, operand in wanted.items())
    return isinstance(value, dict) and all(_holds(value.get(name), inner) for name, inner in wanted.items())


def _compare(value: Any, operator: str, operand: Any) -> bool:
    if operator == "$eq":
        return _equal(value, operand)
    if operator == "$ne":
        return not _equal(value, operand)
    order = {"$gt": (1,), "$gte": (0, 1), "$lt": (-1,), "$lte": (-1, 0)}.get(operator)
    if order is None:
        raise ValueError(f"unknown operator {operator}; use $eq, $ne, $gt, $gte, $lt or $lte")
    one, other = value, operand
    # As in LangGraph's own stores, a text that is a number counts as one. Other texts have the order of texts.
    try:
        one, other = _number(value), _number(operand)
    except (TypeError, ValueError):
        if not (isinstance(value, str) and isinstance(operand, str)):
            return False
    return one == one and other == other and ((one > other) - (one < other)) in order


def _number(value: Any) -> int | float:
    # An integer is compared as it is: it may be beyond the range of a double.
    return value if isinstance(value, int) else float(value.text if isinstance(value, Number) else value)


def _equal(value: Any, wanted: Any) -> bool:
    # To Python, True is 1; to JSON it is not.
    if isinstance(value, bool) is not isinstance(wanted, bool):
        return False
    if isinstance(value, list) and isinstance(wanted, (list, tuple)):
        return len(value) == len(wanted) and all(_equal(a, b) for a, b in zip(value, wanted, strict=True))
    return bool(value == wanted)
