"""docs/openapi.yaml is well made, and names the routes that the sources add."""

import re
from pathlib import Path

import schemathesis

ROOT = Path(__file__).resolve().parents[2]
ROUTE = re.compile(r'router\.add\(\s*"([A-Z]+)",\s*"([^"]+)"')


def walk(value, path=()):
    """Every object of the document with where it is."""
    if isinstance(value, dict):
        yield path, value
    for key, inner in (value.items() if isinstance(value, dict)
                       else enumerate(value) if isinstance(value, list) else ()):
        yield from walk(inner, (*path, key))


def references(document):
    return {inner["$ref"] for _, inner in walk(document) if isinstance(inner.get("$ref"), str)}


def test_it_is_openapi_3_1(document):
    assert document["openapi"] == "3.1.0"
    schemathesis.openapi.from_dict(document).validate()


def test_it_names_every_route_and_no_other(document):
    added = {(method, path) for file in (ROOT / "src/serve/api").glob("*.cc")
             for method, path in ROUTE.findall(file.read_text())}
    named = {(method.upper(), re.sub(r"\{\w+\}$", "*", path))
             for path, methods in document["paths"].items() for method in methods}
    assert added and named == added


def test_what_is_defined_is_used_and_what_is_used_is_defined(document):
    defined = {f"#/components/{kind}/{name}" for kind, parts in document["components"].items()
               if kind != "securitySchemes" for name in parts}
    assert references(document) == defined


def test_objects_are_closed(document):
    """A field that is not written down is an error, in requests and in answers."""
    free = {"JsonSchema", "IgnoredObject", "parameters"}
    of_any_fields = [path for path, inner in walk(document["components"]["schemas"])
                     if inner.get("type") in ("object", ["object", "null"])
                     and "additionalProperties" not in inner and path[-1] not in free]
    assert of_any_fields == []


def test_its_version_is_the_project_s(document):
    version = re.search(r"project\(quire VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert document["info"]["version"] == version[1]
