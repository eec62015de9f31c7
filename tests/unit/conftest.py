"""Paths that Ansible sets up by itself: module_utils below ``ansible.module_utils``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

PLUGINS = Path(__file__).parents[2] / "plugins"
sys.path.insert(0, str(PLUGINS.parent / "src"))

for path in sorted((PLUGINS / "module_utils").glob("tandem_*.py")):
    spec = importlib.util.spec_from_file_location(f"ansible.module_utils.{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
