"""``python3 -m tandem_host``."""

from __future__ import annotations

import sys

from tandem_host.cli import main

if __name__ == "__main__":
    sys.exit(main())
