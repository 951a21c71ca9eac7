"""Does the work of `memory-lab compare` with one product, and prints what it took as one JSON object.

    theirs.py WORK FOLDER PRODUCT

WORK has what every product is given, FOLDER is empty and the product's own.
"""

import array
import json
import os
import re
import sqlite3
import sys
import time
from importlib.metadata import version
from pathlib import Path

WORK, FOLDER, PRODUCT = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
LIMIT = 60.0  # seconds that one kind of call may take; what is not done by then is not counted
TOP = 10


def matrix(name, width):
    numbers = array.array("f")
    numbers.frombytes((WORK / name).read_bytes())
    return [numbers[at : at + width].tolist() for at in range(0, len(numbers), width)]


work = json.loads((WORK / "work.json").read_text())
vectors, queries = matrix("vectors.f32", work["dimensions"]), matrix("queries.f32", work["dimensions"])


def vector_of(text):
    """The model: a text names its vector, wherever in it."""
    kind, number = re.search(r"\b([vq])(\d+)", text).groups()
    return (queries if kind == "q" else vectors)[int(number)]


def embed(texts):
    return [vector_of(text) for text in texts]


class Product:
    """What is not defined is not offered."""

    put = get = list = put_vector = near = words = None
    version, durability, notes = "", "", {}

    def fill(self, numbers):
        """Stores what there was no time to measure."""
        for at in numbers:
            self.put_vector(at)


def sqlite_durability(connection):
    journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
    level = connection.execute("PRAGMA synchronous").fetchone()[0]
    # In write-ahead mode only FULL and EXTRA sync each commit.
    synced = level >= 2 or (journal != "wal" and level == 1)
    return f"{journal}, synchronous={level}: " + ("each commit is synced" if synced else "commits are not synced")


class LangGraph(Product):
    def __init__(self, store):
        self.store = store
        self.version = version("langgraph-checkpoint")

    def put(self, key, value):
        self.store.put(("entries",), key, value, index=False)

    def get(self, key):
        return self.store.get(("entries",), key).value

    def list(self):
        return len(self.store.search(("entries",), limit=100))

    def put_vector(self, at):
        self.store.put(("vectors",), str(at), {"text": f"v{at}", "group": at % work["groups"]})

    def near(self, at, group):
        found = self.store.search(("vectors",), query=f"q{at}", filter={"group": group}, limit=TOP)
        return [int(item.key) for item in found]


INDEX = {"dims": work["dimensions"], "embed": embed, "fields": ["text"]}


def langgraph_memory():
    from langgraph.store.memory import InMemoryStore

    product = LangGraph(InMemoryStore(index=INDEX))
    product.durability = "in memory"
    return product


def langgraph_sqlite():
    from langgraph.store.sqlite import SqliteStore

    connection = sqlite3.connect(FOLDER / "store.db", check_same_thread=False, isolation_level=None)
    store = SqliteStore(connection, index=INDEX)
    store.setup()
    product = LangGraph(store)
    product.version = version("langgraph-checkpoint-sqlite")
    product.durability = sqlite_durability(connection)
    return product


def langgraph_postgres():
    import psycopg
    from langgraph.store.postgres import PostgresStore
    from psycopg.rows import dict_row

    url = os.environ.get("MEMORY_COMPARE_POSTGRES")
    if not url:
        raise LookupError("no server: give --postgres URL")
    connection = psycopg.connect(url, autocommit=True, prepare_threshold=0, row_factory=dict_row)
    has_vectors = connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone()
    store = PostgresStore(connection, index=INDEX if has_vectors else None)
    store.setup()
    product = LangGraph(store)
    if not has_vectors:
        product.put_vector = product.near = None
        product.notes = {"near": "the server has no pgvector"}
    product.version = version("langgraph-checkpoint-postgres")
    level = connection.execute("SHOW synchronous_commit").fetchone()["synchronous_commit"]
    synced = connection.execute("SHOW fsync").fetchone()["fsync"]
    product.durability = f"synchronous_commit={level}, fsync={synced}"
    return product


