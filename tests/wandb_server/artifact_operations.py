"""The GraphQL operations that concern artifacts."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from wandb_server.artifacts import ServedArtifact
from wandb_server.run_operations import page
from wandb_server.runs import storage_id
from wandb_server.world import World

Variables = dict[str, Any]


class ArtifactOperations:
    """Answers to operations by their name; ``base_url`` leads to the files."""

    def __init__(self, world: World, base_url: Callable[[], str]) -> None:
        self._world = world
        self._store = world.artifacts
        self._base_url = base_url
        self.table: dict[str, Callable[[str, Variables], Any]] = {
            "ArtifactType": self._artifact_type,
            "CreateArtifact": self._create,
            "CreateArtifactManifest": self._create_manifest,
            "UpdateArtifactManifest": self._update_manifest,
            "CreateArtifactFiles": self._create_files,
            "CommitArtifact": self._commit,
            "ArtifactByID": lambda query, values: {"artifact": self._fields(self._by_id(values))},
            "ArtifactMembershipByName": self._membership_by_name,
            "UseArtifact": self._use,
            "FetchArtifactManifest": self._manifest,
            "ArtifactManifest": self._manifest,
            "GetArtifactMembershipFileUrls": self._files,
            "ArtifactMembershipFiles": self._files,
            "RunOutputArtifacts": self._outputs,
            "DeleteArtifact": self._delete,
        }

    def _by_id(self, values: Variables) -> ServedArtifact:
        wanted = values.get("id") or values.get("artifactID") or values.get("artifact_id")
        return self._store.by_id(wanted or values["input"]["artifactID"])

    def _project(self, artifact: ServedArtifact) -> dict[str, Any]:
        return {
            "id": storage_id("Project", "v1", artifact.project, artifact.entity),
            "internalId": storage_id("ProjectInternalId", artifact.project),
            "name": artifact.project,
            "entity": {"name": artifact.entity},
        }

    def _collection(self, artifact: ServedArtifact) -> dict[str, Any]:
        return {
            "__typename": "ArtifactSequence",
            "id": storage_id("ArtifactSequence", artifact.project, artifact.collection),
            "name": artifact.collection,
            "project": self._project(artifact),
        }

    def _aliases(self, artifact: ServedArtifact) -> list[dict[str, Any]]:
        return [
            {
                "__typename": "ArtifactAlias",
                "id": storage_id("ArtifactAlias", artifact.id, alias),
                "alias": alias,
                "artifactCollection": self._collection(artifact),
            }
            for alias in artifact.aliases
        ]

    def _fields(self, artifact: ServedArtifact) -> dict[str, Any]:
        versions = self._store.versions(artifact.entity, artifact.project, artifact.collection)
        latest = versions[-1] if versions else None
        return {
            "__typename": "Artifact",
            "id": artifact.id,
            "artifactSequence": {
                **self._collection(artifact),
                "latestArtifact": latest and {"id": latest.id, "versionIndex": latest.version},
            },
            "versionIndex": artifact.version,
            "artifactType": {"name": artifact.type},
            "description": artifact.description,
            "metadata": json.dumps(artifact.metadata),
            "ttlDurationSeconds": -2,
            "ttlIsInherited": True,
            "tags": [],
            "historyStep": None,
            "state": artifact.state,
            "size": sum(entry["size"] for entry in artifact.entries.values()),
            "digest": artifact.digest,
            "digestAlgorithm": "MANIFEST_MD5",
            "commitHash": None,
            "fileCount": len(artifact.entries),
            "createdAt": artifact.created_at,
            "updatedAt": artifact.created_at,
            "aliases": self._aliases(artifact),
        }

    def _artifact_type(self, query: str, values: Variables) -> Any:
        entity = values.get("entity") or self._world.default_entity
        if (entity, values["project"]) not in self._world.projects:
            return {"project": None}
        found = self._store.find(entity, values["project"], values["name"])
        return {"project": {"artifact": found and self._fields(found)}}

    def _create(self, query: str, values: Variables) -> Any:
        wanted = values.get("input") or values
        entity, project = wanted["entityName"], wanted["projectName"]
        self._world.create_project(entity, project)
        made = ServedArtifact(
            number=len(self._store.artifacts) + 1,
            entity=entity,
            project=project,
            collection=wanted.get("artifactCollectionName") or wanted["artifactCollectionNames"][0],
            type=wanted["artifactTypeName"],
            digest=wanted["digest"],
            blobs=self._store.blobs(entity, project),
            run=wanted.get("runName"),
            description=wanted.get("description"),
            metadata=json.loads(wanted.get("metadata") or "{}"),
            aliases=[alias["alias"] for alias in wanted.get("aliases") or []],
        )
        return {"createArtifact": {"artifact": self._fields(self._store.add(made))}}

    def _manifest_file(self, artifact: ServedArtifact) -> dict[str, Any]:
        url = f"{self._base_url()}/manifests/{quote(artifact.id, safe='')}"
        return {"id": artifact.id, "uploadUrl": url, "uploadHeaders": [], "directUrl": url}

    def _create_manifest(self, query: str, values: Variables) -> Any:
        made = {"id": values["artifactID"], "file": self._manifest_file(self._by_id(values))}
        return {"createArtifactManifest": {"artifactManifest": made}}

    def _update_manifest(self, query: str, values: Variables) -> Any:
        artifact = self._store.by_id(values["artifactManifestID"])
        made = {"id": artifact.id, "file": self._manifest_file(artifact)}
        return {"updateArtifactManifest": {"artifactManifest": made}}

    def _blob_url(self, artifact: ServedArtifact, digest: str, name: str) -> str:
        parts = (artifact.entity, artifact.project, digest, name)
        return f"{self._base_url()}/blobs/" + "/".join(quote(part, safe="") for part in parts)

    def _create_files(self, query: str, values: Variables) -> Any:
        edges = []
        for wanted in values["input"]["artifactFiles"]:
            artifact = self._store.by_id(wanted["artifactID"])
            url = self._blob_url(artifact, wanted["md5"], wanted["name"])
            node = {
                "storagePath": f"wandb_artifacts/{wanted['md5']}",
                "uploadUrl": None if wanted["md5"] in artifact.blobs else url,
                "uploadHeaders": [],
                "uploadMultipartUrls": None,
                "artifact": {"id": artifact.id},
            }
            edges.append({"node": node})
        return {"createArtifactFiles": {"files": {"edges": edges}}}

    def _commit(self, query: str, values: Variables) -> Any:
        artifact = self._by_id(values)
        self._store.commit(artifact)
        return {"commitArtifact": {"artifact": self._fields(artifact)}}

    def _find(self, values: Variables, name: str) -> ServedArtifact | None:
        entity = values.get("entity") or self._world.default_entity
        return self._store.find(entity, values["project"], name)

    def _membership(self, artifact: ServedArtifact) -> dict[str, Any]:
        return {
            "__typename": "ArtifactCollectionMembership",
            "id": storage_id("ArtifactCollectionMembership", artifact.id),
            "versionIndex": artifact.version,
            "createdAt": artifact.created_at,
            "aliases": self._aliases(artifact),
            "artifactCollection": self._collection(artifact),
            "artifact": self._fields(artifact),
        }

    def _membership_by_name(self, query: str, values: Variables) -> Any:
        artifact = self._find(values, values["name"])
        found = artifact and self._membership(artifact)
        return {"project": {"artifactCollectionMembership": found}}

    def _use(self, query: str, values: Variables) -> Any:
        wanted = values.get("input") or values
        artifact = self._store.by_id(wanted["artifactID"])
        artifact.used_by.append(wanted["runName"])
        return {"useArtifact": {"artifact": self._fields(artifact)}}

    def _manifest(self, query: str, values: Variables) -> Any:
        file = self._manifest_file(self._by_id(values))
        return {"artifact": {"currentManifest": {"file": file}}}

    def _files(self, query: str, values: Variables) -> Any:
        artifact = self._find(values, f"{values['collection']}:{values['alias']}")
        if artifact is None:
            return {"project": {"artifactCollection": None}}
        names = values.get("fileNames") or sorted(artifact.entries)
        nodes = [self._file_fields(artifact, name) for name in names if name in artifact.entries]
        files = page(nodes, values.get("perPage") or 50, values.get("cursor"))
        collection = {
            **self._collection(artifact),
            "artifactMembership": {"files": {"totalCount": len(nodes), **files}},
        }
        return {"project": {"artifactCollection": collection}}

    def _file_fields(self, artifact: ServedArtifact, name: str) -> dict[str, Any]:
        entry = artifact.entries[name]
        url = self._blob_url(artifact, entry["digest"], name)
        return {
            "__typename": "File",
            "id": storage_id("File", artifact.id, name),
            "name": name,
            "url": url,
            "directUrl": url,
            "sizeBytes": entry["size"],
            "storagePath": None,
            "mimetype": None,
            "updatedAt": artifact.created_at,
            "digest": entry["digest"],
            "md5": entry["digest"],
        }

    def _outputs(self, query: str, values: Variables) -> Any:
        nodes = [
            self._fields(artifact)
            for artifact in self._store.artifacts
            if (artifact.entity, artifact.project) == (values["entity"], values["project"])
            and artifact.run == values["run"]
        ]
        found = page(nodes, values.get("perPage") or 50, values.get("cursor"))
        return {"project": {"run": {"artifacts": {"totalCount": len(nodes), **found}}}}

    def _delete(self, query: str, values: Variables) -> Any:
        artifact = self._by_id(values)
        artifact.state = "DELETED"
        return {"result": {"artifact": {"id": artifact.id}}, "deleteArtifact": {"artifact": {}}}
