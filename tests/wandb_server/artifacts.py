"""An artifact as the server keeps it: a version of a collection, its manifest and its files."""

import json
from dataclasses import dataclass, field
from typing import Any

from wandb_server.runs import now, storage_id

LATEST = "latest"


@dataclass
class ServedArtifact:
    """One version; ``blobs`` are the stored files of the project by digest, shared by versions."""

    number: int
    entity: str
    project: str
    collection: str
    type: str
    digest: str
    blobs: dict[str, bytes]
    version: int = 0
    run: str | None = None
    description: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    aliases: list[str] = field(default_factory=list)
    state: str = "PENDING"
    manifest: bytes | None = None
    used_by: list[str] = field(default_factory=list)
    created_at: str = field(default_factory=now)

    @property
    def id(self) -> str:
        return storage_id("Artifact", str(self.number))

    @property
    def entries(self) -> dict[str, Any]:
        """The files by name, as the manifest describes them."""
        found: dict[str, Any] = json.loads(self.manifest or b'{"contents": {}}')["contents"]
        return found

    @property
    def files(self) -> dict[str, bytes]:
        """The contents of the files by name."""
        return {name: self.blobs[entry["digest"]] for name, entry in self.entries.items()}

    def answers_to(self, alias: str) -> bool:
        return alias == f"v{self.version}" or alias in self.aliases


class ArtifactStore:
    """All artifacts and what they consist of."""

    def __init__(self) -> None:
        self.artifacts: list[ServedArtifact] = []
        self._blobs: dict[tuple[str, str], dict[str, bytes]] = {}

    def blobs(self, entity: str, project: str) -> dict[str, bytes]:
        return self._blobs.setdefault((entity, project), {})

    def versions(self, entity: str, project: str, collection: str) -> list[ServedArtifact]:
        """List the committed versions of a collection."""
        place = (entity, project, collection)
        return [
            artifact
            for artifact in self.artifacts
            if (artifact.entity, artifact.project, artifact.collection) == place
            and artifact.state == "COMMITTED"
        ]

    def find(self, entity: str, project: str, name: str) -> ServedArtifact | None:
        """Find ``collection:alias``; without an alias, the latest one."""
        collection, _, alias = name.partition(":")
        for artifact in self.versions(entity, project, collection):
            if artifact.answers_to(alias or LATEST):
                return artifact
        return None

    def by_id(self, wanted: str) -> ServedArtifact:
        return next(artifact for artifact in self.artifacts if artifact.id == wanted)

    def add(self, artifact: ServedArtifact) -> ServedArtifact:
        """Add a version, unless the same content is there already."""
        for known in self.versions(artifact.entity, artifact.project, artifact.collection):
            if known.digest == artifact.digest:
                self.name(known, artifact.aliases)
                return known
        self.artifacts.append(artifact)
        return artifact

    def commit(self, artifact: ServedArtifact) -> None:
        """Make a version available under its aliases; ``latest`` is one that the client asks for."""
        if artifact.state != "COMMITTED":
            place = (artifact.entity, artifact.project, artifact.collection)
            # Numbers of versions that were deleted are not used again.
            artifact.version = sum(
                (other.entity, other.project, other.collection) == place
                and other.state != "PENDING"
                for other in self.artifacts
            )
            artifact.state = "COMMITTED"
        self.name(artifact, artifact.aliases)

    def name(self, artifact: ServedArtifact, aliases: list[str]) -> None:
        """Give aliases to a version, and take them from the others."""
        for other in self.versions(artifact.entity, artifact.project, artifact.collection):
            other.aliases = [alias for alias in other.aliases if alias not in aliases]
        artifact.aliases = list(dict.fromkeys([*artifact.aliases, *aliases]))
