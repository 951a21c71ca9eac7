"""What the Python package `mcp`, a client that people use, gets from `memory serve`.

    python clients.py SCENARIO MODE BINARY FOLDER [MODEL [KEY]]

MODE is `legacy` (a session by handshake) or a revision of the protocol without one; with MEMORY_TEST_OVER_HTTP set the server is
reached over HTTP, with a token for the agent and user of its options. Each scenario works in FOLDER, which is
empty, and ends with an exit code other than 0 where something was not as it must be.
"""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters

SCENARIO, MODE, BINARY, FOLDER = sys.argv[1:5]
MODEL = sys.argv[5] if len(sys.argv) > 5 else None
KEY = sys.argv[6] if len(sys.argv) > 6 else None
OPTIONS = ["--url", "sqlite:memory.db", "--agent", "claude", "--user", "ada"]
PATIENCE = 60.0

OPS = [
    ({"op": "set", "key": "note/1", "value": "Dinner in Lisbon", "metadata": {"city": "Lisbon"}, "source": "chat"}, "version"),
    ({"op": "get", "key": "note/1"}, "value"),
    ({"op": "list", "prefix": "note/", "filter": {"eq": ["metadata.city", "Lisbon"]}}, "entries"),
    ({"op": "search", "query": "where was dinner?", "top_k": 3}, "hits"),
    ({"op": "incr", "key": "visits", "by": 5}, "value"),
    ({"op": "update", "key": "profile", "merge": {"tea": "oolong"}}, "value"),
    ({"op": "update", "key": "tags", "append": "red"}, "appended"),
    ({"op": "update", "key": "recent", "push": "x", "limit": 2}, "dropped"),
    ({"op": "bulk_insert", "items": [{"key": "a", "value": 1}, {"key": "b", "value": None}]}, "items"),
    ({"op": "delete", "key": "a"}, "deleted"),
    ({"op": "add", "messages": [{"role": "user", "content": "I live in Oslo"}]}, "ids"),
    ({"op": "recall", "query": "Oslo"}, "facts"),
    ({"op": "facts"}, "facts"),
    ({"op": "forget", "all": True}, "forgotten"),
    ({"op": "list_scopes"}, "scopes"),
    ({"op": "describe"}, "capabilities"),
]
UNSERVED = [
    {"op": "event", "event": "e"},
    {"op": "sql_exec", "sql": "SELECT 1"},
    {"op": "sql_query", "sql": "SELECT 1"},
    {"op": "sql_begin"},
    {"op": "sql_commit"},
    {"op": "sql_rollback"},
    {"op": "note", "note": "issue lint: the linter fails"},
    {"op": "shared", "bucket": "issues"},
    {"op": "why", "bucket": "issues", "id": "lint"},
    {"op": "pending"},
]


