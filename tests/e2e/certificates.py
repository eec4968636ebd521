"""Certificates for what a test serves on the loopback interface."""

import base64
from pathlib import Path

from tests.certificates import pair, write


def certify(directory: Path) -> str:
    """Put a fresh self-signed pair for the loopback address into `directory`; return its CA bundle."""
    certificate, key = pair("webhooks")
    write(directory, certificate, key)
    return base64.b64encode(certificate).decode()
