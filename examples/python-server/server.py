#!/usr/bin/env python3
"""A server of the API /v1 in Python, with the standard library alone: the key/value part, in memory.

    python3 server.py 8000 [--test-clock]

It shows what docs/http-api.md asks of a server in another language, and passes the key/value cases of
`memory-lab conformance --allow-host localhost:8000 --url memory+http://localhost:8000`, for which it needs --test-clock.
"""

import base64
import decimal
import hashlib
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME = "python-example"
CAPABILITIES = {
    "kv": True, "lexical_search": False, "vector_search": False, "stats": False, "compare_and_set": False,
    "quotas": False, "memory_layer": False, "layer_sync": False, "layer_events": False, "layer_forget": False,
    "sql": False, "sql_dialect": None, "sql_transactions": False, "sql_vectors": False, "sql_entries": False,
    "shared_schemas": False, "consistency": "read_your_writes", "embedding": "none",
    "max_key_bytes": 1024, "max_value_bytes": 1 << 20, "max_top_k": 1000,
}
KINDS = ["agent", "user", "run"]
STATUS = {"invalid_argument": 400, "not_found": 404, "conflict": 409, "too_large": 413, "wrong_type": 422,
          "capability_unsupported": 501, "vector_unsupported": 501, "unavailable": 503, "internal": 500}
MAX_BODY = 80 << 20
MAX_DEPTH = 128
MAX_PAGE_BYTES = 8 << 20
I64 = range(-(1 << 63), 1 << 63)


class Refused(Exception):
    """An error as the client rebuilds it."""

    def __init__(self, code, message, **details):
        super().__init__(message)
        self.code, self.details = code, details

    def text(self):
        retryable = self.code in ("conflict", "unavailable")
        return json.dumps({"error": {"code": self.code, "message": str(self), "details": self.details,
                                     "retryable": retryable}})


def invalid(message):
    return Refused("invalid_argument", message)


def unsupported(op, arguments=None):
    by_meaning = op == "reembed" or (
        op == "search" and json.loads(arguments.get("query", "{}")).get("mode") in ("vector", "hybrid"))
    if by_meaning:
        return Refused("vector_unsupported", f"provider `{NAME}` serves no vectors", operation=op, provider=NAME)
    return Refused("capability_unsupported", f"provider `{NAME}` does not serve `{op}`", operation=op, provider=NAME)


# JSON as text. A value is never rewritten, so that large integers and the spelling of numbers survive.

def no_constant(name):
    raise ValueError(name)


DECODER = json.JSONDecoder(parse_float=decimal.Decimal, parse_int=decimal.Decimal, parse_constant=no_constant)
SPACE = " \t\n\r"


def skip(text, at):
    while at < len(text) and text[at] in SPACE:
        at += 1
    return at


def spans(text, close):
    """The members of an object, or the elements of an array: name, where it begins, and where its value begins and ends."""
    at = skip(text, skip(text, 0) + 1)
    while text[at] != close:
        name, begin = None, at
        if close == "}":
            name, end = DECODER.raw_decode(text, at)
            at = skip(text, skip(text, end) + 1)
        _, end = DECODER.raw_decode(text, at)
        yield name, begin, at, end
        at = skip(text, end)
        if text[at] == ",":
            at = skip(text, at + 1)


def members(text):
    """An object's members by name, each as text; of a repeated name the last."""
    if not text.lstrip(SPACE).startswith("{"):
        raise invalid("an object is expected")
    return {name: text[begin:end] for name, _, begin, end in spans(text, "}")}


def elements(text):
    return [text[begin:end] for _, _, begin, end in spans(text, "]")]


def same(value):
    """A value as a key of a set: equal if the meaning is, numbers exactly."""
    if isinstance(value, dict):
        return ("o", frozenset((name, same(of)) for name, of in value.items()))
    if isinstance(value, list):
        return ("a", tuple(same(of) for of in value))
    return (type(value).__name__, value)


def meaning(text):
    return same(DECODER.decode(text))


