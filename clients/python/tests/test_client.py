"""The client against a real server."""

from __future__ import annotations

import json
import pathlib
from datetime import datetime, timezone
from decimal import Decimal

import pytest

import memory_client
from memory_client import (
    AsyncClient,
    CapabilityUnsupported,
    Client,
    Conflict,
    InvalidArgument,
    NotFound,
    Number,
    Refused,
    ScopeDenied,
    Scope,
    StatementRefused,
    TooLarge,
    Unauthenticated,
    Unreachable,
    WrongType,
    new_entry,
)

OPENAPI = pathlib.Path(__file__).parents[3] / "docs" / "openapi.json"


def test_an_entry_is_stored_read_and_deleted(client, scope):
    value = {"z": 1.5, "a": 9007199254740993, "text": "größer", "none": None}
    written = client.set(scope, "a/b c", value, metadata={"n": 1, "ok": True}, source="test", ttl=60, text="words")
    assert (written.version, written.created, written.written) == (1, True, True)
    entry = client.get(scope, "a/b c")
    assert (entry.value, list(entry.value), entry.metadata) == (value, list(value), {"n": 1, "ok": True})
    assert (entry.source, entry.text, entry.expires_at) == ("test", "words", written.expires_at)
    assert 0 < (entry.expires_at - datetime.now(timezone.utc)).total_seconds() <= 60
    client.set(scope, "a/b c", 1)
    assert client.get(scope, "a/b c").expires_at == written.expires_at
    assert client.set(scope, "a/b c", 1, ttl="never").expires_at is None
    assert client.delete(scope, "a/b c") is True
    assert client.delete(scope, "a/b c") is False
    assert client.get(scope, "a/b c") is None


def test_numbers_of_any_size_are_read_as_they_are_stored_and_can_be_written_back(client, scope):
    texts = ["1" * 5000, "-" + "9" * 4301, "1e999", "-1E+999", "1e-999", "1e99999999999999999999"]
    numbers = [Number(text) for text in texts]
    client.set(scope, "numbers", {"all": [*numbers, 10**400, 0.0, 0e5, 1.5], "text": texts[2]})
    for _ in range(2):
        [entry] = client.list(scope).entries
        assert entry.value == {"all": [*numbers, 10**400, 0.0, 0e5, 1.5], "text": texts[2]}
        client.set(scope, "numbers", entry.value)
    with pytest.raises(InvalidArgument, match="nothing was sent"):
        client.set(scope, "k", {1, 2})
    for text in ["Infinity", "1,2", "01", "1 ", "1\n", ""]:
        with pytest.raises(ValueError):
            Number(text)


def test_a_condition_that_does_not_hold_is_a_conflict_with_the_version(client, scope):
    client.set(scope, "k", 1, if_absent=True)
    with pytest.raises(Conflict) as conflict:
        client.set(scope, "k", 2, if_absent=True)
    assert (conflict.value.code, conflict.value.current_version, conflict.value.retryable) == ("conflict", 1, True)
    assert conflict.value.hint == "read it and decide again"
    assert client.set(scope, "k", 2, if_version=1).version == 2
    with pytest.raises(Conflict):
        client.delete(scope, "k", if_version=1)
    assert client.delete(scope, "k", if_version=2)


def test_entries_come_page_by_page_and_by_filter(client, scope):
    client.bulk_insert(scope, [new_entry(f"n/{n:02}", n, metadata={"n": n}) for n in range(25)])
    first = client.list(scope, prefix="n/", limit=10)
    assert [entry.value for entry in first.entries] == list(range(10))
    rest = client.list(scope, prefix="n/", limit=100, cursor=first.next)
    assert ([entry.value for entry in rest.entries], rest.next) == (list(range(10, 25)), None)
    few = client.list(scope, filter={"gte": ["metadata.n", 23]})
    assert [entry.value for entry in few.entries] == [23, 24]
    assert len(list(client.entries(scope))) == 25
    assert [entry and entry.value for entry in client.get_many(scope, ["n/03", "none", "n/01"])] == [3, None, 1]