@asynccontextmanager
async def connect_over_http(options, environment, **more):
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    store, who = ["--tokens", "tokens"], []
    for name, value in zip(options[::2], options[1::2], strict=True):
        (who if name in ("--agent", "--user") else store).extend([name, value])
    who = who or ["--agent", "claude", "--user", "ada"]
    name = f"token-{len(list(Path(FOLDER).glob('served-*')))}"
    (Path(FOLDER) / f"served-{name}").touch()
    make = [BINARY, "token", "create", name, "--tokens", "tokens", "--json", *who]
    made = subprocess.run(make, cwd=FOLDER, env=environment, capture_output=True, check=True)
    serve = [BINARY, "serve", "--http", "127.0.0.1:0", *store]
    process = subprocess.Popen(serve, cwd=FOLDER, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        lines = iter(process.stderr.readline, "")
        url = next(line.split()[-1] for line in lines if "listening on" in line)
        headers = {"Authorization": f"Bearer {json.loads(made.stdout)['token']}"}
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
            transport = streamable_http_client(f"{url}/mcp", http_client=http)
            async with Client(transport, mode=MODE, read_timeout_seconds=PATIENCE, **more) as client:
                yield client
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0


def connect(options=OPTIONS, **more):
    environment = {"HOME": FOLDER, "XDG_CONFIG_HOME": FOLDER, "XDG_DATA_HOME": FOLDER}
    if os.environ.get("MEMORY_TEST_OVER_HTTP"):
        return connect_over_http(options, environment, **more)
    server = StdioServerParameters(command=BINARY, args=["serve", *options], cwd=FOLDER, env=environment)
    return Client(server, mode=MODE, read_timeout_seconds=PATIENCE, **more)


def content(result):
    """Over HTTP an answer is text, since the transport would change the spelling of a parsed one."""
    return result.structured_content or json.loads(result.content[0].text)


async def ok(client, **arguments):
    result = await client.call_tool("memory", arguments)
    assert not result.is_error, result
    return content(result)


async def refused(client, **arguments):
    result = await client.call_tool("memory", arguments)
    assert result.is_error, result
    error = content(result)["error"]
    assert set(error) == {"code", "message", "details", "retryable"}, error
    return error


@contextmanager
def locked():
    """The database's write lock, held by another process of the machine."""
    database = sqlite3.connect(Path(FOLDER) / "memory.db", isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        database.execute("ROLLBACK")
        database.close()


async def lists_the_tool():
    async with connect() as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["memory"], tools
        assert tools[0].input_schema["required"] == ["op"], tools
        assert "bulk_insert" in tools[0].description, tools


async def calls_every_operation():
    async with connect() as client:
        for arguments, member in OPS:
            answer = await ok(client, **arguments)
            assert member in answer, (arguments, answer)
        for arguments in UNSERVED:
            error = await refused(client, **arguments)
            assert error["code"] in ("capability_unsupported", "scope_denied"), (arguments, error)
        served = {arguments["op"] for arguments, _ in OPS}
        known = (await refused(client, op="?"))["details"]["ops"]
        assert served == set(known), served ^ set(known)


async def is_denied_a_scope():
    rules = '[backends.main]\nurl = "sqlite:memory.db"\n[default]\nagent = "claude"\nuser = "ada"\nmemory_scopes = ["agent"]\n'
    (Path(FOLDER) / "memory.toml").write_text(rules)
    async with connect([]) as client:
        await ok(client, op="set", key="k", value=1)
        error = await refused(client, op="set", scope="user", key="k", value=1)
        assert error["code"] == "scope_denied" and error["details"]["allowed"] == ["agent"], error


async def reads_resources_and_the_prompt():
    rules = '[backends.main]\nurl = "sqlite:memory.db"\n[default]\nagent = "claude"\nuser = "ada"\nmemory_scopes = ["agent", "user"]\n'
    (Path(FOLDER) / "memory.toml").write_text(rules)
    value = {"z": 1, "a": 9007199254740993, "about": "a journey to Zürich"}
    async with connect([]) as client:
        templates = (await client.list_resource_templates()).resource_templates
        assert [one.uri_template for one in templates] == ["memory://agent/{key}", "memory://user/{key}"], templates
        assert (await client.list_resources()).resources == []
        await ok(client, op="bulk_insert", items=[{"key": f"k{n:03}", "value": n} for n in range(110)])
        await ok(client, op="set", scope="user", key="trip/Zürich 1", value=value)
        await ok(client, op="add", messages=[{"role": "user", "content": "I moved to Lisbon"}])
        uris, page = [], await client.list_resources(cache_mode="refresh")
        while page.next_cursor:
            uris += [one.uri for one in page.resources]
            page = await client.list_resources(cursor=page.next_cursor)
        uris += [one.uri for one in page.resources]
        assert len(uris) == len(set(uris)) and uris[0] == "memory://agent/k000", uris
        assert uris[-1] == "memory://user/trip%2FZ%C3%BCrich%201", uris
        read = (await client.read_resource(uris[-1])).contents[0]
        assert (read.mime_type, json.loads(read.text)) == ("application/json", value), read
        for uri in ["memory://agent/none", "memory://run/k", "memory://host/k", "file:///etc/passwd"]:
            try:
                raise AssertionError(await client.read_resource(uri))
            except MCPError as error:
                assert "passwd" not in error.error.message, error
        prompts = (await client.list_prompts()).prompts
        assert [(one.name, one.arguments[0].required) for one in prompts] == [("recall", True)], prompts
        message = (await client.get_prompt("recall", {"query": "where did I move to"})).messages[0]
        assert "I moved to Lisbon" in message.content.text, message
        message = (await client.get_prompt("recall", {"query": "Zürich", "scope": "user"})).messages[0]
        assert "- trip/Zürich 1: {" in message.content.text, message
        try:
            raise AssertionError(await client.get_prompt("recall", {"query": "k", "scope": "run"}))
        except MCPError as error:
            assert error.error.data["code"] == "scope_denied", error
    (Path(FOLDER) / "memory.toml").write_text(rules.replace('["agent", "user"]', "[]"))
    async with connect([]) as client:
        assert (await client.list_resource_templates()).resource_templates == []
        assert (await client.list_resources()).resources == []


async def keeps_facts_with_mem0():
    """MODEL is the address of a self-hosted mem0 here, and KEY its key."""
    (Path(FOLDER) / "key").write_text(KEY)
    backend = f'[backends.mem0]\nurl = "mem0+http://{MODEL}?api_key=file:key"\n[egress]\nallow = ["{MODEL}"]\n'
    rules = '[default]\nagent = "claude"\nuser = "ada"\nmemory_scopes = ["agent", "user"]\n'
    (Path(FOLDER) / "memory.toml").write_text(backend + rules)
    async with connect([]) as client:
        schema = (await client.list_tools()).tools[0].input_schema
        assert {"add", "recall", "facts", "forget"} <= set(schema["properties"]["op"]["enum"]), schema
        assert "set" not in schema["properties"]["op"]["enum"], schema
        said = [{"role": "user", "content": "I live in Lisbon. I love green tea."}]
        added = await ok(client, op="add", scope="user", messages=said, metadata={"day": 3})
        assert added["status"] == "done" and len(added["ids"]) == 2, added
    async with connect([]) as client:
        facts = (await ok(client, op="recall", scope="user", query="where do I live"))["facts"]
        assert "Lisbon" in facts[0]["memory"] and facts[0]["metadata"] == {"day": 3}, facts
        assert (await ok(client, op="facts"))["facts"] == []
        error = await refused(client, op="get", key="city")
        assert error["code"] == "capability_unsupported" and error["details"]["instead"] == "recall", error
        forgot = await ok(client, op="forget", scope="user", ids=[added["ids"][0], "no-such"])
        assert forgot["forgotten"] == 1 and forgot["not_found"] == ["no-such"], forgot
        assert (await ok(client, op="forget", scope="user", all=True))["forgotten"] == 1


async def finds_by_words_what_an_earlier_connection_stored():
    async with connect() as client:
        await ok(client, op="set", scope="user", key="food", value="Ada is allergic to peanuts")
        await ok(client, op="set", scope="user", key="work", value="She repairs old clocks")
    async with connect() as client:
        hits = (await ok(client, op="search", scope="user", query="is there an allergy to peanuts?"))["hits"]
        assert hits[0]["key"] == "food", hits


async def finds_by_meaning_what_an_earlier_connection_stored():
    backend = '[backends.main]\nurl = "sqlite:memory.db"\nembedder = "local"\n'
    embedder = f"[embedders.local]\nkind = \"static\"\npath = '{MODEL}'\n"
    default = '[default]\nagent = "claude"\nuser = "ada"\nmemory_scopes = ["user"]\n'
    (Path(FOLDER) / "memory.toml").write_text(backend + embedder + default)
    memories = {
        "pet": "Her dog sleeps in the kitchen",
        "car": "The automobile needs new brakes",
        "music": "She plays the violin in an orchestra",
        "trip": "They flew to Portugal in spring",
    }
    async with connect([]) as client:
        for key, value in memories.items():
            outcome = await ok(client, op="set", scope="user", key=key, value=value)
            assert outcome["embedding"] == "stored", outcome
    # None of the words of a question stands in what it is about.
    async with connect([]) as client:
        for question, key in [("vehicle repair", "car"), ("puppy", "pet"), ("instrument", "music")]:
            answer = await ok(client, op="search", scope="user", query=question)
            assert answer["mode"] == "hybrid", answer
            assert answer["hits"][0]["key"] == key, (question, answer)
            by_words = await ok(client, op="search", scope="user", query=question, mode="lexical")
            assert by_words["hits"] == [], (question, by_words)


async def shares_primes_by_sql():
    rules = '[backends.main]\nurl = "sqlite:memory.db"\n[default]\nsql_scopes = ["user"]\n[sql]\nenabled = true\n'
    (Path(FOLDER) / "memory.toml").write_text(rules)
    primes = [n for n in range(2, 4000) if all(n % d for d in range(2, int(n**0.5) + 1))][:500]
    async with connect(["--agent", "siever", "--user", "ada"]) as client:
        sql = "CREATE TABLE primes (position INTEGER PRIMARY KEY, n INTEGER NOT NULL UNIQUE)"
        await ok(client, op="sql_exec", scope="user", sql=sql)
        await ok(client, op="sql_begin", scope="user")
        for start in range(0, 500, 100):
            batch = list(enumerate(primes[start : start + 100], start + 1))
            sql = "INSERT INTO primes VALUES " + ", ".join(["(?, ?)"] * len(batch))
            done = await ok(client, op="sql_exec", scope="user", sql=sql, args=[value for row in batch for value in row])
            assert done["rows_affected"] == len(batch), done
        await ok(client, op="sql_commit", scope="user")
    async with connect(["--agent", "checker", "--user", "ada"]) as client:
        read = await ok(client, op="sql_query", scope="user", sql="SELECT n FROM primes ORDER BY position")
        found = [row[0] for row in read["rows"]]
        assert len(found) == 500 and not read["truncated"], read
        invalid = [n for n in found if n < 2 or any(n % d == 0 for d in range(2, int(n**0.5) + 1))]
        assert invalid == [], invalid
        await ok(client, op="sql_exec", scope="user", sql="CREATE TABLE checked AS SELECT n, 1 AS valid FROM primes")
        count = await ok(client, op="sql_query", scope="user", sql="SELECT count(*), sum(valid), max(n) FROM checked")
        assert count["rows"] == [[500, 500, 3571]], count
        error = await refused(client, op="sql_exec", scope="user", sql="ATTACH 'other.db' AS other")
        assert error["code"] == "statement_refused", error
        error = await refused(client, op="sql_exec", scope="agent", sql="CREATE TABLE t (a)")
        assert error["code"] == "scope_denied", error
    async with connect(["--agent", "stranger", "--user", "bob"]) as client:
        about = await ok(client, op="describe", scope="user")
        assert about["tables"] == [], about
        error = await refused(client, op="sql_query", scope="user", sql="SELECT n FROM primes")
        assert error["code"] == "invalid_argument", error


async def shares_state():
    """Two agents on one database: one notes, the other reads."""
    backend = '[backends.main]\nurl = "sqlite:memory.db"\n'
    agents = '[agents.ann]\nshared_state = "note"\n[agents.bob]\nshared_state = "read"\n'
    (Path(FOLDER) / "memory.toml").write_text(backend + agents)
    async with connect(["--agent", "ann"]) as ann, connect(["--agent", "bob"]) as bob:
        ops = (await bob.list_tools()).tools[0].input_schema["properties"]["op"]["enum"]
        assert ops == ["shared", "why", "pending", "list_scopes", "describe"], ops
        assert (await ok(bob, op="shared", bucket="issues"))["rows"] == []
        noted = await ok(ann, op="note", note="issue redis_timeout: Redis times out under load")
        assert noted["outcomes"][0]["outcome"] == "committed", noted
        await ok(ann, op="note", note="issue lint: the linter fails")
        rows = (await ok(bob, op="shared", bucket="issues"))["rows"]
        assert [row["id"] for row in rows] == ["lint", "redis_timeout"], rows
        vague = (await ok(ann, op="note", note="the earlier blocker is fixed"))["outcomes"][0]
        assert vague["outcome"] == "deferred" and len(vague["candidates"]) == 2, vague
        waits = (await ok(ann, op="pending"))["pending"]
        assert [one["id"] for one in waits] == [vague["pending_id"]], waits
        assert (await ok(bob, op="pending"))["pending"] == []
        why = await ok(bob, op="why", bucket="issues", id="redis_timeout")
        assert why["events"][0]["by"]["agent"] == "ann" and why["row"]["status"] == "open", why
        assert why["events"][0]["note"] == "issue redis_timeout: Redis times out under load", why
        error = await refused(bob, op="note", note="redis_timeout is resolved")
        assert error["code"] == "scope_denied", error
        error = await refused(ann, op="pending", bind=vague["pending_id"], target="lint")
        assert error["code"] == "forbidden", error


async def cancels_a_call():
    async with connect() as client:
        await ok(client, op="set", key="before", value=1)
        with locked():
            with anyio.move_on_after(0.3) as scope:
                await client.call_tool("memory", {"op": "set", "key": "cancelled", "value": 1})
            assert scope.cancelled_caught
            assert (await ok(client, op="get", key="before"))["value"] == 1
        await ok(client, op="set", key="after", value=1)


async def hears_of_progress():
    heard = []

    async def hear(progress, total, message):
        heard.append(progress)

    async with connect() as client:
        items = [{"key": f"k{n}", "value": "some words"} for n in range(500)]
        result = await client.call_tool("memory", {"op": "bulk_insert", "items": items}, progress_callback=hear)
        assert not result.is_error, result
        assert heard == sorted(set(heard)) and heard, heard


async def calls_concurrently():
    async with connect() as client:

        async def add(n):
            await ok(client, op="incr", key=f"n{n % 4}")

        async with anyio.create_task_group() as group:
            for n in range(100):
                group.start_soon(add, n)
        sums = [(await ok(client, op="get", key=f"n{n}"))["value"] for n in range(4)]
        assert sums == [25] * 4, sums


async def is_killed_in_mid_call():
    pid_file = Path(FOLDER) / "pid"
    script = 'echo $$ > "$0"; exec "$@"'
    arguments = ["-c", script, str(pid_file), BINARY, "serve", *OPTIONS]
    server = StdioServerParameters(command="sh", args=arguments, cwd=FOLDER)
    failed = False
    try:
        async with Client(server, mode=MODE, read_timeout_seconds=PATIENCE) as client:
            for n in range(20):
                await ok(client, op="set", key=f"k{n}", value=n)
            with locked():
                async with anyio.create_task_group() as group:
                    group.start_soon(client.call_tool, "memory", {"op": "set", "key": "in flight", "value": 1})
                    await anyio.sleep(0.2)
                    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    except BaseException as error:  # the shape of the error is the package's own
        failed = True
        print(f"the call ended with {type(error).__name__}")
    assert failed, "a call to a dead server must end with an error"
    async with connect() as client:
        for n in range(20):
            assert (await ok(client, op="get", key=f"k{n}"))["value"] == n
        assert not (await ok(client, op="get", key="in flight"))["found"]


async def signs_in_with_the_issuer_that_the_server_names():
    import httpx2
    from issuer import Issuer
    from mcp.client.auth import OAuthClientProvider
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % free.getsockname()[1]
    resource = f"http://{address}/mcp"
    section = {"issuer": Issuer.start(), "audience": resource, "resource": resource, "jwks": "jwks.json"}
    (Path(FOLDER) / "jwks.json").write_text(json.dumps(Issuer.keys()))
    rules = '[backends.main]\nurl = "sqlite:memory.db"\n[default]\nmemory_scopes = ["agent"]\n[http.jwt]\n'
    rules += "".join(f"{name} = {json.dumps(value)}\n" for name, value in section.items())
    (Path(FOLDER) / "memory.toml").write_text(rules)

    class Storage:
        tokens = client = None

        async def get_tokens(self):
            return self.tokens

        async def set_tokens(self, tokens):
            self.tokens = tokens

        async def get_client_info(self):
            return self.client

        async def set_client_info(self, client):
            self.client = client

    class Person:
        """Follows the link to the issuer, and comes back with what it says."""

        async def goes(self, url):
            async with httpx2.AsyncClient() as http:
                back = parse_qs(urlsplit((await http.get(url)).headers["Location"]).query)
            self.result = AuthorizationCodeResult(code=back["code"][0], state=back["state"][0])

        async def comes_back(self):
            return self.result

    person = Person()
    client = OAuthClientMetadata(client_name="test", redirect_uris=["http://127.0.0.1/back"], token_endpoint_auth_method="none")
    auth = OAuthClientProvider(resource, client, Storage(), person.goes, person.comes_back)
    environment = {"HOME": FOLDER, "XDG_CONFIG_HOME": FOLDER, "XDG_DATA_HOME": FOLDER}
    serve = [BINARY, "serve", "--http", address]
    process = subprocess.Popen(serve, cwd=FOLDER, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        next(line for line in iter(process.stderr.readline, "") if "listening on" in line)
        async with httpx2.AsyncClient(auth=auth, timeout=PATIENCE) as http:
            transport = streamable_http_client(resource, http_client=http)
            async with Client(transport, mode=MODE, read_timeout_seconds=PATIENCE) as session:
                await ok(session, op="set", key="k", value=1)
                assert (await ok(session, op="get", key="k"))["value"] == 1
        assert Issuer.asked == [resource], Issuer.asked
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0


anyio.run(globals()[SCENARIO])