def depth(text):
    deepest = level = 0
    inside = escaped = False
    for char in text:
        if inside:
            inside = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            inside = True
        elif char in "[{":
            level += 1
            deepest = max(deepest, level)
        elif char in "]}":
            level -= 1
    return deepest


def merge(text, patch):
    """The text with the patch's members in place; everything else keeps its text, white space included."""
    if not text.startswith("{") or not patch.startswith("{"):
        return patch
    changes, found = members(patch), list(spans(text, "}"))
    last = {name: index for index, (name, *_) in enumerate(found)}
    merged, at = "", 0
    for index, (name, begin, value, end) in enumerate(found):
        if name in changes and last[name] == index:
            merged += text[at:value] + merge(text[value:end], changes[name])
            at = end
        elif name in changes:
            merged += text[at:begin]
            at = found[index + 1][1]
    end = found[-1][3] if found else skip(text, 0) + 1
    merged, rest = merged + text[at:max(at, end)], text[max(at, end):]
    new = [f"{json.dumps(name)}:{value}" for name, value in changes.items() if name not in last]
    return merged + ("," if found and new else "") + ",".join(new) + rest


# The store.

class Entry:
    def __init__(self, key, value, version, now):
        self.key, self.value, self.version = key, value, version
        self.metadata, self.source, self.text = "{}", None, None
        self.created = self.updated = now
        self.expires, self.accesses = None, 0

    def live(self, now):
        return self.expires is None or now < self.expires

    def size(self):
        plain = json.loads(self.metadata)
        size = sum(len(n.encode()) + (len(v.encode()) if isinstance(v, str) else 1 if isinstance(v, bool) else 8)
                   for n, v in plain.items())
        return size + sum(len(part.encode()) for part in (self.key, self.value, self.source or "", self.text or ""))

    def json(self):
        fields = [("key", json.dumps(self.key)), ("value", self.value), ("metadata", self.metadata)]
        fields += [(n, json.dumps(v)) for n, v in (("source", self.source), ("text", self.text)) if v is not None]
        fields += [("version", self.version), ("created_at", self.created), ("updated_at", self.updated)]
        if self.expires is not None:
            fields.append(("expires_at", self.expires))
        fields.append(("access_count", self.accesses))
        return "{" + ",".join(f'"{name}":{value}' for name, value in fields) + "}"


class Store:
    def __init__(self):
        self.lock = threading.RLock()
        self.scopes = {}
        # What a key had, also after it is gone: versions are never used again.
        self.versions = {}

    def live(self, scope, key, now):
        entry = self.scopes.get(scope, {}).get(key)
        return entry if entry and entry.live(now) else None

    def all(self, scope, now):
        found = self.scopes.get(scope, {})
        return [found[key] for key in sorted(found) if found[key].live(now)]

    def put(self, scope, entry):
        self.scopes.setdefault(scope, {})[entry.key] = entry
        self.versions[scope, entry.key] = entry.version

    def fresh(self, scope, key, value, now):
        """The entry of a write, with what the live one hands down."""
        entry = Entry(key, value, self.versions.get((scope, key), 0) + 1, now)
        old = self.live(scope, key, now)
        if old:
            entry.created, entry.accesses, entry.expires = old.created, old.accesses, old.expires
        return entry, old


STORE = Store()


def expiry(ttl, now, stored):
    if ttl in (None, "keep"):
        return stored
    if ttl == "never":
        return None
    return now + int(ttl["after_ms"])


def check_options(op, options):
    """Refuses what is not advertised."""
    if options.get("expect", "any") != "any":
        raise unsupported(op)
    if any(limit is not None for limit in options.get("quota", {}).values()):
        raise unsupported(op)
    if options.get("embed") == "always":
        raise Refused("vector_unsupported", f"provider `{NAME}` serves no vectors", operation=op, provider=NAME)


def check_value(value):
    if len(value.encode()) > CAPABILITIES["max_value_bytes"]:
        limit = CAPABILITIES["max_value_bytes"]
        raise Refused("too_large", "the value is too large", what="value", limit=limit,
                      actual=len(value.encode()), unit="bytes")
    if depth(value) > MAX_DEPTH:
        raise Refused("too_large", "the value nests too deeply", what="depth", limit=MAX_DEPTH, unit="levels")