def test_search_finds_words(client, scope):
    client.set(scope, "dinner", "Dinner in Lisbon on Friday")
    client.set(scope, "other", "The proxy allows 30 seconds")
    hits = client.search(scope, "where is dinner", top_k=1)
    assert [hit.entry.key for hit in hits] == ["dinner"]
    assert 0 < hits[0].score <= 1


def test_values_change_in_place(client, scope):
    assert [client.increment(scope, "n", by) for by in (1, 5, -2)] == [1, 6, 4]
    assert client.update(scope, "o", {"merge": {"a": {"b": 1}}}) == {"a": {"b": 1}}
    assert client.update(scope, "o", {"merge": {"a": {"c": 2}}}) == {"a": {"b": 1, "c": 2}}
    with pytest.raises(WrongType):
        client.increment(scope, "o")


def test_a_batch_answers_each_call_by_itself(client, scope):
    wire = scope.to_wire()
    replies = client.batch(
        [
            ("set", {"scope": wire, "key": "k", "value": "text"}),
            ("increment", {"scope": wire, "key": "k", "delta": 1}),
            ("get", {"scope": wire, "key": "k"}),
        ]
    )
    assert replies[0]["version"] == 1
    assert isinstance(replies[1], WrongType)
    assert replies[2]["value"] == "text"


def test_a_conversation_is_added_recalled_and_forgotten(client, run, scope):
    added = client.add(run, scope, "My sister Ida lives in Bergen")
    more = client.add(run, scope, [{"role": "user", "content": "We had dinner in Lisbon", "name": "Ada"}])
    assert (added.status, len(added.ids), len(more.ids)) == ("done", 1, 1)
    best = client.recall(run, scope, "where did we have dinner", top_k=1)
    assert best[0].shares == {}
    told = client.recall(run, scope, "where did we have dinner", explain=True, at=datetime(2999, 1, 1, tzinfo=timezone.utc))
    assert told[0].score == pytest.approx(sum(told[0].shares.values()))
    assert [(fact.id, fact.memory, fact.speaker) for fact in best] == [(more.ids[0], "We had dinner in Lisbon", "Ada")]
    facts, cursor = client.facts(run, scope)
    assert ([fact.memory for fact in facts], cursor) == (
        ["My sister Ida lives in Bergen", "We had dinner in Lisbon"],
        None,
    )
    gone = client.forget(run, scope, [added.ids[0], "0" * 32])
    assert (gone.forgotten, gone.not_found) == (1, ["0" * 32])
    assert client.add(run, scope, "My sister Ida lives in Bergen").forgotten == 1
    assert client.forget(run, scope, "all").forgotten == 1


def test_sql_runs_with_arguments_and_transactions(client, run, scope):
    client.exec(run, scope, "CREATE TABLE t (a INTEGER, b BLOB, c REAL)")
    done = client.exec(run, scope, "INSERT INTO t VALUES (?, ?, ?) RETURNING a", [9007199254740993, b"\0\xff", float("inf")])
    assert (done.rows_affected, done.returning.rows) == (1, [[9007199254740993]])
    assert client.query(run, scope, "SELECT b, c FROM t").rows == [[b"\0\xff", float("inf")]]
    assert client.query(run, scope, "SELECT ?", [Decimal("1.10")]).rows == [["1.10"]]
    tx = client.begin(run, scope)
    client.exec(run, scope, "DELETE FROM t", tx=tx)
    client.rollback(run, scope, tx)
    assert client.query(run, scope, "SELECT count(*) AS n FROM t").rows == [[1]]
    tx = client.begin(run, scope)
    client.exec(run, scope, "DELETE FROM t", tx=tx)
    client.commit(run, scope, tx)
    assert client.query(run, scope, "SELECT count(*) AS n FROM t").rows == [[0]]
    with pytest.raises(StatementRefused):
        client.exec(run, scope, "ATTACH 'other.db' AS other")


