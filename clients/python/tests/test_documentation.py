"""The programs of docs/python.md, as they stand."""

from __future__ import annotations

import http.server
import os
import pathlib
import re
import runpy
import threading

import pytest

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "python.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
SHOWN = [
    ["2 read it and decide again", "['plan']", "1", "We had dinner at the harbour in Lisbon"],
    ["I remember coffee."],
    ["'likes': 'tea', 'cups': 3", "[('users', 'ada')]"],
    ["'memory': 'I play tennis in Bergen'"],
]


def test_every_program_is_run():
    assert len(PROGRAMS) == len(SHOWN)


@pytest.fixture
def stand_in():
    """The URL of what answers in place of OpenAI's model."""
    example = PAGE.parents[1] / "examples" / "tool-loop" / "tool_loop.py"
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), runpy.run_path(str(example))["StandIn"]) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


@pytest.mark.parametrize(("program", "shown"), zip(PROGRAMS, SHOWN, strict=False))
def test_a_program_prints_what_it_should(program, shown, server, tmp_path, monkeypatch, capsys, request):
    if "langgraph" in program:
        pytest.importorskip("langgraph.store.base")
    monkeypatch.setenv("MEMORY_URL", server.url)
    monkeypatch.setenv("MEMORY_TOKEN", server.make_token("default"))
    if "openai" in program:
        pytest.importorskip("openai")
        monkeypatch.setenv("OPENAI_BASE_URL", request.getfixturevalue("stand_in"))
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("MEMORY_URL", f"sqlite:{tmp_path / 'memory.db'}")
        monkeypatch.setenv("PATH", os.pathsep.join([str(pathlib.Path(server.binary).parent), os.environ["PATH"]]))
    exec(compile(program, str(PAGE), "exec"), {})
    lines = capsys.readouterr().out
    assert [part for part in shown if part not in lines] == []
