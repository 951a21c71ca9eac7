"""The programs of examples/ in Python, as their first lines say to run them."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"


def run(folder: str, program: str, server, home: pathlib.Path) -> str:
    path = os.pathsep.join([str(pathlib.Path(server.binary).parent), os.environ["PATH"]])
    source = str(pathlib.Path(__file__).parents[1] / "src")
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / folder / program)],
        cwd=home, env={**server.environment, "HOME": str(home), "PATH": path, "PYTHONPATH": source},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_claude_s_memory_tool_is_answered_as_its_documentation_says(server, tmp_path):
    pytest.importorskip("anthropic")
    printed = run("anthropic-memory-tool", "memory_tool.py", server, tmp_path)
    assert "every command was answered as its documentation says" in printed


def test_a_loop_of_openai_s_calls_is_answered(server, tmp_path):
    pytest.importorskip("openai")
    assert run("tool-loop", "tool_loop.py", server, tmp_path) == "I remember coffee.\n"
