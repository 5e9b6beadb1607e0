"""Clients that misbehave: bare sockets."""

import json
import socket


class RawClient:
    """One connection on which a request was sent; leaves when it is closed."""

    def __init__(self, server, path=None, body=None, receive_buffer=None, headers=""):
        self.socket = socket.socket()
        self.socket.settimeout(60)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.received = bytearray()
        try:
            self.socket.connect(server.address)
        except OSError:
            self.socket.close()
            raise
        if path:
            self.post(path, body, headers)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def post(self, path, body, headers=""):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}"
                  f"Content-Length: {len(data)}\r\n\r\n".encode() + data)

    def send(self, data):
        self.socket.sendall(data)

    def read_until(self, what, times=1):
        """Until `what` has come so often in all."""
        found, searched = 0, 0
        while True:
            found += self.received.count(what, searched)
            # The end may be its beginning.
            searched = max(searched, len(self.received) - len(what) + 1)
            if found >= times:
                return
            part = self.socket.recv(65536)
            assert part, f"the connection ended: {self.received[-500:]}"
            self.received += part

    def read_to_end(self):
        """Until the server closes."""
        while part := self.socket.recv(65536):
            self.received += part
        return self.received

    def close(self):
        self.socket.close()

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()
