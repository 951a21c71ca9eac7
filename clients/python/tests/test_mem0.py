"""The calls of mem0."""

from __future__ import annotations

import ast
import datetime
import inspect
import os
import pathlib

import pytest

from memory_client import errors, mem0
from memory_client.mem0 import AsyncMemory, AsyncMemoryClient, Memory, MemoryClient


@pytest.fixture
def memory(client, scope) -> Memory:
    return Memory(client=client, scope=scope)


ADA = {"user_id": "ada"}


def test_messages_are_added_found_and_read(memory):
    said = [
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": "I play tennis in Bergen", "name": "Ada"},
        {"role": "assistant", "content": "Noted"},
    ]
    added = memory.add(said, user_id="ada", agent_id="coach", metadata={"topic": "sport", "tags": ["x"]})["results"]
    assert [(each["memory"], each["event"], each["role"], each["actor_id"]) for each in added] == [
        ("I play tennis in Bergen", "ADD", "user", "Ada"),
        ("Noted", "ADD", "assistant", None),
    ]
    [best] = memory.search("tennis", filters=ADA)["results"]
    assert set(best) == set(
        "id memory hash metadata score created_at updated_at user_id agent_id actor_id role".split()
    )
    assert (best["id"], best["metadata"], best["user_id"]) == (added[0]["id"], {"topic": "sport", "tags": ["x"]}, "ada")
    assert 0.1 <= best["score"] <= 1
    got = memory.get(added[0]["id"])
    assert (got["memory"], got["score"]) == ("I play tennis in Bergen", None)
    assert memory.get("none") is None
    assert [each["memory"] for each in memory.get_all(filters=ADA)["results"]] == ["I play tennis in Bergen", "Noted"]
    assert len(memory.get_all(filters=ADA, top_k=1)["results"]) == 1


def test_the_text_of_a_message_in_parts_is_kept(memory):
    parts = [{"type": "text", "text": "My boat"}, {"type": "image_url", "image_url": {"url": "https://example.org/b.png"}}]
    said = [parts, [*parts, {"type": "text", "text": "is red"}], parts[1:], [], "", None]
    added = memory.add([{"role": "user", "content": content} for content in said], **ADA)["results"]
    assert [each["memory"] for each in added] == ["My boat", "My boat is red"]


def test_a_memory_is_found_only_under_all_the_ids_that_are_asked_for(memory):
    memory.add("tea in the morning", user_id="ada", run_id="r1")
    memory.add("tea in the evening", user_id="bob")

    def found(**filters: object) -> list[str]:
        return [each["memory"] for each in memory.search("tea", filters=filters)["results"]]

    assert (found(user_id="ada"), found(run_id="r1")) == (["tea in the morning"], ["tea in the morning"])
    assert (found(user_id="bob", run_id="r1"), found(user_id="eve")) == ([], [])
    assert [each["memory"] for each in memory.search("tea", user_id="bob", limit=5)["results"]] == ["tea in the evening"]
    for call in (lambda: memory.search("tea"), lambda: memory.get_all(filters={"topic": "x"}), lambda: memory.add("x")):
        with pytest.raises(ValueError, match="at least one of"):
            call()
    with pytest.raises(TypeError, match="not served"):
        memory.search("tea", user_id="bob", keyword_search=True)


def test_metadata_filters_of_mem0(memory):
    for n, topic in enumerate(["a", "b", "c"]):
        memory.add(f"number {n}", user_id="ada", metadata={"n": n, "topic": topic, "user_id": "eve"})

    def found(**filters: object) -> list[int]:
        return [each["metadata"]["n"] for each in memory.get_all(filters={**ADA, **filters})["results"]]

    assert found(topic="b") == [1]
    assert (found(n={"gte": 1}), found(n={"gt": 0, "lt": 2}), found(topic={"in": ["a", "c"]})) == ([1, 2], [1], [0, 2])
    assert (found(topic={"nin": ["a"]}), found(topic={"ne": "a"}), found(topic="*")) == ([1, 2], [1, 2], [0, 1, 2])
    assert found(OR=[{"topic": "a"}, {"n": 2}]) == [0, 2]
    assert (found(NOT=[{"topic": "a"}]), found(AND=[{"n": {"gt": 0}}, {"topic": "c"}])) == ([1, 2], [2])
    with pytest.raises(ValueError, match="icontains"):
        found(topic={"icontains": "a"})
    for name in ("memory", "hash", "categories", "keywords"):
        with pytest.raises(ValueError, match=name):
            found(OR=[{name: {"in": ["x"]}}])


