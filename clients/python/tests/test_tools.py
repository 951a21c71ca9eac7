"""The tools of `memory serve` for a loop with a model."""

from __future__ import annotations

import json
import pathlib

import pytest

from memory_client import ClientError
from memory_client.tools import Tools


@pytest.fixture
def start(server, tmp_path, monkeypatch):
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    for name in ("MEMORY_TOKEN", "MEMORY_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return lambda *options: Tools("--agent", "ann", *options, program=server.binary)


def test_a_call_is_answered_as_a_mapping_and_as_its_json(start):
    with start() as tools:
        assert not tools.call("memory", {"op": "set", "key": "k", "value": "ü"}).is_error
        answer = tools.call("memory", json.dumps({"op": "get", "key": "k"}))
        assert json.loads(answer.text)["value"] == "ü"


def test_what_a_model_gets_wrong_is_answered_and_not_raised(start):
    with start() as tools:
        for arguments in ('{"op":', "[1]", {"op": "nonsense"}):
            answer = tools.call("memory", arguments)
            assert answer.is_error and answer.text


def test_the_schemas_are_those_of_the_tools_that_are_served(start):
    with start("--tools", "memory,files") as tools:
        for provider in ("openai", "anthropic", "gemini"):
            assert [schema["name"] for schema in tools.schemas(provider)] == ["memory", "memory_files"]
        with pytest.raises(ClientError, match="standard error"):
            tools.schemas("nobody")


def test_a_server_that_does_not_start_or_has_ended_is_an_error(start, tmp_path):
    with pytest.raises(ClientError, match="has ended"):
        start("--config", str(pathlib.Path(tmp_path) / "absent.toml"))
    tools = start()
    tools.close()
    with pytest.raises(ClientError, match="has ended"):
        tools.call("memory", {"op": "list"})