class Chroma(Product):
    durability = "its default"
    notes = {"put": "each needs a vector", "words": "a filter only, unranked"}

    def __init__(self):
        import chromadb

        self.version = version("chromadb")
        client = chromadb.PersistentClient(str(FOLDER), chromadb.Settings(anonymized_telemetry=False))
        self.all = client.create_collection(
            "entries", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )

    def put_vector(self, at):
        self.fill([at])

    def fill(self, numbers):
        for start in range(0, len(numbers), 1000):
            some = numbers[start : start + 1000]
            self.all.upsert(
                ids=[str(at) for at in some],
                embeddings=[vectors[at] for at in some],
                documents=[work["values"][at] for at in some],
                metadatas=[{"group": at % work["groups"]} for at in some],
            )

    def get(self, key):
        return json.loads(self.all.get(ids=[str(work["numbers"][key])])["documents"][0])

    def list(self):
        return len(self.all.get(limit=100)["ids"])

    def near(self, at, group):
        found = self.all.query(query_embeddings=[queries[at]], n_results=TOP, where={"group": group}, include=[])
        return [int(id) for id in found["ids"][0]]


class Mem0(Product):
    durability = "Qdrant's local mode and SQLite, its defaults"
    notes = {"put": "each needs a vector", "words": "within its search only"}

    def __init__(self):
        os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=str(FOLDER / "mem0"))
        from mem0 import Memory

        self.version = version("mem0ai")
        key = {"api_key": "none"}
        self.memory = Memory.from_config(
            {
                "vector_store": {
                    "provider": "qdrant",
                    "config": {
                        "path": str(FOLDER / "qdrant"),
                        "on_disk": True,
                        "embedding_model_dims": work["dimensions"],
                    },
                },
                "history_db_path": str(FOLDER / "history.db"),
                "embedder": {"provider": "openai", "config": key},
                "llm": {"provider": "openai", "config": key},
            }
        )
        self.memory.embedding_model.embed = lambda text, *_: vector_of(text)
        batch = lambda texts, *_: embed(texts)
        self.memory.embedding_model.embed_batch = batch
        self.ids = []

    def put_vector(self, at):
        added = self.memory.add(f"v{at}", user_id="bench", metadata={"group": at % work["groups"]}, infer=False)
        self.ids.append(added["results"][0]["id"])

    def get(self, key):
        self.memory.get(self.ids[work["numbers"][key] % len(self.ids)])["memory"]
        return None

    def list(self):
        return len(self.memory.get_all(filters={"user_id": "bench"}, top_k=100)["results"])

    def near(self, at, group):
        filters = {"user_id": "bench", "group": group}
        found = self.memory.search(f"q{at}", filters=filters, top_k=TOP, threshold=0.0)
        return [int(hit["memory"][1:]) for hit in found["results"]]


class SqliteVec(Product):
    """SQLite by hand, from Python, with two extensions."""

    def __init__(self):
        import sqlite_vec

        self.version = f"{version('sqlite-vec')} on SQLite {sqlite3.sqlite_version}"
        self.all = sqlite3.connect(FOLDER / "hand.db", isolation_level=None)
        self.all.enable_load_extension(True)
        sqlite_vec.load(self.all)
        self.all.execute("PRAGMA journal_mode = wal")
        self.durability = sqlite_durability(self.all)
        self.all.executescript(
            f"""CREATE TABLE entries (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
            CREATE VIRTUAL TABLE words USING fts5 (key UNINDEXED, value);
            CREATE VIRTUAL TABLE vectors USING vec0
                (embedding float[{work["dimensions"]}] distance_metric=cosine, grp integer)"""
        )

    def put(self, key, value):
        text = json.dumps(value)
        self.all.execute("BEGIN")
        self.all.execute("INSERT INTO entries VALUES (?, ?)", (key, text))
        self.all.execute("INSERT INTO words VALUES (?, ?)", (key, text))
        self.all.execute("COMMIT")

    def get(self, key):
        return json.loads(self.all.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()[0])

    def list(self):
        return len(self.all.execute("SELECT key, value FROM entries ORDER BY key LIMIT 100").fetchall())

    def put_vector(self, at):
        blob = array.array("f", vectors[at]).tobytes()
        self.all.execute("INSERT INTO vectors (rowid, embedding, grp) VALUES (?, ?, ?)", (at, blob, at % work["groups"]))

    def near(self, at, group):
        blob = array.array("f", queries[at]).tobytes()
        asked = "SELECT rowid FROM vectors WHERE embedding MATCH ? AND k = ? AND grp = ?"
        return [row[0] for row in self.all.execute(asked, (blob, TOP, group))]

    def words(self, text):
        asked = "SELECT key FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
        query = " OR ".join(f'"{word}"' for word in text.split())
        return [row[0] for row in self.all.execute(asked, (query, TOP))]