def test_memories_are_filtered_by_when_they_were_made_and_changed(memory):
    first = memory.add("one", user_id="ada")["results"][0]["id"]
    memory.add("two", user_id="ada")
    now = datetime.datetime.now(datetime.timezone.utc)
    tomorrow = now + datetime.timedelta(days=1)

    def found(**filters: object) -> list[str]:
        return [each["memory"] for each in memory.get_all(filters={**ADA, **filters})["results"]]

    for later in (tomorrow, tomorrow.replace(tzinfo=None), tomorrow.date(), str(tomorrow.date()), tomorrow.isoformat()):
        assert (found(created_at={"lt": later}), found(created_at={"gte": later})) == (["one", "two"], []), later
    assert (found(created_at={"in": [tomorrow]}), found(created_at=tomorrow)) == ([], [])
    assert found(created_at="*", updated_at="*") == ["one", "two"]
    memory.update(first, "uno")
    changed = memory._client.get(memory._scope, "mem0/memory/" + first).updated_at
    assert found(updated_at={"gte": changed}) == ["uno"]
    with pytest.raises(errors.InvalidArgument):
        found(created_at={"gte": "yesterday"})


def test_a_memory_is_changed_and_deleted_and_has_a_history(memory):
    memory_id = memory.add("I like tea", user_id="ada", metadata={"a": 1, "b": 2})["results"][0]["id"]
    assert memory.update(memory_id, "I like coffee", metadata={"b": 3, "user_id": "eve"}) == {
        "message": "Memory updated successfully!"
    }
    got = memory.get(memory_id)
    assert (got["memory"], got["metadata"], got["user_id"]) == ("I like coffee", {"a": 1, "b": 3}, "ada")
    assert memory.search("tea", filters=ADA)["results"] == []
    assert memory.delete(memory_id) == {"message": "Memory deleted successfully!"}
    assert memory.get(memory_id) is None
    events = memory.history(memory_id)
    assert [(each["event"], each["old_memory"], each["new_memory"], each["is_deleted"]) for each in events] == [
        ("ADD", None, "I like tea", False),
        ("UPDATE", "I like tea", "I like coffee", False),
        ("DELETE", "I like coffee", None, True),
    ]
    assert set(events[0]) == set(
        "id memory_id old_memory new_memory event created_at updated_at is_deleted actor_id role".split()
    )
    for call in (memory.delete, lambda gone: memory.update(gone, "x")):
        with pytest.raises(ValueError, match="not found"):
            call(memory_id)


def test_an_expired_memory_is_hidden(memory):
    memory.add("old news", user_id="ada", expiration_date="2020-01-01")
    kept = memory.add("good news", user_id="ada", expiration_date="2999-01-01")["results"][0]["id"]
    assert [each["memory"] for each in memory.get_all(filters=ADA)["results"]] == ["good news"]
    assert len(memory.search("news", filters=ADA, show_expired=True)["results"]) == 2
    memory.update(kept, expiration_date=None)
    assert memory.get(kept)["expiration_date"] is None
    with pytest.raises(ValueError, match="YYYY-MM-DD"):
        memory.add("x", user_id="ada", expiration_date="tomorrow")


def test_all_memories_of_a_user_are_deleted_and_reset_deletes_the_rest(memory, client, scope):
    memory.add([{"role": "user", "content": f"n{n}"} for n in range(3)], user_id="ada")
    memory.add("other", user_id="bob")
    assert memory.delete_all(user_id="ada") == {"message": "Memories deleted successfully!"}
    assert memory.get_all(filters=ADA)["results"] == []
    assert len(memory.get_all(filters={"user_id": "bob"})["results"]) == 1
    with pytest.raises(ValueError):
        memory.delete_all()
    memory.reset()
    assert list(client.entries(scope)) == []


def test_the_calls_of_the_hosted_client(client, scope):
    memory = MemoryClient(client=client, scope=scope)
    added = memory.add([{"role": "user", "content": "I like tea"}], user_id="ada", app_id="desk", metadata={"a": 1})
    memory.add("and cake", {"user_id": "ada"})
    memory_id = added["results"][0]["id"]
    assert memory.search("tea", filters=ADA)["results"][0]["id"] == memory_id
    page = memory.get_all(filters=ADA, page=1, page_size=1)
    assert (page["count"], page["next"], page["previous"], len(page["results"])) == (2, 2, None, 1)
    memory.update(memory_id, text="I like coffee")
    assert memory.get(memory_id)["memory"] == "I like coffee"
    assert len(memory.history(memory_id)) == 2
    memory.delete_all(user_id="ada")
    assert memory.get_all(filters=ADA)["count"] == 0


