"""Scopes, runs, and what calls return."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal, Union

Scalar = Union[bool, int, float, str]
Json = Any
Metadata = Mapping[str, Scalar]
Filter = Mapping[str, Any]


@dataclass(frozen=True)
class Number:
    """A number in JSON that ``int`` or ``float`` does not hold, as it is written: an integer of more digits than
    :func:`sys.get_int_max_str_digits`, or a number beyond the range of a double. It is read as this, and may be stored."""

    text: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", self.text):
            raise ValueError("the text is not a number in JSON")


@dataclass(frozen=True)
class Scope:
    """Whose memory: of an agent, a user, or a run."""

    kind: Literal["agent", "user", "run"]
    id: str
    tenant: str = "default"

    @staticmethod
    def agent(id: str, tenant: str = "default") -> Scope:
        return Scope("agent", id, tenant)

    @staticmethod
    def user(id: str, tenant: str = "default") -> Scope:
        return Scope("user", id, tenant)

    @staticmethod
    def run(id: str, tenant: str = "default") -> Scope:
        return Scope("run", id, tenant)

    def to_wire(self) -> dict[str, str]:
        return {"tenant": self.tenant, "kind": self.kind, "id": self.id}


@dataclass(frozen=True)
class Run:
    """Who is working, for conversations and SQL."""

    agent: str
    run: str
    tenant: str = "default"
    user: str | None = None
    root_run: str | None = None
    trace: str | None = None

    def to_wire(self) -> dict[str, str]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Entry:
    key: str
    value: Json
    version: int
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    metadata: dict[str, Scalar] = field(default_factory=dict)
    source: str | None = None
    text: str | None = None
    access_count: int = 0


@dataclass(frozen=True)
class Page:
    entries: list[Entry]
    #: The cursor of the next page; ``None``: this is the last.
    next: str | None


@dataclass(frozen=True)
class Hit:
    entry: Entry
    #: Absolute, 0 to 1.
    score: float
    #: Orders the hits of one answer, and means nothing else.
    rank_score: float
    #: Keys of near-duplicates that were folded into this hit.
    merged: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class SetResult:
    version: int
    created: bool
    #: False if exactly this was stored already.
    written: bool
    expires_at: datetime | None


@dataclass(frozen=True)
class Added:
    #: ``pending``: recallable later; ``unknown``: it may or may not have been stored.
    status: Literal["done", "pending", "unknown"]
    #: Facts that were stored, if the layer names them.
    ids: list[str]
    #: The work that is pending, if the layer names it.
    event: str | None
    known: int
    forgotten: int
    different: list[str]


@dataclass(frozen=True)
class Fact:
    id: str
    memory: str
    metadata: dict[str, Scalar]
    score: float | None
    similarity: float | None
    role: str | None
    speaker: str | None
    session: str | None
    at: datetime | None
    created_at: datetime | None
    #: What its score is made of, by signal, if the question asked for that.
    shares: dict[str, float]
    #: Everything the server sent of it.
    raw: dict[str, Any] = field(repr=False, default_factory=dict)


@dataclass(frozen=True)
class Forgotten:
    #: ``None`` if the layer does not count.
    forgotten: int | None
    not_found: list[str]
    #: What the layer keeps of the words all the same.
    remains: list[str]


@dataclass(frozen=True)
class Rows:
    columns: list[str]
    rows: list[list[Any]]
    truncated: bool


@dataclass(frozen=True)
class Executed:
    rows_affected: int
    returning: Rows | None


def time(text: str) -> datetime:
    return datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)


def optional_time(text: str | None) -> datetime | None:
    return None if text is None else time(text)


def rfc3339(at: datetime) -> str:
    if at.tzinfo is None:
        raise ValueError("the time has no time zone; use datetime.now(timezone.utc)")
    try:
        at = at.astimezone(timezone.utc)
    except OverflowError as error:
        raise ValueError("the time is before the year 1 or after 9999 in UTC") from error
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def entry(wire: dict[str, Any]) -> Entry:
    return Entry(
        key=wire["key"],
        value=wire["value"],
        version=wire["version"],
        created_at=time(wire["created_at"]),
        updated_at=time(wire["updated_at"]),
        expires_at=optional_time(wire.get("expires_at")),
        metadata=wire.get("metadata") or {},
        source=wire.get("source"),
        text=wire.get("text"),
        access_count=wire.get("access_count", 0),
    )


def set_result(wire: dict[str, Any]) -> SetResult:
    return SetResult(wire["version"], wire["created"], wire["written"], optional_time(wire.get("expires_at")))


def added(wire: dict[str, Any]) -> Added:
    status: Any = wire["status"]
    ids: list[str] = []
    event: str | None = None
    if isinstance(status, dict) and "done" in status:
        status, ids = "done", status["done"]
    elif isinstance(status, dict):
        status, event = "pending", status["pending"]
    return Added(status, ids, event, wire["known"], wire["forgotten"], wire["different"])


def fact(wire: dict[str, Any]) -> Fact:
    return Fact(
        id=wire["id"],
        memory=wire["memory"],
        metadata=wire.get("metadata") or {},
        score=wire.get("score"),
        similarity=wire.get("similarity"),
        role=wire.get("role"),
        speaker=wire.get("speaker"),
        session=wire.get("session"),
        at=optional_time(wire.get("at")),
        created_at=optional_time(wire.get("created_at")),
        shares={share["signal"]: share["value"] for share in wire.get("shares") or []},
        raw=wire,
    )


def rows(wire: dict[str, Any]) -> Rows:
    return Rows(wire["columns"], wire["rows"], wire["truncated"])
