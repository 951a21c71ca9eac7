"""The store for LangGraph, beyond LangGraph's own tests."""

from __future__ import annotations

import json
import subprocess
from datetime import datetime, timedelta, timezone

import pytest

pytest.importorskip("langgraph.store.base")

from langgraph.store.base import GetOp, InvalidNamespaceError, PutOp, SearchOp  # noqa: E402

from memory_client import Number  # noqa: E402
from memory_client.langgraph import MemoryStore  # noqa: E402


@pytest.fixture
def store(client, scope) -> MemoryStore:
    return MemoryStore(client, scope)


def lifetime(client, scope) -> float:
    [entry] = client.entries(scope)
    return (entry.expires_at - datetime.now(timezone.utc)).total_seconds()


def test_labels_and_keys_of_any_characters_come_back_and_stay_apart(store, client, scope):
    odd = [(("a/b",), "c"), (("a", "b"), "c"), (("a",), "b/c"), (("a%2Fb",), "c"), (("a",), "/"), (("ä ",), "%"), (("a",), "")]
    for n, (namespace, key) in enumerate(odd):
        store.put(namespace, key, {"n": n})
    assert [store.get(namespace, key).value["n"] for namespace, key in odd] == list(range(len(odd)))
    found = store.search((), limit=100)
    assert sorted((item.namespace, item.key) for item in found) == sorted(odd)
    assert store.list_namespaces() == sorted({namespace for namespace, _ in odd})
    client.set(scope, "note", "not of the store")
    assert len(store.search((), limit=100)) == len(odd)


def test_an_imported_store_is_the_same_store(store, client, scope, server):
    soon = (datetime.now(timezone.utc) + timedelta(seconds=60)).isoformat()
    row = {
        "prefix": "users.ada", "key": "food/likes", "value": {"likes": "tea"},
        "created_at": "2026-01-02T03:04:05+00:00", "expires_at": soon, "ttl_minutes": 10,
    }  # fmt: skip
    subprocess.run(
        [server.binary, "import", "-", "--tenant", scope.tenant, "--agent", scope.id],
        cwd=server.folder, env=server.environment, input=json.dumps(row), text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert lifetime(client, scope) <= 60
    assert store.get(("users", "ada"), "food/likes").value == {"likes": "tea"}
    assert lifetime(client, scope) > 590, "as of an item that the store wrote"
    assert [item.key for item in store.search(("users",), query="tea")] == ["food/likes"]
    assert store.list_namespaces() == [("users", "ada")]
    store.put(("users", "ada"), "food/likes", {"likes": "coffee"})
    assert [item.value for item in store.search(("users", "ada"))] == [{"likes": "coffee"}]


def test_a_lifetime_begins_anew_with_each_read_that_asks_for_it(store, client, scope):
    store.put(("a",), "k", {"v": 1}, ttl=10)
    assert 590 < lifetime(client, scope) <= 600
    # As if nine minutes had passed.
    [entry] = client.entries(scope)
    client.set(scope, entry.key, entry.value, ttl=60, metadata=entry.metadata)
    assert store.get(("a",), "k", refresh_ttl=False).value == {"v": 1}
    assert lifetime(client, scope) <= 60
    assert store.get(("a",), "k").value == {"v": 1}
    assert lifetime(client, scope) > 590
    client.set(scope, entry.key, entry.value, ttl=60, metadata=entry.metadata)
    assert len(store.search(("a",))) == 1
    assert lifetime(client, scope) > 590
    store.put(("a",), "k", {"v": 2})
    assert [entry.expires_at for entry in client.entries(scope)] == [None]


def test_a_default_lifetime_is_configured(client, scope):
    MemoryStore(client, scope, ttl={"default_ttl": 5}).put(("a",), "k", {"v": 1})
    assert 290 < lifetime(client, scope) <= 300


def test_a_query_finds_by_the_paths_that_are_searched(store):
    store.put(("d",), "whole", {"title": "Lisbon", "body": "trains"})
    store.put(("d",), "title", {"title": "Oslo", "body": "trains"}, index=["title"])
    store.put(("d",), "none", {"title": "Bergen", "body": "trains"}, index=False)

    def keys(query: str) -> list[str]:
        return [item.key for item in store.search(("d",), query=query)]

    assert (keys("trains"), keys("Oslo"), keys("Bergen")) == (["whole"], ["title"], [])
    assert store.search(("d",), query="Lisbon")[0].score > 0
    assert len(store.search(("d",))) == 3


def test_filters_compare_as_json_does(store):
    for key, value in {"a": {"n": 1}, "b": {"n": True}, "c": {"n": "1"}, "d": {}, "e": {"n": None}}.items():
        store.put(("f",), key, value)

    def keys(condition: object) -> str:
        return "".join(item.key for item in store.search(("f",), filter={"n": condition}))

    assert (keys(1), keys(True), keys("1"), keys(None)) == ("a", "b", "c", "de")
    assert (keys({"$ne": 1}), keys({"$gt": 0}), keys({"$lt": "x"})) == ("bcde", "abc", "c")
    store.put(("f",), "big", {"n": 10**400})
    store.put(("f",), "huge", {"n": Number("1" * 5000)})
    assert (keys({"$gt": 1}), keys({"$gt": 10**399}), keys({"$lt": 0})) == ("bighuge", "bighuge", "")
    with pytest.raises(ValueError, match="unknown operator"):
        keys({"$like": "x"})


def test_a_batch_reads_before_it_writes_and_its_last_write_counts(store):
    store.put(("a",), "k", {"v": 0})
    put = [PutOp(("a",), "k", {"v": n}) for n in (1, 2)]
    got, _, _, found = store.batch([GetOp(("a",), "k"), *put, SearchOp(("a",))])
    assert (got.value, [item.value for item in found]) == ({"v": 0}, [{"v": 0}])
    assert store.get(("a",), "k").value == {"v": 2}
    store.batch([PutOp(("a",), "k", {"v": 3}), PutOp(("a",), "k", None)])
    assert store.get(("a",), "k") is None


def test_an_index_is_the_servers(client, scope):
    with pytest.raises(ValueError, match="embedder"):
        MemoryStore(client, scope, index={"dims": 3})


def test_an_item_needs_a_namespace(store):
    with pytest.raises(InvalidNamespaceError):
        store.batch([GetOp((), "k")])


async def test_the_calls_for_asyncio(store):
    await store.aput(("a",), "k", {"v": 1})
    assert (await store.aget(("a",), "k")).value == {"v": 1}
    assert await store.alist_namespaces() == [("a",)]
    await store.adelete(("a",), "k")
    assert await store.asearch(()) == []