def test_arguments_of_earlier_hosted_clients_change_nothing(client, scope):
    memory = MemoryClient(client=client, scope=scope)
    memory.add("tea", user_id="ada", version="v2", output_format="v1.1", async_mode=False)
    assert memory.get_all(user_id="ada", version="v2", output_format="v1.1")["count"] == 1
    assert len(memory.search("tea", version="v2", filters=ADA)["results"]) == 1
    with pytest.raises(TypeError, match="custom_categories"):
        memory.add("tea", user_id="ada", custom_categories=[{"drinks": "what they drink"}])


def test_whose_a_memory_is_may_be_among_the_filters_of_the_hosted_client(client, scope):
    memory = MemoryClient(client=client, scope=scope)

    class Options:
        """As mem0's own, which leave out what was not set."""

        def __init__(self, **given: object) -> None:
            self.given = given

        def model_dump(self, *, exclude_unset: bool) -> dict[str, object]:
            return self.given

    memory.add("tea", Options(filters=ADA, metadata={"a": 1}, infer=None))
    memory.add("cake", filters={"user_id": "bob", "app_id": None})
    [tea] = memory.get_all(Options(filters=ADA, page=None))["results"]
    assert (tea["memory"], tea["user_id"], tea["metadata"]) == ("tea", "ada", {"a": 1})
    for call in (memory.delete_all, lambda **given: memory.add("x", **given)):
        with pytest.raises(TypeError, match="topic"):
            call(filters={**ADA, "topic": "x"})
        with pytest.raises(TypeError, match="user_id"):
            call(filters=ADA, user_id="bob")
        with pytest.raises(ValueError, match="at least one of"):
            call(filters={"user_id": None})
    memory.delete_all(Options(filters=ADA))
    memory.delete_all(filters={"user_id": "eve"})
    assert [memory.get_all(filters={"user_id": name})["count"] for name in ("ada", "bob")] == [0, 1]
    [cake] = memory.get_all(filters={"user_id": "bob"})["results"]
    memory.delete(cake["id"], delete_linked=True)
    assert memory.get(cake["id"]) is None


def test_a_search_for_none_finds_none_and_a_threshold_is_between_0_and_1(memory):
    memory.add("I like tea", user_id="ada")
    for found in (memory.search("tea", top_k=0, filters=ADA), memory.get_all(top_k=0, filters=ADA)):
        assert found == {"results": []}
    for call in (lambda: memory.search("tea", top_k=-1, filters=ADA), lambda: memory.get_all(top_k=-1, filters=ADA)):
        with pytest.raises(ValueError, match="top_k is at least 0"):
            call()
    assert memory.search("tea", limit=0, filters=ADA) == {"results": []}
    for threshold in (2, -0.1):
        with pytest.raises(ValueError, match="threshold"):
            memory.search("tea", threshold=threshold, filters=ADA)


def test_a_weak_match_is_found_unless_a_threshold_is_given(memory):
    memory.add("I like tea", user_id="ada")
    asked = "which hot drink, coffee or tea, would make a good present for my neighbour on Friday"
    assert len(memory.search(asked, filters=ADA)["results"]) == 1
    assert memory.search(asked, threshold=0.1, filters=ADA)["results"] == []


async def test_the_calls_for_asyncio(server, client, scope, monkeypatch):
    monkeypatch.setenv("MEMORY_URL", server.url)
    monkeypatch.setenv("MEMORY_TOKEN", server.token)
    async with AsyncMemory.from_config({}) as configured:
        assert isinstance(configured, AsyncMemory)
    memory = AsyncMemory(client=client, scope=scope)
    await memory.add("I like tea", user_id="ada")
    assert len((await memory.search("tea", filters=ADA))["results"]) == 1
    async with AsyncMemoryClient(server.token, server.url, scope=scope) as hosted:
        await hosted.add("I like cake", {"user_id": "bob"})
        assert (await hosted.get_all(user_id="bob", page=1))["count"] == 1
        await hosted.delete_all(filters={"user_id": "bob"})
        assert (await hosted.get_all(user_id="bob"))["results"] == []


@pytest.mark.skipif("MEMORY_MEM0_SOURCE" not in os.environ, reason="no MEMORY_MEM0_SOURCE")
def test_the_arguments_are_those_of_mem0():
    source = (pathlib.Path(os.environ["MEMORY_MEM0_SOURCE"]) / "mem0" / "memory" / "main.py").read_text()
    theirs = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == "Memory")
    methods = {node.name: node.args for node in theirs.body if isinstance(node, ast.FunctionDef)}
    for name in ("add", "search", "get_all", "get", "update", "delete", "delete_all", "history", "reset"):
        wanted = methods[name]
        parameters = inspect.signature(getattr(mem0.Memory, name)).parameters.values()
        named = [each.name for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD]
        assert named == [each.arg for each in (*wanted.args, *wanted.kwonlyargs)], name
        only = {each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
        assert only == {each.arg for each in wanted.kwonlyargs}, name
