"""The proxy that the environment asks for, by Go's rules, so that what kubectl reaches is reached here too.

HTTPS_PROXY and NO_PROXY flow in, a URL or nothing flows out. The standard library knows no address ranges in NO_PROXY,
and clusters are commonly excepted by range (`10.0.0.0/8`).
"""

import ipaddress
from urllib.request import getproxies_environment, proxy_bypass

from yarl import URL


def is_loopback(server: str) -> bool:
    """Whether the URL `server` is on this machine."""
    host = URL(server).host or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def environment_proxy(server: str) -> str:
    """The proxy's URL for the URL `server`; empty when it is to be reached directly."""
    proxies = getproxies_environment()
    url = URL(server)
    proxy = proxies.get(url.scheme, "")
    excepted = proxies.get("no", "")
    if not proxy or is_loopback(server) or proxy_bypass(url.authority):
        return ""
    if any(_in_range(url.host or "", entry.strip()) for entry in excepted.split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _in_range(host: str, entry: str) -> bool:
    try:
        return "/" in entry and ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:  # a name is in no range
        return False
