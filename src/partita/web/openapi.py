"""The OpenAPI document of the API, made from its operations and the schemas of their responses."""

from __future__ import annotations

from typing import Any

from partita.status.states import MARKS, STATE_FILTERS
from partita.web.api import OPERATIONS, ApiOperation, ApiParameter

OPENAPI_PATH = "/api/openapi.json"

_STRING: dict[str, Any] = {"type": "string"}
_INTEGER: dict[str, Any] = {"type": "integer"}
_BOOLEAN: dict[str, Any] = {"type": "boolean"}
_TIMESTAMP: dict[str, Any] = {"type": "string", "format": "date-time"}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _object(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


_NUMBER: dict[str, Any] = {"type": "number"}
_CAUSE_FIELDS = {
    "by_asset": _nullable(_STRING),
    "by_key": _nullable(_STRING),
    "by_label": _nullable(_STRING),
}
_AXIS_SCHEMA = _object(name=_STRING, unit=_STRING, first=_INTEGER, step=_INTEGER, labels=_array(_STRING))
SCHEMAS: dict[str, dict[str, Any]] = {
    "Version": _object(
        as_of=_TIMESTAMP, ledger_version=_INTEGER, lake=_STRING, tenant=_STRING, workspace=_STRING,
        problem=_nullable(_STRING),
        may_run=_BOOLEAN,
    ),
    "Overview": _object(
        as_of=_TIMESTAMP, ledger_version=_INTEGER, partitions=_INTEGER, assets=_array(_ref("Asset")),
        attention=_array(
            _object(asset=_STRING, trouble=_nullable(_STRING), marks={"type": "object",
            "additionalProperties": _INTEGER})
        ),
    ),
    "Asset": _object(
        asset=_STRING, partitions=_INTEGER, not_current=_INTEGER,
        states=_object(**dict.fromkeys(STATE_FILTERS, _INTEGER)),
        marks=_object(**{mark.name: _INTEGER for mark in MARKS}), dimensions=_array(_STRING), upstreams=_array(_STRING),
        table=_nullable(_STRING), freshness=_nullable(_STRING), code_version=_nullable(_STRING), registered=_BOOLEAN,
        retired=_BOOLEAN, trouble=_nullable(_STRING), last_materialized=_nullable(_TIMESTAMP),
        stale_since=_nullable(_TIMESTAMP),
        last_run=_nullable(_STRING), last_run_at=_nullable(_TIMESTAMP), last_run_outcome=_nullable(_STRING),
    ),
    "Heatmap": _object(
        as_of=_TIMESTAMP, asset=_STRING, view=_STRING, whole=_STRING, across=_AXIS_SCHEMA, down=_AXIS_SCHEMA,
        states=_array(_STRING),
        mixes=_array(_array(_INTEGER)), cells=_array(_INTEGER), names=_array(_STRING), partitions=_INTEGER,
        unplaced=_INTEGER,
    ),
    "Status": _object(
        key=_STRING, label=_STRING, mark=_STRING, states=_array(_STRING), reasons=_array(_STRING),
        outcome=_nullable(_STRING),
        run_id=_nullable(_STRING), error=_nullable(_STRING), place=_nullable(_array(_INTEGER)),
        stale_since=_nullable(_TIMESTAMP),
        materialized_at=_nullable(_TIMESTAMP), attempted_at=_nullable(_TIMESTAMP), running_since=_nullable(_TIMESTAMP),
    ),
    "Partitions": _object(
        as_of=_TIMESTAMP, asset=_STRING, total=_INTEGER, rows=_array(_ref("Status")), next=_nullable(_INTEGER),
        previous=_nullable(_INTEGER),
    ),
    "Partition": _object(
        as_of=_TIMESTAMP, asset=_STRING, key=_STRING, label=_STRING, id=_STRING, table=_nullable(_STRING),
        values=_array(_object(name=_STRING, type=_STRING, value=_STRING)),
        status={"anyOf": [_ref("Status"), {"type": "null"}]},
    ),
    "Why": _object(
        asset=_STRING, key=_STRING, display_status=_STRING, facts=_array(_STRING),
        causes=_array(
            _object(code=_STRING, since=_TIMESTAMP, text=_STRING, upstream={"anyOf": [_ref("Why"), {"type": "null"}]})
        ),
    ),
    "History": _object(
        asset=_STRING, key=_STRING,
        events=_array(_object(
            kind=_STRING, event_id=_STRING, run_id=_nullable(_STRING), attempt=_nullable(_INTEGER),
            code_version=_nullable(_STRING),
            rows=_nullable(_INTEGER), files=_nullable(_INTEGER), bytes=_nullable(_INTEGER),
            table_version=_nullable(_STRING),
            error=_nullable(_STRING), at=_TIMESTAMP, started_at=_nullable(_TIMESTAMP),
        )),
    ),
    "Files": _object(
        asset=_STRING, key=_STRING, table=_nullable(_STRING), folders=_array(_STRING), count=_INTEGER,
        files=_array(_object(path=_STRING, spec_id=_INTEGER, rows=_nullable(_INTEGER), bytes=_INTEGER,
        shared=_BOOLEAN)),
    ),
    "Table": _object(
        table=_STRING, uri=_STRING, format=_STRING, version=_STRING, columns=_array(_object(name=_STRING,
        type=_STRING)),
        specs=_array(_object(
            spec_id=_INTEGER, fields=_STRING, current=_BOOLEAN, since=_nullable(_TIMESTAMP), partitions=_INTEGER,
            files=_INTEGER,
            rows=_nullable(_INTEGER), bytes=_INTEGER,
        )),
        partitions=_INTEGER, files=_INTEGER, bytes=_INTEGER, warnings=_array(_object(kind=_STRING, text=_STRING)),
        largest=_array(_object(
            key=_nullable(_STRING), spec_id=_INTEGER, files=_INTEGER, rows=_nullable(_INTEGER), bytes=_INTEGER,
            label=_STRING
        )),
        versions=_INTEGER, history_gap=_nullable(_STRING),
        history=_array(_object(version=_STRING, at=_nullable(_TIMESTAMP), operation=_nullable(_STRING),
            details={"type": "object", "additionalProperties": _STRING})),
    ),
    "Plan": _object(
        plan=_STRING, made_at=_TIMESTAMP, needs=_array(_STRING), select=_array(_STRING), where=_nullable(_STRING),
        time_zone=_nullable(_STRING),
        chosen=_nullable(_INTEGER), partitions=_INTEGER, batches=_INTEGER, bytes=_nullable(_INTEGER),
        held_back=_INTEGER,
        assets=_array(_object(
            asset=_STRING, partitions=_INTEGER, batches=_INTEGER, bytes=_nullable(_INTEGER),
            reasons={"type": "object", "additionalProperties": _INTEGER},
            rows=_array(_object(
                key=_STRING, label=_STRING, batch=_INTEGER, reasons=_array(_STRING), since=_nullable(_TIMESTAMP),
                **_CAUSE_FIELDS
            )),
        )),
        held=_array(_object(asset=_STRING, key=_STRING, label=_STRING, reasons=_array(_STRING), **_CAUSE_FIELDS)),
        may_run=_BOOLEAN,
    ),
    "Run": _object(
        number=_INTEGER, run_id=_nullable(_STRING), state=_STRING, ok=_nullable(_BOOLEAN), total=_INTEGER,
        done=_INTEGER,
        succeeded=_INTEGER, failed=_INTEGER, skipped=_INTEGER, cancelled=_INTEGER, left=_nullable(_INTEGER),
        seconds=_NUMBER,
        assets=_array(_STRING), error={"anyOf": [_object(type=_STRING, message=_STRING), {"type": "null"}]},
        failures=_array(_object(asset=_STRING, key=_STRING, label=_STRING, error=_STRING)), failures_more=_INTEGER,
    ),
    "Event": {"type": "object", "properties": {"event": _STRING, "text": _nullable(_STRING)}, "required": ["event",
    "text"]},
    "Error": _object(error=_object(type=_STRING, message=_STRING)),
}  # fmt: skip


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the API."""
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Partita", "version": "1", "description": "The data of the pages of `partita ui`, as JSON."},
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {"schemas": SCHEMAS, "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(operation: ApiOperation) -> dict[str, Any]:
    refusal = {"description": "the request can't be answered; the message says why", "content": _json_content("Error")}
    return {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [_parameter(parameter) for parameter in operation.parameters],
        "responses": {
            "200": {"description": operation.summary, "content": _response_content(operation)},
            "400": refusal,
            "404": refusal,
            "401": {"description": "the token is missing or wrong", "content": _json_content("Error")},
            "403": {
                "description": "the host or origin is wrong, or this server does not run plans",
                "content": _json_content("Error"),
            },
            "409": {"description": "another run is in progress", "content": _json_content("Error")},
            "503": {"description": "too many requests of this kind at once", "content": _json_content("Error")},
            "504": {"description": "the request exceeded the time limit", "content": _json_content("Error")},
            "500": {"description": "an internal error; see the log of the server", "content": _json_content("Error")},
        },
    }


def _parameter(parameter: ApiParameter) -> dict[str, Any]:
    schema = {"type": parameter.type}
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.description,
        "required": parameter.is_required,
        "schema": _array(schema) if parameter.is_repeated else schema,
    }


def _response_content(operation: ApiOperation) -> dict[str, Any]:
    """Return the content of a response; for a stream, the schema of the data of each event."""
    if operation.stream_endpoint is None:
        return _json_content(operation.response_schema)
    return {"text/event-stream": {"schema": _ref(operation.response_schema)}}


def _json_content(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": _ref(name)}}
