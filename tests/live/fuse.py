"""A file system of one file, by the kernel's FUSE protocol (linux/fuse.h), that stops answering on request."""

import contextlib
import ctypes
import mmap
import os
import signal
import stat
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support import MissingError

_LOOKUP, _FORGET, _GETATTR, _OPEN, _READ, _STATFS, _RELEASE, _FLUSH, _INIT = 1, 2, 3, 14, 15, 17, 18, 25, 26
_ENOSYS, _ENOENT = 38, 2
_LIMIT = 10  # seconds that a process may wait in vain: not even SIGKILL ends that wait
_FILE = 2  # the node; the root is 1
_libc = ctypes.CDLL(None, use_errno=True)


class Server:
    """Answers until `hang`: then nothing.  A process of its own: whoever starts the file waits for it.

    If a process waits too long, it ends, and `gave_up` says so: a test that is red must not hang, and others with it.
    """

    def __init__(self, content: bytes, names: int = 1 << 20) -> None:
        self.content = content
        self.names = names
        self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        self.child = 0
        self._hung = mmap.mmap(-1, 1)  # shared with the child

    def hang(self) -> None:
        """Answer no more."""
        self._hung[0] = 1

    def end(self) -> None:
        """Be gone; who waits for an answer gets an error instead (fs/fuse/dev.c, fuse_dev_release)."""
        if self.child:
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
            self.child = 0

    def gave_up(self) -> bool:
        """Say whether it has ended by itself."""
        return bool(self.child and os.waitid(os.P_PID, self.child, os.WEXITED | os.WNOHANG | os.WNOWAIT))

    def serve(self) -> None:
        """Answer; ends when the file system is unmounted."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # pytest's limit of time has a handler
        with contextlib.suppress(OSError):
            while request := os.read(self.fd, 1 << 20):
                if not self._hung[0]:
                    self._answer(request)
                elif struct.unpack_from("<IIQQ", request)[1] not in (_FORGET, _RELEASE, _FLUSH):
                    signal.alarm(signal.alarm(0) or _LIMIT)  # from the first of them on

    def _answer(self, request: bytes) -> None:
        _, code, unique, node = struct.unpack_from("<IIQQ", request)
        body = request[40:]
        if code == _FORGET:
            return
        error, answer = 0, b""
        if code == _INIT:
            answer = struct.pack("<IIIIHHIIHH32x", 7, 31, 1 << 17, 0, 12, 10, 1 << 17, 1, 32, 0)
        elif code == _LOOKUP:
            known = body.rstrip(b"\0") == b"prog"
            error = 0 if known else -_ENOENT
            answer = struct.pack("<QQQQII", _FILE, 0, self.names, 0, 0, 0) + self._attributes(_FILE) if known else b""
        elif code == _GETATTR:
            answer = struct.pack("<QII", 0, 0, 0) + self._attributes(node)
        elif code == _OPEN:
            answer = struct.pack("<QII", 1, 0, 0)
        elif code == _READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            answer = self.content[offset : offset + size]
        elif code == _STATFS:
            answer = struct.pack("<5Q4I24x", 1, 1, 1, 1, 1, 4096, 255, 4096, 0)
        elif code not in (_RELEASE, _FLUSH):
            error = -_ENOSYS
        os.write(self.fd, struct.pack("<IiQ", 16 + len(answer), error, unique) + answer)

    def _attributes(self, node: int) -> bytes:
        mode = stat.S_IFREG | 0o755 if node == _FILE else stat.S_IFDIR | 0o755
        size = len(self.content) if node == _FILE else 0
        return struct.pack("<6Q10I", node, size, -(-size // 512), 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


@contextlib.contextmanager
def mounted(content: bytes, at: Path, names: int = 1 << 20) -> Iterator[Server]:
    """Mount the file ``prog`` of *content* below *at*; what waits for it is let go at the end.

    The kernel looks its name up again after *names* seconds.
    """
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        raise MissingError("root and /dev/fuse are needed")
    server = Server(content, names)
    options = f"fd={server.fd},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if _libc.mount(b"prog", os.fsencode(at), b"fuse", 6, options):
        os.close(server.fd)
        raise MissingError(f"FUSE cannot be mounted: {os.strerror(ctypes.get_errno())}")
    server.child = os.fork()
    if not server.child:
        try:
            server.serve()
        finally:
            os._exit(0)
    os.close(server.fd)
    try:
        yield server
    finally:
        server.end()
        subprocess.run(["umount", "--lazy", at], check=False)
