"""The OpenAPI document of the API, made from its operations and the schemas of their answers."""

from __future__ import annotations

from typing import Any

from partita.picture.marks import MARKS
from partita.status.board import STATES
from partita.web.api import OPERATIONS, Operation, Parameter

PATH = "/api/openapi.json"

_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer"}
_FLAG: dict[str, Any] = {"type": "boolean"}
_MOMENT: dict[str, Any] = {"type": "string", "format": "date-time"}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _object(**properties: Any) -> dict[str, Any]:
    """An object that always has all of these, and nothing else."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


_NUMBER: dict[str, Any] = {"type": "number"}
_BY = {"by_asset": _or_null(_TEXT), "by_key": _or_null(_TEXT), "by_label": _or_null(_TEXT)}
_LINE = _object(name=_TEXT, unit=_TEXT, first=_COUNT, step=_COUNT, labels=_list(_TEXT))
SCHEMAS: dict[str, dict[str, Any]] = {
    "Version": _object(
        as_of=_MOMENT, ledger_version=_COUNT, lake=_TEXT, tenant=_TEXT, workspace=_TEXT, problem=_or_null(_TEXT),
        may_run=_FLAG,
    ),
    "Overview": _object(
        as_of=_MOMENT, ledger_version=_COUNT, partitions=_COUNT, assets=_list(_ref("Asset")),
        attention=_list(
            _object(asset=_TEXT, trouble=_or_null(_TEXT), marks={"type": "object", "additionalProperties": _COUNT})
        ),
    ),
    "Asset": _object(
        asset=_TEXT, partitions=_COUNT, not_current=_COUNT, states=_object(**dict.fromkeys(STATES, _COUNT)),
        marks=_object(**{mark.name: _COUNT for mark in MARKS}), dimensions=_list(_TEXT), upstreams=_list(_TEXT),
        table=_or_null(_TEXT), freshness=_or_null(_TEXT), code_version=_or_null(_TEXT), registered=_FLAG,
        retired=_FLAG, trouble=_or_null(_TEXT), last_materialized=_or_null(_MOMENT), stale_since=_or_null(_MOMENT),
        last_run=_or_null(_TEXT), last_run_at=_or_null(_MOMENT), last_run_outcome=_or_null(_TEXT),
    ),
    "Heatmap": _object(
        as_of=_MOMENT, asset=_TEXT, view=_TEXT, whole=_TEXT, across=_LINE, down=_LINE, states=_list(_TEXT),
        mixes=_list(_list(_COUNT)), cells=_list(_COUNT), names=_list(_TEXT), partitions=_COUNT, unplaced=_COUNT,
    ),
    "Status": _object(
        key=_TEXT, label=_TEXT, mark=_TEXT, states=_list(_TEXT), reasons=_list(_TEXT), outcome=_or_null(_TEXT),
        run_id=_or_null(_TEXT), error=_or_null(_TEXT), place=_or_null(_list(_COUNT)), stale_since=_or_null(_MOMENT),
        materialized_at=_or_null(_MOMENT), attempted_at=_or_null(_MOMENT), running_since=_or_null(_MOMENT),
    ),
    "Partitions": _object(
        as_of=_MOMENT, asset=_TEXT, total=_COUNT, rows=_list(_ref("Status")), next=_or_null(_COUNT),
        previous=_or_null(_COUNT),
    ),
    "Partition": _object(
        as_of=_MOMENT, asset=_TEXT, key=_TEXT, label=_TEXT, id=_TEXT, table=_or_null(_TEXT),
        values=_list(_object(name=_TEXT, type=_TEXT, value=_TEXT)),
        status={"anyOf": [_ref("Status"), {"type": "null"}]},
    ),
    "Why": _object(
        asset=_TEXT, key=_TEXT, display_status=_TEXT, facts=_list(_TEXT),
        causes=_list(
            _object(code=_TEXT, since=_MOMENT, text=_TEXT, upstream={"anyOf": [_ref("Why"), {"type": "null"}]})
        ),
    ),
    "History": _object(
        asset=_TEXT, key=_TEXT,
        events=_list(_object(
            kind=_TEXT, event_id=_TEXT, run_id=_or_null(_TEXT), attempt=_or_null(_COUNT), code_version=_or_null(_TEXT),
            rows=_or_null(_COUNT), files=_or_null(_COUNT), bytes=_or_null(_COUNT), table_version=_or_null(_TEXT),
            error=_or_null(_TEXT), at=_MOMENT, started_at=_or_null(_MOMENT),
        )),
    ),
    "Files": _object(
        asset=_TEXT, key=_TEXT, table=_or_null(_TEXT), folders=_list(_TEXT), count=_COUNT,
        files=_list(_object(path=_TEXT, spec_id=_COUNT, rows=_or_null(_COUNT), bytes=_COUNT, shared=_FLAG)),
    ),
    "Table": _object(
        table=_TEXT, uri=_TEXT, format=_TEXT, version=_TEXT, columns=_list(_object(name=_TEXT, type=_TEXT)),
        specs=_list(_object(
            spec_id=_COUNT, fields=_TEXT, current=_FLAG, since=_or_null(_MOMENT), partitions=_COUNT, files=_COUNT,
            rows=_or_null(_COUNT), bytes=_COUNT,
        )),
        partitions=_COUNT, files=_COUNT, bytes=_COUNT, warnings=_list(_object(kind=_TEXT, text=_TEXT)),
        largest=_list(_object(
            key=_or_null(_TEXT), spec_id=_COUNT, files=_COUNT, rows=_or_null(_COUNT), bytes=_COUNT, label=_TEXT
        )),
        versions=_COUNT,
        history=_list(_object(version=_TEXT, at=_or_null(_MOMENT), operation=_or_null(_TEXT),
            details={"type": "object", "additionalProperties": _TEXT})),
    ),
    "Plan": _object(
        plan=_TEXT, made_at=_MOMENT, needs=_list(_TEXT), select=_list(_TEXT), where=_or_null(_TEXT),
        time_zone=_or_null(_TEXT),
        chosen=_or_null(_COUNT), partitions=_COUNT, batches=_COUNT, bytes=_or_null(_COUNT), held_back=_COUNT,
        assets=_list(_object(
            asset=_TEXT, partitions=_COUNT, batches=_COUNT, bytes=_or_null(_COUNT),
            reasons={"type": "object", "additionalProperties": _COUNT},
            rows=_list(_object(
                key=_TEXT, label=_TEXT, batch=_COUNT, reasons=_list(_TEXT), since=_or_null(_MOMENT), **_BY
            )),
        )),
        held=_list(_object(asset=_TEXT, key=_TEXT, label=_TEXT, reasons=_list(_TEXT), **_BY)), may_run=_FLAG,
    ),
    "Run": _object(
        number=_COUNT, run_id=_or_null(_TEXT), state=_TEXT, ok=_or_null(_FLAG), total=_COUNT, done=_COUNT,
        succeeded=_COUNT, failed=_COUNT, skipped=_COUNT, cancelled=_COUNT, left=_or_null(_COUNT), seconds=_NUMBER,
        assets=_list(_TEXT), error={"anyOf": [_object(type=_TEXT, message=_TEXT), {"type": "null"}]},
        failures=_list(_object(asset=_TEXT, key=_TEXT, label=_TEXT, error=_TEXT)), failures_more=_COUNT,
    ),
    "Event": {"type": "object", "properties": {"event": _TEXT, "text": _or_null(_TEXT)}, "required": ["event", "text"]},
    "Error": _object(error=_object(type=_TEXT, message=_TEXT)),
}  # fmt: skip


def document() -> dict[str, Any]:
    """The API as OpenAPI 3.1 describes it."""
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Partita", "version": "1", "description": "What `partita ui` shows of a lake, as JSON."},
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {"schemas": SCHEMAS, "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(operation: Operation) -> dict[str, Any]:
    refused = {"description": "refused, with the way out", "content": _json("Error")}
    return {
        "operationId": operation.name,
        "summary": operation.about,
        "parameters": [_parameter(parameter) for parameter in operation.parameters],
        "responses": {
            "200": {"description": operation.about, "content": _content(operation)},
            "400": refused,
            "404": refused,
            "401": {"description": "no token, or a wrong one", "content": _json("Error")},
            "403": {"description": "another host or origin, or a run that isn't allowed", "content": _json("Error")},
            "409": {"description": "a run is at work", "content": _json("Error")},
            "503": {"description": "too many questions of this kind at once", "content": _json("Error")},
            "504": {"description": "the answer took longer than the time limit", "content": _json("Error")},
            "500": {"description": "a fault of the server's, which its log says", "content": _json("Error")},
        },
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    one = {"type": parameter.type}
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.about,
        "required": parameter.required,
        "schema": _list(one) if parameter.many else one,
    }


def _content(operation: Operation) -> dict[str, Any]:
    """Of a stream, what the data of each event is."""
    if operation.stream is None:
        return _json(operation.answer)
    return {"text/event-stream": {"schema": _ref(operation.answer)}}


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": _ref(name)}}
