"""JSON documents for the fake API server: copies, merge patches and JSON patches. Pure; arguments are never changed."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import orjson

JsonDict: TypeAlias = dict[str, Any]


class PatchFailed(ValueError):
    """A JSON patch that is well formed and does not fit the document: a failed test, a path that is not there."""


class PatchMalformed(ValueError):
    """A JSON patch that is none."""


def copy_json(value: Any) -> Any:
    """A deep copy as it would come off the wire. Raises: TypeError for what JSON cannot carry."""
    try:
        return orjson.loads(orjson.dumps(value, default=_plain, option=_ONLY_JSON))
    except orjson.JSONEncodeError as error:
        raise TypeError(str(error.__cause__ or error)) from error


_ONLY_JSON = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return list(value)
    raise TypeError(f"{value!r} cannot be sent as JSON; convert it first")


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: null deletes, objects merge, everything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902. Raises: PatchFailed; PatchMalformed."""
    if not isinstance(operations, Sequence) or isinstance(operations, str | bytes):
        raise PatchMalformed("a JSON patch is a list of operations")
    root = {"": copy_json(target)}
    for operation in operations:
        _operate(root, operation)
    return root[""]


def _operate(root: JsonDict, operation: Any) -> None:
    if not isinstance(operation, Mapping) or not isinstance(operation.get("path"), str):
        raise PatchMalformed(f"{operation!r} is no operation with a path")
    path = _pointer(operation["path"])
    match operation.get("op"):
        case "add":
            _add(root, path, _value(operation))
        case "remove":
            _remove(root, path)
        case "replace":
            _get(root, path)
            _remove(root, path)
            _add(root, path, _value(operation))
        case "move":
            _add(root, path, _remove(root, _source(operation)))
        case "copy":
            _add(root, path, copy_json(_get(root, _source(operation))))
        case "test":
            _test(root, path, operation)
        case unknown:
            raise PatchMalformed(f"unknown operation {unknown!r}")


def _test(root: JsonDict, path: list[str], operation: Mapping[str, Any]) -> None:
    expected = _value(operation)
    try:
        found = _get(root, path)
    except PatchFailed:
        if expected is None:
            return  # the server's patch library takes an absent member for null
        raise
    if found != expected:
        raise PatchFailed(f"testing value {operation['path']} failed")


def _value(operation: Mapping[str, Any]) -> Any:
    if "value" not in operation:
        raise PatchMalformed(f"operation {operation.get('op')!r} without a value")
    return copy_json(operation["value"])


def _source(operation: Mapping[str, Any]) -> list[str]:
    if not isinstance(operation.get("from"), str):
        raise PatchMalformed(f"operation {operation.get('op')!r} without from")
    return _pointer(operation["from"])


def _pointer(text: str) -> list[str]:
    """The tokens of a JSON pointer, under the root's own empty token."""
    if text and not text.startswith("/"):
        raise PatchMalformed(f"path {text!r} does not start with /")
    return [token.replace("~1", "/").replace("~0", "~") for token in text.split("/")]


def _get(container: Any, path: list[str]) -> Any:
    for token in path:
        if isinstance(container, list):
            container = container[_index(container, token, len(container) - 1)]
        elif isinstance(container, dict) and token in container:
            container = container[token]
        else:
            raise PatchFailed(f"no member {token!r} on the way to {'/'.join(path)!r}")
    return container


def _add(root: JsonDict, path: list[str], value: Any) -> None:
    parent, last = _get(root, path[:-1]), path[-1]
    if isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(parent, last, len(parent)), value)
    elif isinstance(parent, dict):
        parent[last] = value
    else:
        raise PatchFailed(f"{'/'.join(path[:-1])!r} can hold no members")


def _remove(root: JsonDict, path: list[str]) -> Any:
    value, parent = _get(root, path), _get(root, path[:-1])
    del parent[_index(parent, path[-1], len(parent) - 1) if isinstance(parent, list) else path[-1]]
    return value


def _index(items: list[Any], token: str, last: int) -> int:
    if not token.isdecimal() or int(token) > last:
        raise PatchFailed(f"no index {token!r} in a list of {len(items)}")
    return int(token)
