"""The programs of examples/ in Python, as their first lines say to run them."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"


def test_claude_s_memory_tool_is_answered_as_its_documentation_says(server, tmp_path):
    pytest.importorskip("anthropic")
    program = EXAMPLES / "anthropic-memory-tool" / "memory_tool.py"
    path = os.pathsep.join([str(pathlib.Path(server.binary).parent), os.environ["PATH"]])
    ran = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path, env={**server.environment, "HOME": str(tmp_path), "PATH": path},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "every command was answered as its documentation says" in ran.stdout
