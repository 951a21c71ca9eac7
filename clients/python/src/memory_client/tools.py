"""The Memory tool for a loop with a model of any provider: its schemas, and the answers to its calls."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple

from .errors import ClientError

_PROTOCOL = "2025-06-18"


class Answer(NamedTuple):
    """What a tool answered. A refusal is for the model, too."""

    text: str
    is_error: bool


class Tools:
    """The tools of ``memory serve``, which is started with these options, as ``Tools("--agent", "ann")``.

    Threads may share it; close it at the end. ``program`` names the command if it is not on the path.
    """

    def __init__(self, *options: str, program: str = "memory") -> None:
        self._program, self._options = program, options
        self._ids, self._lock = itertools.count(1), threading.Lock()
        self._server = subprocess.Popen(
            [program, "serve", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        client = {"name": "memory-client", "version": "0.1.0"}
        self._request("initialize", {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": client})
        self._send({"method": "notifications/initialized"})

    def __enter__(self) -> Tools:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the server, which ends its run."""
        # Closing its standard input ends it; what it still answers is read.
        self._server.communicate()

    def schemas(self, provider: str) -> list[dict[str, Any]]:
        """The tools as ``provider`` takes them: ``openai``, ``openai-chat``, ``anthropic``, ``anthropic-strict`` or ``gemini``."""
        command = [self._program, "tool-schema", "--for", provider, *self._options]
        printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=False)
        if printed.returncode:
            raise ClientError("`memory tool-schema` failed; its last words are on standard error")
        schemas: list[dict[str, Any]] = json.loads(printed.stdout)
        return schemas

    def call(self, name: str, arguments: str | Mapping[str, Any]) -> Answer:
        """The answer to a model's call; ``arguments`` as the provider gives them, a mapping or its JSON."""
        try:
            given = json.loads(arguments) if isinstance(arguments, str) else dict(arguments)
        except ValueError as error:
            return Answer(f"the arguments are not JSON: {error}", True)
        if not isinstance(given, dict):
            return Answer("the arguments are not a JSON object", True)
        result = self._request("tools/call", {"name": name, "arguments": given})
        return Answer("".join(part["text"] for part in result["content"]), bool(result.get("isError")))

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server.stdin
        try:
            self._server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            self._server.stdin.flush()
        except (BrokenPipeError, ValueError) as error:
            raise _ended() from error

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._server.stdout
        with self._lock:
            number = next(self._ids)
            self._send({"id": number, "method": method, "params": params})
            for line in self._server.stdout:
                message = json.loads(line)
                if message.get("id") != number or "method" in message:
                    continue
                if "error" in message:
                    raise ClientError(message["error"]["message"])
                result: dict[str, Any] = message["result"]
                return result
        raise _ended()


def _ended() -> ClientError:
    return ClientError("`memory serve` has ended; its last words are on standard error")