def write(op, scope, key, value, raw_options, now):
    options = json.loads(raw_options)
    check_options(op, options)
    check_value(value)
    entry, old = STORE.fresh(scope, key, value, now)
    entry.expires = expiry(options.get("ttl"), now, entry.expires)
    entry.metadata = members(raw_options).get("metadata", "{}")
    entry.source, entry.text = options.get("source"), options.get("text")
    STORE.put(scope, entry)
    return json.dumps({"version": entry.version, "created": old is None, "written": True,
                       "expires_at": entry.expires, "embedding": "skipped"})


def derive(op, scope, key, options, now, change):
    """A write whose value comes from the live one; metadata, source and text are kept."""
    check_options(op, options)
    old = STORE.live(scope, key, now)
    value, more = change(old.value if old else None)
    check_value(value)
    entry, _ = STORE.fresh(scope, key, value, now)
    entry.expires = expiry(options.get("ttl"), now, entry.expires)
    if old:
        entry.metadata, entry.source, entry.text = old.metadata, old.source, old.text
    STORE.put(scope, entry)
    return entry, more


def plain_integer(text):
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and int(text) in I64:
        return int(text)
    raise Refused("wrong_type", "the value is no 64-bit integer")


def increment(text, delta):
    total = plain_integer(text) + delta if text is not None else delta
    if total not in I64:
        raise invalid("the sum is no 64-bit integer")
    return str(total), total


def reduce(text, reducer):
    (name, operand), = members(reducer).items()
    if name == "merge":
        if not operand.startswith("{") or (text is not None and not text.startswith("{")):
            raise Refused("wrong_type", "merge takes two objects")
        return (operand if text is None else merge(text, operand)), (None, 0)
    limit = None
    if name == "bounded_list":
        parts = members(operand)
        operand, limit = parts["item"], int(parts["limit"])
        if not 1 <= limit <= 10_000:
            raise invalid("a list has 1 to 10,000 elements")
    if text is not None and not text.startswith("["):
        raise Refused("wrong_type", "the value is no array")
    found = [] if text is None else elements(text)
    if name == "append_dedupe" and meaning(operand) in {meaning(element) for element in found}:
        return text, (False, 0)
    dropped = max(0, len(found) + 1 - limit) if limit else 0
    return "[" + ",".join((found + [operand])[dropped:]) + "]", (True, dropped)


def number(value):
    return isinstance(value, decimal.Decimal)


def compared(entry, field, operand):
    """-1, 0 or 1; None where the two cannot be compared."""
    metadata = DECODER.decode(entry.metadata)
    stored = {"source": entry.source, "created_at": entry.created, "updated_at": entry.updated,
              "expires_at": entry.expires}.get(field)
    if field.startswith("metadata."):
        stored = metadata.get(field.removeprefix("metadata."))
    elif stored is not None and field != "source":
        stored = decimal.Decimal(stored)
        operand = decimal.Decimal(milliseconds(operand)) if isinstance(operand, str) else operand
    if stored is None or type(stored) is not type(operand) or operand is None:
        return None
    if isinstance(stored, str):
        stored, operand = stored.encode(), operand.encode()
    return (stored > operand) - (stored < operand)


def milliseconds(text):
    from datetime import datetime
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return round(at.timestamp() * 1000)
    except ValueError:
        return None


def matches(entry, tree):
    if tree is None:
        return True
    (name, of), = tree.items()
    if name == "and":
        return all(matches(entry, part) for part in of)
    if name == "or":
        return any(matches(entry, part) for part in of)
    if name == "not":
        return not matches(entry, of)
    if name == "exists":
        if of.startswith("metadata."):
            return of.removeprefix("metadata.") in json.loads(entry.metadata)
        return {"source": entry.source, "expires_at": entry.expires}.get(of, True) is not None
    field, operand = of
    if name == "in":
        return any(compared(entry, field, one) == 0 for one in operand)
    order = compared(entry, field, operand)
    return {"eq": order == 0, "ne": order != 0, "lt": order == -1, "lte": order in (-1, 0), "gt": order == 1,
            "gte": order in (0, 1)}[name]


