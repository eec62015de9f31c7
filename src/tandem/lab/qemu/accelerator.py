"""Hardware acceleration, where a boot shows that it works.

/dev/kvm may exist and not run a stock kernel: some clouds' machines have a variant that does not.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tandem.lab.qemu import machine, seed
from tandem.lab.qemu.recipe import INITRD, KERNEL
from tandem.lab.spec import LabError

PROBE_SECONDS = 20
_WORD = "tandem-lab-kernel-is-up"


def choose(image: Path) -> str:
    """``kvm`` or ``tcg``, found out once for each image and boot of this machine."""
    note = image / "accelerator"
    this_boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    known = note.read_text(encoding="utf-8").split() if note.exists() else []
    if known[:1] != [this_boot]:
        answer = "kvm" if Path("/dev/kvm").exists() and boots(image, "kvm") else "tcg"
        note.write_text(f"{this_boot} {answer}\n", encoding="utf-8")
        return answer
    return known[1]


def boots(image: Path, accelerator: str) -> bool:
    """Whether the image's kernel comes up to its first program within ``PROBE_SECONDS``."""
    script = f"#!/bin/sh\necho {_WORD}\n".encode()
    probe = seed.append((image / INITRD).read_bytes(), seed.archive("lab-probe", script, 0o755))
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "initrd"
        file.write_bytes(probe)
        try:
            outcome = subprocess.run(
                probe_command(image, file, accelerator),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=PROBE_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return False
        except FileNotFoundError as problem:
            raise LabError(
                f"{machine.PROGRAM} is not on this machine; `scripts/setup test` installs it"
            ) from problem
    return _WORD.encode() in outcome.stdout


def probe_command(image: Path, initrd: Path, accelerator: str) -> list[str]:
    """A machine that boots the kernel to one program, which ends, and ends with it."""
    return [
        machine.PROGRAM,
        *("-nodefaults", "-no-user-config", "-no-reboot"),
        *("-machine", "q35,usb=off,vmport=off"),
        *machine.ACCELERATORS[accelerator],
        *("-smp", "1", "-m", "512", "-display", "none", "-serial", "stdio"),
        *("-kernel", str(image / KERNEL), "-initrd", str(initrd)),
        *("-append", "console=ttyS0 quiet rdinit=/lab-probe panic=-1"),
    ]
