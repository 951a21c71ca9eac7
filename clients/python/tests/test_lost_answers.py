"""What happens when the network fails: a proxy between client and server loses answers."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from memory_client import BadReply, Client, OutcomeUnknown, Timeout
from memory_client.client import new_entry


class Proxy:
    """Passes each request on, and its answer unless told to do something else with it."""

    def __init__(self, port: int) -> None:
        self.port, self.requests = port, []
        #: For each answer in turn: ``None`` passes it on, ``b""`` closes, other bytes are sent instead.
        self.script: list[bytes | None] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def serve(self) -> None:
        while True:
            try:
                accepted, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.pass_on, args=(accepted,), daemon=True).start()

    def pass_on(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self.port)) as server:
            while True:
                request = message(client)
                if not request:
                    return
                self.requests.append(request)
                server.sendall(request)
                answer = message(server)
                instead = self.script.pop(0) if self.script else None
                client.sendall(answer if instead is None else instead)
                if instead is not None:
                    return

    def keys(self) -> list[bytes]:
        return [line for request in self.requests for line in request.split(b"\r\n") if b"idempotency-key" in line.lower()]


def message(stream: socket.socket) -> bytes:
    """One HTTP message with a ``Content-Length``."""
    text = b""
    while b"\r\n\r\n" not in text:
        part = stream.recv(65536)
        if not part:
            return b""
        text += part
    head, _, body = text.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += stream.recv(65536)
    return head + b"\r\n\r\n" + body


@pytest.fixture
def proxy(server):
    proxy = Proxy(server.port)
    yield proxy
    proxy.listener.close()


def test_a_read_is_repeated(proxy, server, client, scope):
    client.set(scope, "k", 1)
    proxy.script = [b"", b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"]
    with Client(proxy.url, server.token) as through:
        assert through.get(scope, "k").value == 1
    assert len(proxy.requests) == 3


def test_a_write_whose_answer_is_lost_is_not_repeated_and_its_outcome_is_unknown(proxy, server, client, scope):
    for lost in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", b"HTTP/1.1 502 Bad\r\nContent-Length: 0\r\n\r\n"):
        proxy.script = [lost]
        before = len(proxy.requests)
        with Client(proxy.url, server.token) as through, pytest.raises(OutcomeUnknown) as unknown:
            through.increment(scope, "n")
        assert len(proxy.requests) == before + 1
        assert unknown.value.idempotency_key.encode() in proxy.keys()[-1]
    assert client.get(scope, "n").value == 3
    # With its key, it is the same write.
    assert client.increment(scope, "n", idempotency_key=unknown.value.idempotency_key) == 3
    assert client.get(scope, "n").value == 3


def test_a_lost_write_may_be_repeated_with_its_key_if_the_caller_says_so(proxy, server, client, scope):
    proxy.script = [b"", b""]
    with Client(proxy.url, server.token, repeat_lost_writes=True) as through:
        assert through.increment(scope, "n") == 1
    assert len(proxy.requests) == 3
    assert len(set(proxy.keys())) == 1
    assert client.get(scope, "n").value == 1


def test_a_write_that_expects_a_version_is_repeated(proxy, server, client, scope):
    proxy.script = [b""]
    with Client(proxy.url, server.token) as through:
        assert through.set(scope, "k", 1, if_absent=True).version == 1
    assert len(proxy.requests) == 2
    assert client.get(scope, "k").version == 1


def test_a_refusal_after_a_lost_answer_proves_nothing(proxy, server, client, scope):
    conflict = b'{"error":{"code":"conflict","message":"another version","details":{},"retryable":true}}'
    proxy.script = [b"", b"HTTP/1.1 409 Conflict\r\nContent-Length: %d\r\n\r\n%s" % (len(conflict), conflict)]
    with Client(proxy.url, server.token) as through, pytest.raises(OutcomeUnknown):
        through.set(scope, "k", 1, if_absent=True)
    assert client.get(scope, "k").value == 1


def test_a_batch_with_a_write_is_never_repeated(proxy, server, client, scope):
    proxy.script = [b""]
    call = ("increment", {"scope": scope.to_wire(), "key": "n", "delta": 1})
    with Client(proxy.url, server.token, repeat_lost_writes=True) as through, pytest.raises(OutcomeUnknown):
        through.batch([call])
    assert client.get(scope, "n").value == 1


def test_a_refusal_for_now_is_waited_for(proxy, server, client, scope):
    busy = b'{"error":{"code":"unavailable","message":"busy","details":{},"retryable":true,"retry_after_ms":50}}'
    proxy.script = [b"HTTP/1.1 503 Busy\r\nContent-Length: %d\r\n\r\n%s" % (len(busy), busy)]
    with Client(proxy.url, server.token) as through:
        assert through.set(scope, "k", 1).version == 1
    assert len(proxy.requests) == 2


def test_an_answer_that_never_comes_ends_the_call_in_time(server, scope):
    silent = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{silent.getsockname()[1]}"
    started = time.monotonic()
    with Client(url, server.token, timeout=0.2) as client:
        with pytest.raises(Timeout):
            client.get(scope, "k")
        with pytest.raises(OutcomeUnknown):
            client.set(scope, "k", 1)
    assert time.monotonic() - started < 5
    silent.close()


def test_an_answer_that_drips_ends_the_call_in_time(server, scope):
    dripping = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        stream, _ = dripping.accept()
        try:
            stream.sendall(b"HTTP/1.1 200 OK\r\n")
            while True:
                stream.sendall(b"X: y\r\n")
                time.sleep(0.05)
        except OSError:
            pass

    threading.Thread(target=drip, daemon=True).start()
    with Client(f"http://127.0.0.1:{dripping.getsockname()[1]}", server.token, timeout=0.3) as client:
        with pytest.raises(Timeout):
            client.get(scope, "k")
    dripping.close()


def test_a_reply_that_is_too_large_or_too_deep_is_refused_and_not_asked_for_again(proxy, server, client, scope):
    client.set(scope, "k", "x" * 5000)
    with Client(proxy.url, server.token, max_reply_bytes=4096) as through, pytest.raises(BadReply, match="4096 bytes"):
        through.get(scope, "k")
    deep = b"[" * 200_000
    proxy.script = [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(deep), deep)]
    with Client(proxy.url, server.token) as through, pytest.raises(BadReply):
        through.get(scope, "k")
    assert len(proxy.requests) == 2


def test_a_reply_of_another_shape_is_a_bad_reply_and_after_a_write_its_outcome_is_unknown(proxy, server, run, scope):
    def answer(body: bytes, status: bytes = b"200 OK") -> bytes:
        return b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)

    item = new_entry("k", 1)
    reads = [
        lambda c: c.get_many(scope, ["k"]), lambda c: c.list(scope), lambda c: c.search(scope, "x"),
        lambda c: c.recall(run, scope, "x"), lambda c: c.facts(run, scope), lambda c: c.query(run, scope, "SELECT 1"),
    ]  # fmt: skip
    writes = [
        lambda c: c.set(scope, "k", 1), lambda c: c.increment(scope, "k"), lambda c: c.delete(scope, "k"),
        lambda c: c.bulk_insert(scope, [item]), lambda c: c.update(scope, "k", {"merge": {}}),
        lambda c: c.add(run, scope, "x"), lambda c: c.forget(run, scope, "all"),
        lambda c: c.exec(run, scope, "CREATE TABLE IF NOT EXISTS t (x)"),
        lambda c: c.batch([("set", {"scope": scope.to_wire(), **item})]),
    ]  # fmt: skip
    with Client(proxy.url, server.token) as through:
        for body in (b"{}", b"null", b"[{}]", b'"x"', b"7", b"[7]"):
            for calls, error in ((reads, BadReply), (writes, OutcomeUnknown)):
                for call in calls:
                    proxy.script, before = [answer(body)], len(proxy.requests)
                    with pytest.raises(error, match="another shape"):
                        call(through)
                    assert len(proxy.requests) == before + 1
        for body in (b"[]", b'{"key":"k"}', b'{"key":"k","value":1,"version":1,"created_at":7,"updated_at":7}'):
            proxy.script = [answer(body)]
            with pytest.raises(BadReply):
                through.get(scope, "k")
        for millis in (b"-5", b"NaN", b"1e400", b"1" + b"0" * 400):
            refusal = b'{"error":{"code":"unavailable","message":"busy","retry_after_ms":%s}}' % millis
            proxy.script = [answer(refusal, b"503 Busy")]
            assert through.get(scope, "never") is None


def test_a_connection_that_the_server_closed_is_not_used_again(server, scope):
    with server.client() as client:
        client.set(scope, "k", 1)
        server.stop()
        server.start()
        assert client.set(scope, "k", 2).version == 2