# Cursors have the library's form, which it checks: eight bytes that bind the cursor to its list, and the last name.

def long(number):
    return number.to_bytes(8, "big")


def digest(scope):
    parts = b"".join(long(len(part.encode())) + part.encode() for part in scope)
    return hashlib.sha256(b"memory.scope.v1" + parts).digest()


def cursor(listing, last):
    tag = hashlib.sha256(listing + last.encode()).digest()[:8]
    return base64.urlsafe_b64encode(tag + last.encode()).decode().rstrip("=")


def after(listing, text):
    if text is None:
        return None
    try:
        found = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        last = found[8:].decode()
    except ValueError:
        raise invalid("the cursor is not one of this list") from None
    if cursor(listing, last) != text:
        raise invalid("the cursor is not one of this list")
    return last


def check_limit(limit):
    if limit == 0:
        raise invalid("the limit is 0")
    if limit > 1000:
        raise Refused("too_large", "the limit is over 1,000", what="limit", limit=1000, actual=limit, unit="")


# Operations. Each takes the arguments as texts by name, and the time.

def scope_of(arguments):
    scope = json.loads(arguments["scope"])
    if scope["kind"] not in KINDS:
        raise invalid("a scope is of the kind agent, user or run")
    return scope["tenant"], scope["kind"], scope["id"]


def options_of(arguments):
    return json.loads(arguments.get("options", "{}"))


def found(entry, options):
    if entry is None:
        return "null"
    text = entry.json()
    if options.get("count_access", True):
        entry.accesses += 1
    return text


def do_get(arguments, now):
    entry = STORE.live(scope_of(arguments), json.loads(arguments["key"]), now)
    return found(entry, options_of(arguments))


def do_get_many(arguments, now):
    scope, options = scope_of(arguments), options_of(arguments)
    keys = json.loads(arguments["keys"])
    if len(keys) > 1000:
        raise Refused("too_large", "more than 1,000 keys", what="keys", limit=1000, actual=len(keys), unit="keys")
    return "[" + ",".join(found(STORE.live(scope, key, now), options) for key in keys) + "]"


def do_set(arguments, now):
    key, options = json.loads(arguments["key"]), arguments.get("options", "{}")
    return write("set", scope_of(arguments), key, arguments["value"], options, now)


def do_delete(arguments, now):
    scope, key = scope_of(arguments), json.loads(arguments["key"])
    check_options("delete", options_of(arguments))
    live = STORE.live(scope, key, now)
    STORE.scopes.get(scope, {}).pop(key, None)
    return json.dumps({"deleted": live is not None})


def do_list(arguments, now):
    scope, query = scope_of(arguments), DECODER.decode(arguments.get("query", "{}"))
    limit, prefix = int(query.get("limit", 100)), query.get("prefix", "")
    check_limit(limit)
    listing = b"list" + digest(scope) + long(len(prefix.encode())) + prefix.encode()
    last = after(listing, query.get("cursor"))
    page, size = [], 0
    for entry in STORE.all(scope, now):
        if not entry.key.startswith(prefix) or (last is not None and entry.key <= last):
            continue
        if not matches(entry, query.get("filter")):
            continue
        if len(page) == limit or (page and size + entry.size() > MAX_PAGE_BYTES):
            next_page = json.dumps(cursor(listing, page[-1].key))
            break
        page.append(entry)
        size += entry.size()
    else:
        next_page = "null"
    return '{"entries":[' + ",".join(entry.json() for entry in page) + f'],"next":{next_page}}}'


def do_increment(arguments, now):
    delta = int(arguments["delta"])
    entry, total = derive("increment", scope_of(arguments), json.loads(arguments["key"]), options_of(arguments), now,
                          lambda text: increment(text, delta))
    return json.dumps({"value": total, "version": entry.version, "expires_at": entry.expires})


