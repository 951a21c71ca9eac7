"""The programs of docs/python.md, as they stand."""

from __future__ import annotations

import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "python.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
SHOWN = [
    ["2 read it and decide again", "['plan']", "1", "We had dinner at the harbour in Lisbon"],
    ["'likes': 'tea', 'cups': 3", "[('users', 'ada')]"],
    ["'memory': 'I play tennis in Bergen'"],
]


def test_every_program_is_run():
    assert len(PROGRAMS) == len(SHOWN)


@pytest.mark.parametrize(("program", "shown"), zip(PROGRAMS, SHOWN, strict=False))
def test_a_program_prints_what_it_should(program, shown, server, monkeypatch, capsys):
    if "langgraph" in program:
        pytest.importorskip("langgraph.store.base")
    monkeypatch.setenv("MEMORY_URL", server.url)
    monkeypatch.setenv("MEMORY_TOKEN", server.make_token("default"))
    exec(compile(program, str(PAGE), "exec"), {})
    lines = capsys.readouterr().out
    assert [part for part in shown if part not in lines] == []
