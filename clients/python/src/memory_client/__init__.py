"""Client of the HTTP API of ``memory serve --http``."""

from .aio import AsyncClient
from .client import Client, new_entry
from .errors import *  # noqa: F403
from .errors import __all__ as _errors
from .types import Added, Entry, Executed, Fact, Forgotten, Hit, Number, Page, Rows, Run, Scope, SetResult

__all__ = [
    "Added", "AsyncClient", "Client", "Entry", "Executed", "Fact", "Forgotten", "Hit", "Number", "Page", "Rows", "Run",
    "Scope", "SetResult", "new_entry", *_errors,
]  # fmt: skip
