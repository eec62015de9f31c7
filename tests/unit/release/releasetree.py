"""A small repository with one release, wheels of a few hundred bytes, and a package index on this machine."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from typer.testing import Result

RELEASE = """\
schema: 1
name: tiny
description: Two packages, to see how a release works.
versions:
  engine: "2.0"
platforms:
  - name: linux-x86_64-cpu-py311
    machine: x86_64
    python: "3.11"
    accelerator: cpu
    glibc: "2.31"
    lock: x86_64.lock
  - name: linux-aarch64-cpu-py311
    machine: aarch64
    python: "3.11"
    accelerator: cpu
    glibc: "2.31"
    lock: aarch64.lock
requirements: requirements.in
overrides: overrides.txt
build_requirements: requirements-build.in
build_lock: build.lock
patches:
  - dir: files/patches/engine-2.0
    package: engine
minimum:
  disk_gib: 1
  memory_gib: 0.5
"""
PATCH = """\
The engine says hello

Why: it said nothing.
Upstream: none.
Drop when: it speaks by itself.

--- a/engine.py
+++ b/engine.py
@@ -1,1 +1,1 @@
-pass
+print("hello")
"""
Tandem = Callable[..., Result]
X86 = "manylinux_2_28_x86_64"
ARM = "manylinux_2_28_aarch64"


def wheel(directory: Path, file: str, requires: str = "") -> Path:
    """A wheel that pip and uv accept, the same bytes every time."""
    name, version, *_, python, abi, platform = file.removesuffix(".whl").split("-")
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += f"Requires-Dist: {requires}\n" if requires else ""
    tags = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {python}-{abi}-{platform}\n"
    directory.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(directory / file, "w") as archive:
        for inside, text in (("METADATA", metadata), ("WHEEL", tags), ("RECORD", "")):
            archive.writestr(zipfile.ZipInfo(f"{info}/{inside}"), text)
    return directory / file


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def entry(name: str, version: str, *files: Path) -> str:
    """One package of a lock file."""
    hashes = " \\\n".join(f"    --hash=sha256:{sha256(file)}" for file in files)
    named = "".join(f"    # wheel: {file.name} {file.stat().st_size}\n" for file in files)
    return f"{name}=={version} \\\n{hashes}\n{named}"


@dataclass
class Index:
    """A package index: the wheels of a directory. ``asked`` lists paths; ``cut`` wheels end in the middle."""

    wheels: Path
    url: str = ""
    asked: list[str] = field(default_factory=list)
    cut: set[str] = field(default_factory=set)

    def answer(self, path: str) -> tuple[bytes, bytes]:
        """What is announced and what is sent, which differ for a cut wheel."""
        self.asked.append(path)
        kind, _, name = path.strip("/").partition("/")
        if kind == "simple":
            files = [file for file in self.wheels.glob("*.whl") if file.name.split("-")[0] == name]
            page = "".join(
                f'<a href="/wheels/{file.name}#sha256={sha256(file)}">{file.name}</a>\n' for file in files
            )
            return (page.encode(), page.encode()) if files else (b"", b"")
        content = (self.wheels / name).read_bytes()
        return content, content[: len(content) // 2] if name in self.cut else content


@contextmanager
def served(index: Index) -> Iterator[Index]:
    """Serves the index on 127.0.0.1 while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            announced, sent = index.answer(self.path)
            self.send_response(200 if announced else 404)
            kind = "text/html" if self.path.startswith("/simple") else "application/octet-stream"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(announced)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(sent)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    index.url = f"http://127.0.0.1:{server.server_port}/simple"
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