def do_update(arguments, now):
    entry, (appended, dropped) = derive("update", scope_of(arguments), json.loads(arguments["key"]),
                                        options_of(arguments), now, lambda text: reduce(text, arguments["reducer"]))
    rest = json.dumps({"version": entry.version, "appended": appended, "dropped": dropped,
                       "expires_at": entry.expires, "embedding": "skipped"})
    return f'{{"value":{entry.value},{rest[1:]}'


def do_bulk_insert(arguments, now):
    scope, items = scope_of(arguments), elements(arguments["items"])
    check_options("bulk_insert", options_of(arguments))
    if len(items) > 10_000:
        raise Refused("too_large", "more than 10,000 items", what="items", limit=10_000, actual=len(items), unit="items")
    before = dict(STORE.scopes.get(scope, {}))
    versions = dict(STORE.versions)
    outcomes = []
    for index, item in enumerate(items):
        try:
            item = members(item)
            key, options = json.loads(item["key"]), item.get("options", "{}")
            outcomes.append(write("bulk_insert", scope, key, item["value"], options, now))
        except Refused as refused:
            STORE.scopes[scope], STORE.versions = before, versions
            refused.details["index"] = index
            raise
    return "[" + ",".join(outcomes) + "]"


def do_scopes(arguments, now):
    tenant, query = json.loads(arguments["tenant"]), json.loads(arguments.get("query", "{}"))
    limit, kind = query.get("limit", 100), query.get("kind")
    check_limit(limit)
    listing = b"scopes" + long(len(tenant.encode())) + tenant.encode()
    last = after(listing, query.get("cursor"))
    if last is not None:
        of, name = last.split(":", 1)
        last = (KINDS.index(of), name)
    page, next_page = [], None
    for scope in sorted(STORE.scopes, key=lambda scope: (KINDS.index(scope[1]), scope[2])):
        place = (KINDS.index(scope[1]), scope[2])
        entries = STORE.all(scope, now)
        if scope[0] != tenant or kind not in (None, scope[1]) or not entries or (last and place <= last):
            continue
        if len(page) == limit:
            end = page[-1]["scope"]
            next_page = cursor(listing, f'{end["kind"]}:{end["id"]}')
            break
        page.append({"scope": dict(zip(("tenant", "kind", "id"), scope)), "entries": len(entries),
                     "bytes": sum(entry.size() for entry in entries)})
    return json.dumps({"scopes": page, "next": next_page})


def do_drop_scope(arguments, now):
    scope = scope_of(arguments)
    entries = len(STORE.all(scope, now))
    STORE.scopes.pop(scope, None)
    return json.dumps({"entries": entries})


def do_end_run(arguments, now):
    STORE.scopes.pop((json.loads(arguments["tenant"]), "run", json.loads(arguments["root_run"])), None)
    return "null"


def do_health(arguments, now):
    return json.dumps({"status": "ok", "message": "in memory"})


def export_scope(arguments, now):
    """The lines of a stream: items, and a last line that says how many there were."""
    with STORE.lock:
        entries = [entry.json() for entry in STORE.all(scope_of(arguments), now)]
    for entry in entries:
        item = f'{{"entry":{entry}}}'
        if "\n" in item:
            item = json.dumps({"record": item})
        yield f'{{"item":{item}}}\n'
    yield f'{{"end":{len(entries)}}}\n'


def stamp(text):
    value = json.loads(text)
    return milliseconds(value) if isinstance(value, str) else int(value)


def import_record(scope, record, how, now):
    fields = members(members(record)["entry"])
    key, expires = json.loads(fields["key"]), fields.get("expires_at", "null")
    expires = None if expires == "null" else stamp(expires)
    if expires is not None and expires <= now:
        return "expired"
    old = STORE.live(scope, key, now)
    entry = Entry(key, fields["value"], 0, now)
    entry.metadata = fields.get("metadata", "{}")
    entry.source, entry.text = json.loads(fields.get("source", "null")), json.loads(fields.get("text", "null"))
    entry.created, entry.updated = stamp(fields["created_at"]), stamp(fields["updated_at"])
    entry.expires, entry.accesses = expires, int(fields.get("access_count", "0"))
    if old:
        if how == "fail":
            raise Refused("conflict", "an entry of the import exists already", current_version=old.version)
        as_it_is = (entry.value, meaning(entry.metadata), entry.source, entry.text, entry.created, entry.updated,
                    entry.expires)
        if how == "skip" or as_it_is == (old.value, meaning(old.metadata), old.source, old.text, old.created,
                                         old.updated, old.expires):
            return "skipped"
    entry.version = max(int(fields["version"]), STORE.versions.get((scope, key), 0) + 1)
    STORE.put(scope, entry)
    return "replaced" if old else "created"


