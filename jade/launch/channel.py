"""Exchange messages, and open files with them, between two processes of one machine."""

import json
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SIZE = struct.Struct("!I")
CHUNK, MOST_FILES = 65536, 16

Message = Mapping[str, Any]


class Channel:
    """One end of a connection; a message is whole or is not there.

    Args:
        connection: A Unix socket.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._buffer = b""
        self._files: list[int] = []

    def fileno(self) -> int:
        """Return the number by which a selector waits for messages."""
        return self.connection.fileno()

    def send(self, message: Message, files: Sequence[int] = ()) -> None:
        """Send a message, with files that get numbers of their own at the other end.

        Raises:
            OSError: Nobody is there any more.
        """
        text = json.dumps({**message, "num_files": len(files)}).encode()
        data = SIZE.pack(len(text)) + text
        sent = socket.send_fds(self.connection, [data], list(files)) if files else 0
        self.connection.sendall(data[sent:])

    def receive(self) -> Iterator[tuple[dict[str, Any], list[int]]]:
        """Wait for what comes, and yield the messages that are complete now.

        Raises:
            EOFError: Nobody is there any more.
        """
        try:
            data, files, _, _ = socket.recv_fds(self.connection, CHUNK, MOST_FILES)
        except ConnectionError:
            data, files = b"", []
        if not data:
            raise EOFError
        self._buffer += data
        self._files += files
        while len(self._buffer) >= SIZE.size:
            (size,) = SIZE.unpack_from(self._buffer)
            end = SIZE.size + size
            if len(self._buffer) < end:
                return
            message = json.loads(self._buffer[SIZE.size : end])
            self._buffer = self._buffer[end:]
            num_files = message.pop("num_files")
            own, self._files = self._files[:num_files], self._files[num_files:]
            yield message, own

    def close(self) -> None:
        """Hang up."""
        self.connection.close()
