"""docs/grafana/quire.json shows what /metrics of a running server has."""

import itertools
import json
import re
import socket

import pytest
from quire_server import ROOT, wait_until

BOARD = json.loads((ROOT / "docs/grafana/quire.json").read_text())
PANELS = BOARD["panels"]
TARGETS = [pytest.param(target["expr"], id=f"{panel['title']}-{target['refId']}")
           for panel in PANELS for target in panel.get("targets", [])]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel.get("targets", [])]
SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^}]*)\}")
# Prometheus itself adds it to what it scrapes.
OF_PROMETHEUS = {"instance"}


@pytest.fixture(scope="module")
def samples(server):
    """Every name that /metrics shows, with the labels it has, once all there is has happened."""
    server.complete("Once upon", max_tokens=4)
    body = json.dumps({"prompt": "a", "max_tokens": 180, "n": 16, "stream": True})
    with socket.create_connection(server.address) as leaving:
        leaving.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}"
                        f"\r\n\r\n{body}".encode())
        leaving.recv(64)
    wait_until(lambda: b"quire_http_answers_cut_total" in server.get("/metrics").body,
               "a client that left is counted")
    found = {}
    for name, labels in re.findall(r"^([a-zA-Z_:]\w*(?::\w+)?)(?:\{(.*)\})? \S+$",
                                   server.get("/metrics").body.decode(), re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


@pytest.mark.parametrize("expr", TARGETS)
def test_metrics_and_labels_exist(samples, expr):
    selectors = SELECTOR.findall(expr)
    assert selectors
    labels = set(OF_PROMETHEUS)
    for name, matchers in selectors:
        assert name in samples, name
        labels |= samples[name]
        used = set(re.findall(r"(\w+)(?:=~|!=|=)", matchers))
        assert used <= samples[name] | OF_PROMETHEUS, name
    for names in re.findall(r"\b(?:by|on) \(([^)]*)\)", expr):
        assert set(names.split(", ")) <= labels, expr


@pytest.mark.parametrize("expr", TARGETS)
def test_expressions_are_well_formed(expr):
    """Brackets match, counters are only looked at as rates, quantiles come from buckets."""
    left = re.sub(r'"[^"]*"', "", expr)
    while left != (left := re.sub(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}", "", left)):
        pass
    assert not set(left) & set("()[]{}"), expr
    for match in SELECTOR.finditer(expr):
        is_counter = match[1].endswith(("_total", "_bucket", "_sum", "_count"))
        in_rate = expr[:match.start()].endswith("rate(")
        assert in_rate == is_counter == expr[match.end():].startswith("[$__rate_interval]"), expr
    if "histogram_quantile" in expr:
        assert "_bucket{" in expr and re.search(r"by \(le[,)]", expr), expr


def test_every_metric_is_shown(samples):
    shown = {name for expr in EXPRESSIONS for name, _ in SELECTOR.findall(expr)}
    family = re.compile(r"_(bucket|sum|count)$")
    ours = {family.sub("", name) for name in samples}
    assert ours == {family.sub("", name) for name in shown}


def test_variables_ask_for_labels_that_exist(samples):
    variables = {variable["name"]: variable for variable in BOARD["templating"]["list"]}
    for variable in variables.values():
        if variable["type"] == "query":
            name, label = re.fullmatch(r"label_values\(([\w:]+)(?:\{.*\})?, (\w+)\)",
                                       variable["query"]["query"]).groups()
            assert name in samples and label in samples[name] | OF_PROMETHEUS
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(PANELS)))
    assert used - {"__rate_interval"} == set(variables)


def test_panels_lie_beside_each_other():
    assert BOARD["schemaVersion"] >= 38  # Grafana 10.0
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    cells = [(panel["gridPos"]["x"] + dx, panel["gridPos"]["y"] + dy) for panel in PANELS
             for dx, dy in itertools.product(range(panel["gridPos"]["w"]),
                                             range(panel["gridPos"]["h"]))]
    assert len(set(cells)) == len(cells) and max(x for x, _ in cells) < 24