class OverHttp(Product):
    """`memory serve --http`, from Python."""

    def __init__(self):
        from memory_client import Client, Scope

        self.version = os.environ["MEMORY_COMPARE_VERSION"]
        self.durability = "its default: each commit is synced"
        self.client, self.scope, self.other = Client(), Scope.agent("entries"), Scope.agent("vectors")

    def put(self, key, value):
        self.client.set(self.scope, key, value)

    def get(self, key):
        return self.client.get(self.scope, key).value

    def list(self):
        return len(self.client.list(self.scope, limit=100).entries)

    def put_vector(self, at):
        self.client.set(self.other, str(at), str(at), metadata={"group": at % work["groups"]})

    def near(self, at, group):
        filter = {"eq": ["metadata.group", group]}
        hits = self.client.search(self.other, str(at), filter=filter, mode="vector", top_k=TOP)
        return [int(hit.entry.key) for hit in hits]

    def words(self, text):
        return [hit.entry.key for hit in self.client.search(self.scope, text, mode="lexical", top_k=TOP)]


PRODUCTS = {
    "memory-http": OverHttp,
    "langgraph-sqlite": langgraph_sqlite,
    "langgraph-postgres": langgraph_postgres,
    "langgraph-memory": langgraph_memory,
    "chromadb": Chroma,
    "mem0": Mem0,
    "sqlite-vec": SqliteVec,
}


def timed(calls):
    """Calls one after the other; what they returned, and how long they took."""
    answers, took, begun = [], [], time.perf_counter()
    for call in calls:
        at = time.perf_counter()
        answers.append(call())
        now = time.perf_counter()
        took.append(now - at)
        if now - begun > LIMIT:
            break
    took.sort()
    return answers, {"count": len(took), "seconds": sum(took), "p50_us": took[len(took) // 2] * 1e6}


def share(found):
    return sum(found) / len(found)


def run():
    product = PRODUCTS[PRODUCT]()
    rows, keys, values = {}, work["keys"], [json.loads(value) for value in work["values"]]
    if product.put:
        _, rows["put"] = timed(lambda at=at: product.put(keys[at], values[at]) for at in range(len(keys)))
    if product.put_vector:
        answers, rows["put_vector"] = timed(lambda at=at: product.put_vector(at) for at in range(len(vectors)))
        product.fill(range(len(answers), len(vectors)))
    if product.get:
        work["numbers"] = {key: at for at, key in enumerate(keys)}
        done = rows["put"]["count"] if product.put else len(vectors)
        asked = [at % done for at in work["gets"]]
        answers, rows["get"] = timed(lambda at=at: product.get(keys[at]) for at in asked)
        right = all(answer in (None, values[at]) for at, answer in zip(asked, answers))
        if not right:
            raise ValueError("a get returned something else than what was put")
    if product.list:
        answers, rows["list"] = timed(lambda: product.list() for _ in range(100))
        if set(answers) != {min(100, done)}:
            raise ValueError(f"a list of 100 has {set(answers)} entries")
    if product.near:
        cases = work["near"]
        answers, rows["near"] = timed(lambda c=c: product.near(c["query"], c["group"]) for c in cases)
        rows["near"]["exact"] = share([len(set(c["nearest"]) & set(a)) / TOP for c, a in zip(cases, answers)])
    if product.words:
        answers, rows["words"] = timed(lambda c=c: product.words(c["text"]) for c in work["words"])
        cases = zip(work["words"], answers)
        rows["words"]["exact"] = share([case["key"] in found for case, found in cases])
    return {"version": product.version, "durability": product.durability, "rows": rows, "notes": product.notes}


try:
    answer = run()
except Exception as error:  # Whatever it is, the other products are measured.
    answer = {"why": f"{type(error).__name__}: {error}"[:300]}
print(json.dumps(answer))
