#!/usr/bin/env python3
"""Claude's memory tool (`memory_20250818`), kept by the command `memory`.

    pip install anthropic ./clients/python
    python3 examples/anthropic-memory-tool/memory_tool.py      # every command once, without a model
    python3 examples/anthropic-memory-tool/memory_tool.py "Remember that I like coffee"      # needs ANTHROPIC_API_KEY

`MemoryFiles` is what a program needs. The command `memory` must be on the path; the store is the one of `memory config`, and
MEMORY_URL names another.
"""

import sys

from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaAbstractMemoryTool
from memory_client.tools import Tools


class MemoryFiles(BetaAbstractMemoryTool):
    """The files of an agent."""

    def __init__(self, tools):
        super().__init__()
        self._tools = tools

    def execute(self, command):
        answer = self._tools.call("memory_files", command.model_dump(exclude_none=True))
        if answer.is_error:
            raise ToolError(answer.text)
        return answer.text

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
        model="claude-sonnet-5-5", max_tokens=2048, tools=[memory],
        messages=[{"role": "user", "content": words}], betas=["context-management-2025-06-27"])
    for block in runner.until_done().content:
        if block.type == "text":
            print(block.text)


if __name__ == "__main__":
    with Tools("--tools", "files", "--agent", "claude", "--user", "ada") as tools:
        memory = MemoryFiles(tools)
        converse(memory, sys.argv[1]) if len(sys.argv) > 1 else each_command_once(memory)
