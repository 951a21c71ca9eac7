"""The programs of examples/ in Python, as their first lines say to run them."""

from __future__ import annotations

import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading

import pytest

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"


class Claude(http.server.BaseHTTPRequestHandler):
    """Answers as the Messages API does: calls of the tool, then words."""

    CALLS = [
        {"command": "view", "path": "/memories"},
        {"command": "create", "path": "/memories/drinks.md", "file_text": "coffee"},
        {"command": "view", "path": "/memories/none.md"},
    ]
    results: list[dict[str, object]] = []

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = request["messages"][-1]["content"]
        self.results.extend(part for part in said if isinstance(part, dict) and part["type"] == "tool_result")
        reply = {"id": "m", "type": "message", "role": "assistant", "model": request["model"], "stop_sequence": None}
        if len(self.results) < len(self.CALLS):
            call = self.CALLS[len(self.results)]
            content = {"type": "tool_use", "id": f"call_{len(self.results)}", "name": "memory", "input": call}
            reply |= {"content": [content], "stop_reason": "tool_use"}
        else:
            reply |= {"content": [{"type": "text", "text": "Noted."}], "stop_reason": "end_turn"}
        body = json.dumps({**reply, "usage": {"input_tokens": 1, "output_tokens": 1}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *_: object) -> None:
        pass


def run(folder: str, program: str, server, home: pathlib.Path, *words: str, **variables: str) -> str:
    path = os.pathsep.join([str(pathlib.Path(server.binary).parent), os.environ["PATH"]])
    source = str(pathlib.Path(__file__).parents[1] / "src")
    ran = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", str(EXAMPLES / folder / program), *words], cwd=home,
        env={**server.environment, "HOME": str(home), "PATH": path, "PYTHONPATH": source, **variables},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_claude_s_memory_tool_is_answered_as_its_documentation_says(server, tmp_path):
    pytest.importorskip("anthropic")
    printed = run("anthropic-memory-tool", "memory_tool.py", server, tmp_path)
    assert "every command was answered as its documentation says" in printed


def test_a_conversation_with_claude_uses_its_memory_tool(server, tmp_path):
    pytest.importorskip("anthropic")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Claude) as claude:
        threading.Thread(target=claude.serve_forever, daemon=True).start()
        printed = run(
            "anthropic-memory-tool", "memory_tool.py", server, tmp_path, "Remember that I like coffee",
            ANTHROPIC_API_KEY="none", ANTHROPIC_BASE_URL=f"http://127.0.0.1:{claude.server_port}",
        )  # fmt: skip
        claude.shutdown()
    assert printed == "Noted.\n"
    created, missing = Claude.results[1], Claude.results[2]
    assert created["content"] == "File created successfully at: /memories/drinks.md"
    assert missing["is_error"] and "does not exist" in str(missing["content"])


def test_a_loop_of_openai_s_calls_is_answered(server, tmp_path):
    pytest.importorskip("openai")
    assert run("tool-loop", "tool_loop.py", server, tmp_path) == "I remember coffee.\n"
