"""LangGraph's own tests of stores, on ``MemoryStore``: those of ``langgraph-checkpoint`` and of ``langgraph-checkpoint-sqlite``.

``MEMORY_LANGGRAPH_SUITES`` is a folder with their source distributions, unpacked. In place of their stores they get a
``MemoryStore`` on a scope of its own. A test is skipped if it gives the store vectors of the caller's, which the server makes
itself, and left out if it is about another store (``LEFT_OUT``).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import sys
import types
import uuid

import pytest

base = pytest.importorskip("langgraph.store.base")
FOLDER = os.environ.get("MEMORY_LANGGRAPH_SUITES")
if not FOLDER:
    pytest.skip("no MEMORY_LANGGRAPH_SUITES", allow_module_level=True)

from memory_client import Client, Scope  # noqa: E402
from memory_client.langgraph import MemoryStore  # noqa: E402

LEFT_OUT = {
    "test_escape_glob_literal": "a function of SqliteStore",
    "test_namespace_match_pattern": "a function of SqliteStore",
    "test_list_namespaces_prefix_uses_indexable_condition": "a statement of SqliteStore",
    "test_nonnull_migrations": "the schema of SqliteStore",
    "test_sql_injection_vulnerability": "a key of a filter is no SQL here, so none is refused",
    "test_filter_keys_with_hyphens_and_digits": "dotted keys in filters are SqliteStore's own; InMemoryStore has none",
}
SERVED: list[Client] = []


@pytest.fixture(autouse=True, scope="module")
def serve(client):
    SERVED[:] = [client]


class StandIn(MemoryStore):
    """Made as the other stores are."""

    def __init__(self, index: object = None, ttl: object = None) -> None:
        if index is not None:
            pytest.skip("the server makes the vectors")
        super().__init__(SERVED[0], Scope.agent(uuid.uuid4().hex, "acme"), ttl=ttl)

    @classmethod
    @contextlib.contextmanager
    def from_conn_string(cls, _: str, *, index: object = None, ttl: object = None):
        yield cls(index, ttl)

    def setup(self) -> None:
        """Nothing to set up."""


def load(folder: str, name: str, stand_ins: dict[str, dict[str, object]]) -> types.ModuleType:
    """Imports a file of tests while other modules stand in for the stores that it names."""
    root = next(found for found in pathlib.Path(FOLDER).glob(f"{folder}-[0-9]*") if found.is_dir())
    before = {module: sys.modules.get(module) for module in (*stand_ins, "tests")}
    sys.path.insert(0, str(root))
    for module, names in stand_ins.items():
        sys.modules[module] = types.ModuleType(module)
        vars(sys.modules[module]).update(names)
    sys.modules.pop("tests", None)
    try:
        spec = importlib.util.spec_from_file_location(f"{folder}_{name}", root / "tests" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(root))
        for module_name, old in before.items():
            sys.modules.pop(module_name, None)
            if old is not None:
                sys.modules[module_name] = old


def taken(module: types.ModuleType, prefix: str) -> dict[str, object]:
    """The tests and fixtures of a module under names of this one."""
    found = {}
    for name, value in vars(module).items():
        if name in LEFT_OUT:
            continue
        if name.startswith("test_"):
            found[f"test_{prefix}_{name[5:]}"] = value
        elif name.startswith("Test"):
            found[f"Test{prefix.title()}{name[4:]}"] = value
        elif type(value).__name__ == "FixtureFunctionDefinition" or hasattr(value, "_pytestfixturefunction"):
            found[name] = value
    return found


IN_MEMORY = {"langgraph.store.memory": {"InMemoryStore": StandIn}}
SQLITE = {
    "langgraph.store.sqlite": {"SqliteStore": StandIn},
    "langgraph.store.sqlite.base": dict.fromkeys(
        ("NS_MATCH_FUNCTION", "BaseSqliteStore", "SqliteIndexConfig", "_escape_glob_literal", "_namespace_match_pattern")
    ),
}
globals().update(taken(load("langgraph_checkpoint", "test_store", IN_MEMORY), "memory"))
globals().update(taken(load("langgraph_checkpoint_sqlite", "test_store", SQLITE), "sqlite"))