def test_refusals_are_typed_and_carry_the_codes_of_the_wire(client, server, scope):
    with pytest.raises(ScopeDenied) as denied:
        client.get(Scope.agent("ann", "globex"), "k")
    assert (denied.value.status, denied.value.code) == (403, "scope_denied")
    with pytest.raises(InvalidArgument):
        client.get(scope, "")
    with pytest.raises(TooLarge):
        client.list(scope, limit=5000)
    with pytest.raises(NotFound):
        client.call("no_such_op", {})
    with pytest.raises(CapabilityUnsupported):
        client.call("moment", {})
    with pytest.raises(Unauthenticated), Client(server.url, "memtok_wrong") as stranger:
        stranger.get(scope, "k")
    with pytest.raises(InvalidArgument, match="nothing was sent"):
        client.set(scope, "k", float("nan"))
    with pytest.raises(InvalidArgument, match="nothing was sent"):
        client.set(scope, "k", "\ud800")
    for ttl in (float("inf"), float("nan"), 1e308):
        with pytest.raises(InvalidArgument, match="finite number of seconds"):
            client.set(scope, "k", 1, ttl=ttl)


def test_a_stream_is_refused_by_name(client):
    document = json.loads(OPENAPI.read_text())
    streams = {path.rpartition("/")[2] for path, methods in document["paths"].items() if "ndjson" in json.dumps(methods)}
    assert streams == {"export_scope", "import_scope", "dump", "restore"}
    for op in streams:
        with pytest.raises(InvalidArgument, match=f"`{op}` is a stream"):
            client.call(op, {})


def test_a_timeout_may_be_without_an_end(server, scope):
    with server.client(timeout=float("inf")) as client:
        assert client.get(scope, "absent") is None


def test_a_write_that_is_refused_before_all_of_it_was_sent_is_told_why(client, scope):
    with pytest.raises(TooLarge, match="body"):
        client.set(scope, "k", "x" * 70_000_000)
    assert client.get(scope, "k") is None


def test_there_is_a_class_for_every_code_of_the_api():
    document = json.loads(OPENAPI.read_text())
    codes = set(document["components"]["schemas"]["ErrorKind"]["enum"])
    assert codes - Refused._by_code.keys() == set()
    assert all(Refused.from_wire({"code": code}, 500).code == code for code in codes | {"one_of_tomorrow"})


def test_a_token_is_not_sent_in_the_clear_nor_shown():
    with pytest.raises(ValueError, match="https"):
        Client("http://memory.example", "memtok_x")
    with pytest.raises(ValueError, match="a line break"):
        Client("https://memory.example", "a\r\nb")
    assert "memtok_x" not in repr(vars(Client("https://memory.example", "memtok_x")))


def test_a_server_that_is_not_there_is_unreachable():
    with pytest.raises(Unreachable), Client("http://127.0.0.1:9", "memtok_x", retries=0) as client:
        client.capabilities()


async def test_the_client_for_asyncio_has_the_same_calls(server, scope):
    import asyncio

    async with AsyncClient(server.url, server.token) as client:
        await asyncio.gather(*(client.set(scope, f"k{n}", n) for n in range(20)))
        assert [entry.value async for entry in client.entries(scope)] == sorted(range(20), key=str)
        with pytest.raises(Conflict):
            await client.set(scope, "k1", 0, if_absent=True)
    with pytest.raises(Unreachable, match="closed"):
        await client.get(scope, "k1")
    missing = {name for name in vars(Client) if not name.startswith("_")} - set(dir(AsyncClient))
    assert missing == set()


def test_everything_that_is_exported_exists():
    assert all(hasattr(memory_client, name) for name in memory_client.__all__)


def test_a_program_may_have_many_open_files(server, scope):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 2048:
        pytest.skip(f"at most {before[1]} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, before[1]))
    files = [open("/dev/null", "rb") for _ in range(1100)]
    try:
        with server.client() as client:
            assert [client.get(scope, "absent") for _ in range(3)] == [None] * 3
    finally:
        for file in files:
            file.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
