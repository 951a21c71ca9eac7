#!/usr/bin/env python3
"""Claude's memory tool (`memory_20250818`), kept by the command `memory`.

    pip install anthropic
    python3 memory_tool.py            # every command once, without a model
    python3 memory_tool.py "Remember that I like coffee"      # a conversation; needs ANTHROPIC_API_KEY

`MemoryFiles` is what a program needs: it starts `memory serve --tools files` and hands each command on to it. The store is
the one of `memory config`; MEMORY_URL names another.
"""

import itertools
import json
import subprocess
import sys
import threading

from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaAbstractMemoryTool

PROTOCOL = "2025-06-18"


class MemoryFiles(BetaAbstractMemoryTool):
    """The files of an agent. Threads may share it; close it at the end."""

    def __init__(self, agent, *options, program="memory"):
        super().__init__()
        self._server = subprocess.Popen(
            [program, "serve", "--tools", "files", "--agent", agent, *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
        self._ids, self._lock = itertools.count(1), threading.Lock()
        self._request("initialize", {"protocolVersion": PROTOCOL, "capabilities": {},
                                     "clientInfo": {"name": "anthropic-memory-tool", "version": "1"}})
        self._send({"method": "notifications/initialized"})

    def close(self):
        self._server.stdin.close()
        self._server.wait(timeout=10)
        self._server.stdout.close()

    def _send(self, message):
        self._server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._server.stdin.flush()

    def _request(self, method, params):
        with self._lock:
            number = next(self._ids)
            self._send({"id": number, "method": method, "params": params})
            for line in self._server.stdout:
                message = json.loads(line)
                if message.get("id") == number and "method" not in message:
                    if "error" in message:
                        raise RuntimeError(message["error"]["message"])
                    return message["result"]
        raise RuntimeError("`memory serve` has ended; its last words are on standard error")

    def execute(self, command):
        arguments = command.model_dump(exclude_none=True)
        result = self._request("tools/call", {"name": "memory_files", "arguments": arguments})
        text = result["content"][0]["text"]
        if result["isError"]:
            raise ToolError(text)
        return text

    view = create = str_replace = insert = delete = rename = execute


def each_command_once(memory):
    def does(**command):
        return memory.call(command)

    def refuses(**command):
        try:
            memory.call(command)
        except ToolError as error:
            return str(error)
        raise AssertionError(f"not refused: {command}")

    folder = "/memories/example"
    if "does not exist" not in (left := memory_or_text(memory, folder)):
        does(command="delete", path=folder)
        print("removed what an earlier run left:", left.splitlines()[-1])
    path = f"{folder}/notes.md"
    created = does(command="create", path=path, file_text="likes tea\nlives in Oslo\n")
    assert created == f"File created successfully at: {path}", created
    assert refuses(command="create", path=path, file_text="") == f"Error: File {path} already exists"
    assert does(command="view", path=path, view_range=[1, 1]).endswith("\n     1\tlikes tea")
    edited = does(command="str_replace", path=path, old_str="tea", new_str="coffee")
    assert edited.startswith("The memory file has been edited.") and "     1\tlikes coffee" in edited, edited
    assert does(command="insert", path=path, insert_line=1, insert_text="plays chess\n") == f"The file {path} has been edited."
    moved = f"{folder}/people/ada.md"
    assert does(command="rename", old_path=path, new_path=moved) == f"Successfully renamed {path} to {moved}"
    assert f"\t{moved}" in does(command="view", path=folder)
    assert "Path must start with /memories" in refuses(command="view", path="/etc/passwd")
    print(does(command="view", path=moved))
    assert does(command="delete", path=folder) == f"Successfully deleted {folder}"
    print("every command was answered as its documentation says")


def memory_or_text(memory, path):
    try:
        return memory.call({"command": "view", "path": path})
    except ToolError as error:
        return str(error)


def converse(memory, words):
    from anthropic import Anthropic

    runner = Anthropic().beta.messages.tool_runner(
        model="claude-sonnet-4-5", max_tokens=2048, tools=[memory],
        messages=[{"role": "user", "content": words}], betas=["context-management-2025-06-27"])
    for block in runner.until_done().content:
        if block.type == "text":
            print(block.text)


if __name__ == "__main__":
    memory = MemoryFiles("claude", "--user", "ada")
    try:
        converse(memory, sys.argv[1]) if len(sys.argv) > 1 else each_command_once(memory)
    finally:
        memory.close()
