"""Take the collections that requirements.yml names out of the wheel of the package ``ansible``."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import yaml


def unpack(requirements: Path, wheel: Path, target: Path) -> list[str]:
    """Unpack each collection below ``target/ansible_collections`` and return ``name version`` of each.

    Raises ``SystemExit`` where the wheel lacks one or holds another version than the pinned one.
    """
    done = []
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        for item in yaml.safe_load(requirements.read_text(encoding="utf-8"))["collections"]:
            prefix = "ansible_collections/" + item["name"].replace(".", "/") + "/"
            members = [name for name in names if name.startswith(prefix)]
            if not members:
                raise SystemExit(f"{wheel.name} holds no {item['name']}; take it out of {requirements}")
            version = json.loads(archive.read(prefix + "MANIFEST.json"))["collection_info"]["version"]
            if version != item["version"]:
                raise SystemExit(
                    f"{wheel.name} holds {item['name']} {version}; {requirements} pins {item['version']}"
                )
            archive.extractall(target, members)
            done.append(f"{item['name']} {version}")
    return done


if __name__ == "__main__":
    for line in unpack(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])):
        sys.stdout.write(f"setup: {line}\n")
