"""Who answers requests: knows the paths, checks the key, and notes what it does not know."""

import base64
import json
import re
import time
import traceback
from typing import Any
from urllib.parse import unquote, urlsplit

from wandb_server.door import Answer
from wandb_server.faults import Faults
from wandb_server.refusal import RefusalError
from wandb_server.runs import as_json
from wandb_server.world import World

FILE_STREAM = re.compile(r"/files/([^/]+)/([^/]+)/([^/]+)/file_stream")
STORAGE = re.compile(r"/storage/([^/]+)/([^/]+)/([^/]+)/(.+)")
BLOB = re.compile(r"/blobs/([^/]+)/([^/]+)/([^/]+)/([^/]+)")
MANIFEST = re.compile(r"/manifests/([^/]+)")
OPERATION = re.compile(r"(?:query|mutation)\s+(\w+)")
RANGE = re.compile(r"bytes=(\d+)-(\d*)")


def answer_json(value: Any, status: int = 200) -> Answer:
    """Answer with JSON."""
    return status, {"Content-Type": "application/json"}, as_json(value).encode()


class Desk:
    """The answers to requests; ``requests`` holds (time, kind, name) of each one."""

    def __init__(self, world: World, table: dict[str, Any], api_key: str, faults: Faults) -> None:
        self._world = world
        self._table = table
        self._faults = faults
        self.api_key = api_key
        self.requests: list[tuple[float, str, str]] = []

    def describe(self, method: str, path: str, body: bytes = b"") -> str:
        """Describe a request by its kind and its name."""
        path = urlsplit(path).path
        if path == "/graphql":
            return f"graphql {self._operation(json.loads(body)) if body else ''}"
        if found := FILE_STREAM.fullmatch(path):
            return f"file_stream {unquote(found[3])}"
        if found := STORAGE.fullmatch(path):
            return f"{method.lower()} {unquote(found[3])}/{unquote(found[4])}"
        if found := BLOB.fullmatch(path):
            return f"{method.lower()} artifact/{unquote(found[4])}"
        return f"{method.lower()} {path}"

    @staticmethod
    def _operation(message: dict[str, Any]) -> str:
        if message.get("operationName"):
            return str(message["operationName"])
        found = OPERATION.search(message["query"])
        return found[1] if found else "without a name"

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Answer one request."""
        name = ""
        try:
            description = self.describe(method, path, body)
            kind, _, name = description.partition(" ")
            self.requests.append((time.time(), kind, name))
            fault = self._faults.take(description, cuts=False)
            if fault is not None and fault.status is not None:
                return fault.status, {"Retry-After": "1"}, b"a fault was wished for"
            answer = self._route(method, urlsplit(path).path, headers, body)
            self._faults.wait(description)
            return answer
        except RefusalError as refusal:
            place = name[:1].lower() + name[1:]
            errors = [{"message": str(refusal), "path": [place]}]
            return answer_json({"data": {place: None}, "errors": errors}, refusal.status)
        except Exception:
            self.note_failure(f"{method} {path}")
            return answer_json({"errors": [{"message": "the server has failed"}]}, 400)

    def note_failure(self, where: str) -> None:
        """Note the exception that is being handled: the server must not fail, either."""
        self._world.unknown.append(f"{where}: {traceback.format_exc()}")

    def _route(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if method == "POST" and path == "/graphql":
            self._check_key(headers)
            return self._graphql(json.loads(body))
        if method == "POST" and (found := FILE_STREAM.fullmatch(path)):
            self._check_key(headers)
            return self._file_stream(tuple(map(unquote, found.groups())), json.loads(body or b"{}"))
        if found := STORAGE.fullmatch(path):
            return self._run_file(method, tuple(map(unquote, found.groups())), headers, body)
        if found := BLOB.fullmatch(path):
            entity, project, digest, _ = map(unquote, found.groups())
            blobs = self._world.artifacts.blobs(entity, project)
            return self._content(method, blobs, digest, headers, body)
        if found := MANIFEST.fullmatch(path):
            artifact = self._world.artifacts.by_id(unquote(found[1]))
            return self._content(method, vars(artifact), "manifest", headers, body)
        if not path.startswith("/sdk/otel"):
            self._world.unknown.append(f"{method} {path}")
        return answer_json({"errors": [{"message": f"{path} not found"}]}, 404)

    def _check_key(self, headers: dict[str, str]) -> None:
        wanted = base64.b64encode(f"api:{self.api_key}".encode()).decode()
        if headers.get("Authorization") != f"Basic {wanted}":
            raise RefusalError("user is not logged in", status=401)

    def _graphql(self, message: dict[str, Any]) -> Answer:
        name = self._operation(message)
        if name not in self._table:
            self._world.unknown.append(f"operation {name}: {message['query']}")
            raise RefusalError(f"unknown operation {name}", status=400)
        data = self.perform(name, message.get("variables") or {}, message["query"])
        return answer_json({"data": data})

    def perform(self, name: str, variables: dict[str, Any], query: str = "") -> Any:
        """Carry out a GraphQL operation, and return its data."""
        with self._world.lock:
            return self._table[name](query, variables)

    def _file_stream(self, key: tuple[str, ...], message: dict[str, Any]) -> Answer:
        with self._world.lock:
            run = self._world.runs.get(key)  # type: ignore[arg-type]
            if run is None:
                raise RefusalError(f"run {'/'.join(key)} not found", status=404)
            run.take(message)
            self._world.settle(run)
            stopped = run.is_asked_to_stop
        return answer_json({"exitcode": None, "limits": {}, "stopped": stopped})

    def _run_file(
        self, method: str, found: tuple[str, ...], headers: dict[str, str], body: bytes
    ) -> Answer:
        *key, name = found
        run = self._world.runs.get(tuple(key))  # type: ignore[arg-type]
        if run is None:
            return 404, {}, b"no such run"
        if method == "PUT":
            with self._world.lock:
                run.note_upload(name)
        return self._content(method, run.files, name, headers, body)

    def _content(
        self, method: str, place: dict[str, Any], name: str, headers: dict[str, str], body: bytes
    ) -> Answer:
        if method == "PUT":
            with self._world.lock:
                place[name] = body
            return 200, {}, b""
        content = place.get(name)
        return (404, {}, b"no such file") if content is None else self._piece(content, headers)

    @staticmethod
    def _piece(content: bytes, headers: dict[str, str]) -> Answer:
        wanted = RANGE.fullmatch(headers.get("Range", ""))
        if wanted is None:
            return 200, {"Content-Type": "application/octet-stream"}, content
        start, end = int(wanted[1]), int(wanted[2] or len(content) - 1)
        piece = content[start : end + 1]
        place = f"bytes {start}-{start + len(piece) - 1}/{len(content)}"
        return 206, {"Content-Range": place}, piece
