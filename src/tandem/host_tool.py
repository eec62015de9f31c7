"""Build ``tandem-host``: the package ``tandem_host`` as one executable file, the same bytes each time."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

# Where this project keeps the source: beside the package that you are reading.
SOURCE = Path(__file__).resolve().parents[1] / "tandem_host"
# Isolated from the caller's environment (-I), without site-packages (-S): it runs as root and needs neither.
SHEBANG = b"#!/usr/bin/python3 -IS\n"
# The earliest time that a zip entry can hold; a real one would change the file without changing what it does.
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644
_UNIX = 3


def sources(package: Path = SOURCE) -> dict[str, bytes]:
    """The package's Python files: name inside the archive -> content, sorted by name.

    Raises FileNotFoundError when the directory is not a package with a ``cli`` module.
    """
    if not (package / "cli.py").is_file():
        raise FileNotFoundError(f"{package} has no cli.py: it is not the source of tandem-host")
    files = sorted(
        (path for path in package.rglob("*.py") if "__pycache__" not in path.parts),
        key=lambda path: path.relative_to(package).as_posix(),
    )
    return {f"{package.name}/{path.relative_to(package).as_posix()}": path.read_bytes() for path in files}


def build(package: Path = SOURCE) -> bytes:
    """The program as bytes; raises OSError when the source cannot be read.

    Entries are stored, not compressed: compressors differ between builds of zlib, and the file is small.
    """
    start = f"import sys\n\nfrom {package.name}.cli import main\n\nsys.exit(main())\n"
    content = {"__main__.py": start.encode(), **sources(package)}
    buffer = io.BytesIO()
    buffer.write(SHEBANG)
    with zipfile.ZipFile(buffer, "a", compression=zipfile.ZIP_STORED, strict_timestamps=True) as archive:
        for name, data in content.items():
            entry = zipfile.ZipInfo(name, date_time=_TIMESTAMP)
            entry.compress_type = zipfile.ZIP_STORED
            entry.create_system = _UNIX
            entry.external_attr = _MODE << 16
            archive.writestr(entry, data)
    return buffer.getvalue()
