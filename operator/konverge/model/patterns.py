r"""Regular expressions on both sides: a pattern flows in; what the server's RE2 lacks or reads otherwise flows out.

pydantic's engine counts the digits, letters and spaces of all scripts where RE2 counts those of ASCII. Where the server
takes less for it, that is harmless; where it takes more (`\D`), it would let in what the model then refuses.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import SchemaError

_PARTS: Final = re.compile(
    r"""
    \\[pP]\{\^?(?P<property>[^}]*)\}
    | \\(?P<escape>.)
    | \[(?P<class>\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*)\]
    | (?P<lacks>
        \(\?(?!P?<[A-Za-z_]|[imsU-]*[:)])                           # look-around, atomic and conditional groups, other flags
        | (?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??(?:[*+]|\{[0-9])       # possessive repetition, repeated repetition
        | \{(?:[0-9]+,)?(?:[0-9]{5,}|[2-9][0-9]{3}|1(?!000)[0-9]{3}) # more than 1000 times
    )
    """,
    re.DOTALL | re.VERBOSE,
)
_IN_CLASS: Final = re.compile(r"\[:\^?[a-z]+:\]|\\(?P<escape>.)|(?P<lacks>\[|&&|--|~~)", re.DOTALL)
_ESCAPES: Final = frozenset("aftnrvxQECpPdDsSwWbBAz0")
"""The letters and digits that mean something behind a backslash in RE2; the others are errors there."""
_SCRIPTS: Final = frozenset({
    "Arabic", "Armenian", "Bengali", "Cyrillic", "Devanagari", "Georgian", "Greek", "Han", "Hangul", "Hebrew", "Hiragana",
    "Katakana", "Latin", "Tamil", "Thai",
})  # fmt: skip
_WIDER: Final = frozenset("DWSbB")
_CATEGORY: Final = re.compile(r"[A-Z][a-z]?")


def trouble(pattern: str) -> tuple[str, str] | None:
    """What is wrong with a pattern for the server, and what to write instead; None when it will do."""
    for part, lacking, wider in _findings(pattern):
        if lacking:
            return (
                f"the pattern {pattern!r} has {part!r}, which RE2 lacks",
                "write it without look-around and back-references, or as a Cel rule",
            )
        if wider:
            return (
                f"in the pattern {pattern!r} the server reads {part!r} by ASCII, and would take more than the model",
                "name the characters, as in [^0-9]",
            )
    return None


def _findings(pattern: str) -> Iterator[tuple[str, bool, bool]]:
    """Parts of a pattern, each with whether RE2 lacks it, and whether it takes more there."""
    for found in _PARTS.finditer(pattern):
        if found["class"] is not None:
            negated = found["class"].startswith("^")
            for inner in _IN_CLASS.finditer(found["class"].removeprefix("^").removeprefix("]")):
                wider = (inner["escape"] or "") in (_WIDER | {"d", "w", "s"} if negated else _WIDER)
                yield found[0], bool(inner["lacks"]) or _unknown(inner["escape"] or ""), wider
        elif found["property"] is not None:
            known = found["property"] in _SCRIPTS or _CATEGORY.fullmatch(found["property"]) is not None
            yield found[0], not known, False
        else:
            escape = found["escape"] or ""
            yield found[0], bool(found["lacks"]) or _unknown(escape), escape in _WIDER


def _unknown(escape: str) -> bool:
    return escape in {"<", ">"} or (escape.isascii() and escape.isalnum() and escape not in _ESCAPES)


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern is found in the text, by pydantic's engine where that reads it."""
    try:
        TypeAdapter(Annotated[str, Field(pattern=pattern)]).validate_python(text)
    except ValidationError:
        return False
    except SchemaError:
        return re.search(pattern, text) is not None
    return True
