"""The door described by OpenAPI 3.1, made from the same types that read the requests."""

from __future__ import annotations

from typing import Any

import msgspec

from loremesh.node.failures import ErrorSaid
from loremesh.node.verbs import VERBS

PREFIX = "/v1"
REF = "#/components/schemas/{name}"


def describe(version: str) -> dict[str, Any]:
    """The OpenAPI document: one POST per verb, and the health check."""
    types = [kind for verb in VERBS.values() for kind in (verb.params, verb.result)]
    schemas, components = msgspec.json.schema_components([*types, ErrorSaid], ref_template=REF)
    fault = {"description": "What was wrong and what to do", "content": _json(schemas[-1])}
    paths: dict[str, Any] = {}
    for at, verb in enumerate(VERBS.values()):
        content = _json(schemas[2 * at + 1])
        if verb.long:
            content["application/x-ndjson"] = {"schema": {"type": "string"}}
        answers = {"description": "Done", "content": content}
        paths[f"{PREFIX}/{verb.name}"] = {
            "post": {
                "operationId": verb.name,
                "summary": verb.summary,
                "requestBody": {"content": _json(schemas[2 * at])},
                "responses": {"200": answers, "default": fault},
            }
        }
    paths[f"{PREFIX}/health"] = {
        "get": {
            "operationId": "health",
            "summary": "Whether the door is open; needs no token.",
            "security": [],
            "responses": {"200": {"description": "It is"}},
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "loremesh node", "version": version},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
