"""A real server for the tests: the binary of ``MEMORY_BINARY``, or the workspace's debug build."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import uuid

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))

from memory_client import Client, Run, Scope  # noqa: E402

RULES = """
[backends.main]
url = "sqlite:memory.db"
[default]
memory_scopes = ["agent", "user", "run"]
sql_scopes = ["agent", "run"]
[sql]
enabled = true
"""


class Server:
    """``memory serve --http`` on a free port, in a folder of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        built = HERE.parents[2] / "target" / "debug" / "memory"
        self.binary = os.environ.get("MEMORY_BINARY") or str(built)
        self.folder = folder
        self.port = 0
        (folder / "memory.toml").write_text(RULES)
        self.token = self.make_token("acme")
        self.start()

    def make_token(self, tenant: str) -> str:
        made = subprocess.run(
            [self.binary, "--json", "token", "create", uuid.uuid4().hex, "--tenant", tenant],
            cwd=self.folder, env=self.environment, capture_output=True, check=True, timeout=60,
        )  # fmt: skip
        return str(json.loads(made.stdout)["token"])

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_")}
        return {**kept, "HOME": str(self.folder)}

    def start(self) -> None:
        self.process = subprocess.Popen(
            [self.binary, "serve", "--http", f"127.0.0.1:{self.port}"],
            cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stderr
        seen = ""
        for line in self.process.stderr:
            seen += line
            if line.startswith("memory: listening on "):
                self.port = int(line.strip().rpartition(":")[2])
                return
        raise AssertionError(f"the server did not start: {seen}")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, **options: object) -> Client:
        return Client(self.url, self.token, **options)  # type: ignore[arg-type]

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=30)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory):
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def client(server: Server):
    with server.client() as client:
        yield client


@pytest.fixture
def scope() -> Scope:
    """A scope that no other test uses."""
    return Scope.agent(uuid.uuid4().hex, "acme")


@pytest.fixture
def run(scope: Scope) -> Run:
    return Run(agent=scope.id, run=f"run-{scope.id}", tenant="acme")
