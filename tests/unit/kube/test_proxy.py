"""The proxy of the environment, and who is excepted from it."""

import pytest

from konverge.kube.proxy import environment_proxy

PROXY = "http://proxy.example:3128"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("server", "excepted", "proxy"),
    [
        ("https://10.0.0.1:443", "", PROXY),
        ("https://10.0.0.1:443", "192.168.0.0/16, 10.0.0.0/8", ""),
        ("https://11.0.0.1:443", "10.0.0.0/8,nonsense/x", PROXY),
        ("https://api.cluster.example:6443", "10.0.0.0/8", PROXY),
        ("https://api.cluster.example:6443", ".cluster.example", ""),
        ("https://api.cluster.example:6443", "*", ""),
        ("https://[fd00::1]:6443", "fd00::/8", ""),
        ("https://127.0.0.1:6443", "", ""),
        ("https://localhost:6443", "", ""),
        ("http://10.0.0.1:8080", "", ""),
    ],
)
def test_a_server_is_reached_through_the_proxy_unless_excepted(
    monkeypatch: pytest.MonkeyPatch, server: str, excepted: str, proxy: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", excepted)
    assert environment_proxy(server) == proxy


def test_no_proxy_is_asked_for() -> None:
    assert environment_proxy("https://10.0.0.1") == ""


def test_a_proxy_without_a_scheme_speaks_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "proxy.example:3128")
    assert environment_proxy("https://10.0.0.1") == PROXY