def import_scope(lines, now):
    """Reads the arguments, then items until the last line, each stored as it comes."""
    arguments = members(next(lines, ""))
    scope, options = scope_of(arguments), options_of(arguments)
    if options.get("atomicity", "record") != "record" or options.get("taken", "new") != "new":
        raise unsupported("import_scope")
    check_options("import_scope", options)
    outcome = dict.fromkeys(("created", "replaced", "skipped", "expired", "forgotten"), 0)
    count = 0
    for line in lines:
        (name, of), = members(line).items()
        if name == "end":
            if int(of) != count:
                break
            return json.dumps(outcome)
        if name == "error":
            error = json.loads(of)
            raise Refused(error["code"], error["message"], **error.get("details", {}))
        record = members(of)
        record = json.loads(record["record"]) if "record" in record else of
        with STORE.lock:
            outcome[import_record(scope, record, options.get("on_existing", "skip"), now)] += 1
        count += 1
    raise Refused("unavailable", "the stream ended before its last line, so part of it is missing")


OPERATIONS = {name.removeprefix("do_"): function for name, function in globals().items() if name.startswith("do_")}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are two writes.
    disable_nagle_algorithm = True
    test_clock = False

    def log_message(self, *_):
        pass

    def now(self):
        given = self.headers.get("Memory-Clock")
        return int(given) if self.test_clock and given else round(time.time() * 1000)

    def answer(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def parts(self):
        """The body as it comes, of a known length or in chunks."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length", "0"))
        while left > 0:
            part = self.rfile.read(min(left, 1 << 16))
            if not part:
                return
            left -= len(part)
            yield part

    def lines(self):
        rest = b""
        for part in self.parts():
            *whole, rest = (rest + part).split(b"\n")
            yield from (line.decode() for line in whole)

    def text(self):
        body = b""
        for part in self.parts():
            body += part
            if len(body) > MAX_BODY:
                raise Refused("too_large", "the body is too large", what="body", limit=MAX_BODY, unit="bytes")
        return body.decode()

    def stream(self, lines):
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in lines:
            part = line.encode()
            self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def do_GET(self):
        if self.path == "/v1/capabilities":
            self.answer(200, json.dumps({"provider": NAME, "capabilities": CAPABILITIES}))
        else:
            self.answer(404, Refused("not_found", "there is no such route").text())

    def do_POST(self):
        op = self.path.removeprefix("/v1/ops/")
        try:
            if op == "import_scope":
                lines = self.lines()
                try:
                    self.answer(200, import_scope(lines, self.now()))
                finally:
                    for _ in lines:
                        pass
                return
            if op == "export_scope":
                self.stream(export_scope(members(self.text()), self.now()))
                return
            body = self.text()
            if op not in OPERATIONS:
                raise unsupported(op, members(body))
            with STORE.lock:
                answer = OPERATIONS[op](members(body), self.now())
            self.answer(200, answer)
        except Refused as refused:
            self.answer(STATUS[refused.code] if refused.code in STATUS else 400, refused.text())
        except (KeyError, TypeError, ValueError, RecursionError, IndexError) as error:
            self.answer(400, invalid(f"the request is malformed: {type(error).__name__}").text())


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A client that goes away is nobody's concern."""


if __name__ == "__main__":
    Handler.test_clock = "--test-clock" in sys.argv
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    server = Server(("127.0.0.1", port), Handler)
    print(f"http://localhost:{server.server_port}/v1", flush=True)
    server.serve_forever()
