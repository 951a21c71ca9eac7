"""The same client for asyncio."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from .client import Client
from .errors import Unreachable
from .types import Entry, Filter, Scope

P = ParamSpec("P")
R = TypeVar("R")


def _awaitable(
    method: Callable[Concatenate[Client, P], R],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, R]]:
    @functools.wraps(method)
    async def call(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> R:
        context = contextvars.copy_context()
        work = functools.partial(context.run, method, self._client, *args, **kwargs)
        try:
            running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        except RuntimeError as error:
            raise Unreachable("the client is closed; make another") from error
        return await running

    return call


class AsyncClient:
    """:class:`Client` for asyncio, with the same arguments; each call in flight uses one of ``connections`` threads.

    A call that is cancelled is not awaited any more, but what was sent may be done.
    """

    def __init__(self, *args: Any, connections: int = 16, **kwargs: Any) -> None:
        self._client = Client(*args, **kwargs)
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="memory-client")

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)
        self._client.close()

    call = _awaitable(Client.call)
    capabilities = _awaitable(Client.capabilities)
    batch = _awaitable(Client.batch)
    get = _awaitable(Client.get)
    get_many = _awaitable(Client.get_many)
    set = _awaitable(Client.set)
    bulk_insert = _awaitable(Client.bulk_insert)
    delete = _awaitable(Client.delete)
    list = _awaitable(Client.list)
    increment = _awaitable(Client.increment)
    update = _awaitable(Client.update)
    search = _awaitable(Client.search)
    add = _awaitable(Client.add)
    recall = _awaitable(Client.recall)
    facts = _awaitable(Client.facts)
    forget = _awaitable(Client.forget)
    exec = _awaitable(Client.exec)
    query = _awaitable(Client.query)
    begin = _awaitable(Client.begin)
    commit = _awaitable(Client.commit)
    rollback = _awaitable(Client.rollback)

    async def entries(self, scope: Scope, *, prefix: str = "", filter: Filter | None = None) -> AsyncIterator[Entry]:
        """Every entry, page by page."""
        cursor = None
        while True:
            page = await self.list(scope, prefix=prefix, filter=filter, limit=1000, cursor=cursor)
            for entry in page.entries:
                yield entry
            cursor = page.next
            if cursor is None:
                return
