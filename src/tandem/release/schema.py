"""What a release.yml may say, with errors that name file, field and value."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tandem.release.explain import explain
from tandem.release.lockfile import WHEEL_NAME, normalized

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
PackageName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", description="as the index writes it: lower case, - between words"
    ),
]
FileName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$", description="in the release's own folder")
]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Machine = Literal["x86_64", "aarch64"]
EngineValue = str | int | float | bool | None | list[Any] | dict[str, Any]


class ReleaseError(ValueError):
    """A release.yml that cannot be used; the message names file, field and value."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Platform(_Strict):
    """One kind of host that the release is locked for."""

    name: Name
    machine: Machine = Field(description="what `uname -m` says on the host")
    python: str = Field(pattern=r"^3\.\d+$", description="version of the host's /usr/bin/python3, in quotes")
    accelerator: Literal["cpu", "cuda"]
    glibc: str = Field(pattern=r"^2\.\d+$", description="oldest C library the wheels may ask for, in quotes")
    lock: FileName


class Patches(_Strict):
    """A directory of patches and the package whose installed files they change."""

    dir: str = Field(
        pattern=r"^files/patches/[a-z0-9][a-z0-9.+-]*$", description="from the repository's root"
    )
    package: PackageName


class ExternalWheel(_Strict):
    """A wheel that the package index does not have."""

    file: str = Field(pattern=WHEEL_NAME)
    sha256: Sha256
    size: int = Field(default=0, ge=0, description="bytes; 0 if unknown")


class External(_Strict):
    """A package whose wheels the package index does not have, so its hashes are written down here."""

    name: PackageName
    version: str
    reason: str
    requires: list[str] = Field(description="its requirements, as its own metadata state them")
    wheels: dict[str, ExternalWheel] = Field(description="by the platform's name")
    uv_torch_backend: str | None = Field(
        default=None, description="the backend of uv whose index serves it, asked where pip does not find it"
    )


class Engine(_Strict):
    """What every rank is started with; the inventory's ``vllm_server_engine_*`` are laid over it."""

    args: dict[str, EngineValue] = Field(
        default_factory=dict,
        description="serving arguments without the dashes; true is a bare flag, false or null leaves it out, "
        "a list is several values, a mapping is passed as JSON",
    )
    env: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = Field(
        default_factory=dict, description="environment variables; {rank} stands for the rank's number"
    )


class Build(_Strict):
    """How the tree is built. Part of the release digest."""

    installer: Literal["uv"] = "uv"
    bytecode: Literal["unchecked-hash"] = Field(
        default="unchecked-hash",
        description="bytecode depends on the source alone, so two builds give the same files",
    )


class Minimum(_Strict):
    """What a host must have."""

    disk_gib: float = Field(gt=0, description="free space for the built tree, its wheels included")
    memory_gib: float = Field(gt=0, description="total memory of one host")


class Release(_Strict):
    """One release: everything that must match, by version and hash."""

    schema_: Literal[1] = Field(alias="schema")
    name: Name
    description: str
    versions: dict[PackageName, str] = Field(
        description="the versions worth showing; checked against the locks"
    )
    platforms: list[Platform] = Field(min_length=1)
    requirements: FileName = Field(description="what is asked for by name")
    overrides: FileName | None = Field(default=None, description="uv overrides: what is left out and why")
    build_requirements: FileName = Field(description="what installs the rest on the host")
    build_lock: FileName
    patches: list[Patches] = Field(default_factory=list)
    external: list[External] = Field(default_factory=list)
    build: Build = Field(default_factory=Build)
    engine: Engine = Field(default_factory=Engine)
    minimum: Minimum

    @model_validator(mode="after")
    def _names_fit(self) -> Release:
        names = [platform.name for platform in self.platforms]
        files = [*(platform.lock for platform in self.platforms), self.build_lock]
        for what, values in (("name", names), ("lock", files)):
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise ValueError(
                    f"platforms: the {what} {twice[0]!r} is given twice. Fix: one for each platform"
                )
        for external in self.external:
            _check_external(external, names)
        return self

    def platform(self, wanted: str) -> Platform:
        """The platform with this name, or the only one with this machine; raises ReleaseError."""
        found = [item for item in self.platforms if wanted in (item.name, item.machine)]
        if len(found) == 1:
            return found[0]
        offers = ", ".join(f"{item.name} ({item.machine})" for item in self.platforms)
        how_many = "several platforms" if found else "no platform"
        raise ReleaseError(f"{self.name}: {how_many} for {wanted!r}. Fix: choose one by name: {offers}.")


def _check_external(external: External, platforms: list[str]) -> None:
    for platform, wheel in external.wheels.items():
        where = f"external {external.name}: wheels"
        if platform not in platforms:
            raise ValueError(f"{where}: {platform!r} is no platform. Fix: one of {', '.join(platforms)}")
        name, version, *_ = wheel.file.split("-")
        if (normalized(name), version) != (external.name, external.version):
            wanted = f"{external.name} {external.version}"
            raise ValueError(f"{where}: {wheel.file!r} is no wheel of {wanted}. Fix: correct the file name")


def load_release(directory: Path) -> Release:
    """The release in ``directory``; raises ReleaseError that lists every problem with its field and value."""
    source = directory / "release.yml"
    try:
        data = yaml.safe_load(source.read_bytes())
    except OSError as problem:
        known = (
            ", ".join(sorted(path.parent.name for path in directory.parent.glob("*/release.yml"))) or "none"
        )
        raise ReleaseError(
            f"{source}: {problem.strerror}. Fix: choose a release that is there ({known})."
        ) from problem
    except yaml.YAMLError as problem:
        raise ReleaseError(f"{source}: is not YAML: {problem}. Fix: correct the file.") from problem
    try:
        release = Release.model_validate(data)
    except ValidationError as problem:
        raise ReleaseError("\n".join(explain(source, problem, Release))) from problem
    if release.name != directory.resolve().name:
        raise ReleaseError(
            f"{source}: name is {release.name!r}, wanted {directory.resolve().name!r}, the folder's name. "
            "Fix: give both the same name."
        )
    return release
