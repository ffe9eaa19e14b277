"""The HTTP side: a listening socket that can be closed and opened again on the same port."""

import gzip
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from wandb_server.faults import Faults

Answer = tuple[int, dict[str, str], bytes]


class Handler(BaseHTTPRequestHandler):
    """Read one request after another, and let the desk behind the door answer."""

    protocol_version = "HTTP/1.1"
    # Without these two an answer on a kept connection takes 44 ms.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True
    server: "Listener"

    def do_GET(self) -> None:
        self._answer(b"")

    def do_PUT(self) -> None:
        self._answer_with_body()

    def do_POST(self) -> None:
        self._answer_with_body()

    def _answer_with_body(self) -> None:
        length = int(self.headers["Content-Length"])
        if self.command == "PUT" and self._is_cut():
            self.rfile.read(length // 2)
            self.close_connection = True
            return
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True
        elif self.headers.get("Content-Encoding") == "gzip":
            self._answer(gzip.decompress(body))
        else:
            self._answer(body)

    def _is_cut(self) -> bool:
        description = self.server.desk.describe(self.command, self.path)
        return self.server.faults.take(description, cuts=True) is not None

    def _answer(self, body: bytes) -> None:
        answer = self.server.desk.answer(self.command, self.path, dict(self.headers), body)
        self.server.is_closing.wait(self.server.faults.delay_s)
        if answer is None or self.server.is_closing.is_set():
            self.close_connection = True
            return
        status, headers, content = answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET" and self._is_cut():
            content = content[: len(content) // 2]
            self.close_connection = True
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        """Say nothing: requests are noted by the desk."""


class Listener(ThreadingHTTPServer):
    """A listening socket and the connections that came through it."""

    daemon_threads = False
    request_queue_size = 128

    def __init__(self, port: int, desk: Any, faults: Faults) -> None:
        self.desk = desk
        self.faults = faults
        self.is_closing = threading.Event()
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave it to the client to complain about lost connections; note the rest."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            self.desk.note_failure("a request")

    def hang_up(self) -> None:
        """Close the door and every connection, and wait for whom was being served."""
        self.is_closing.set()
        self.shutdown()
        self.socket.close()
        for connection in list(self._connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        self.server_close()


class Door:
    """Whether somebody listens on the port."""

    def __init__(self, desk: Any, faults: Faults) -> None:
        self._make: Callable[[int], Listener] = lambda port: Listener(port, desk, faults)
        self._listener: Listener | None = None
        self._thread: threading.Thread | None = None
        self.port = 0

    def open(self) -> None:
        if self._listener is not None:
            return
        self._listener = self._make(self.port)
        self.port = self._listener.server_address[1]
        self._thread = threading.Thread(
            target=self._listener.serve_forever, kwargs={"poll_interval": 0.02}
        )
        self._thread.start()

    def close(self) -> None:
        if self._listener is None or self._thread is None:
            return
        self._listener.hang_up()
        self._thread.join()
        self._listener = None
