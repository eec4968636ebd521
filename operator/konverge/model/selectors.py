"""Label selectors: their text (`app=web,tier in (a,b),!old`) or their object form flows in, a predicate over labels out.

The meaning is the API server's: `!=` and `notin` also match an object that lacks the key; no selector at all (None)
matches nothing, an empty one everything.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self


class Operator(StrEnum):
    """How a requirement compares, named as in `matchExpressions`."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. Raises: ValueError when the key or a value cannot stand on an object."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        _check_key(self.key)
        takes_values = self.operator in {Operator.IN, Operator.NOT_IN}
        if takes_values and not self.values:
            raise ValueError(f"selector on {self.key!r}: {self.operator} needs at least one value")
        if not takes_values and self.values:
            raise ValueError(f"selector on {self.key!r}: {self.operator} takes no values")
        for value in self.values:
            if value and not (len(value) <= _MAX_NAME and _NAME.fullmatch(value)):
                raise ValueError(f"selector on {self.key!r}: {value!r} cannot be a label's value; {_NAME_RULE}")

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with `labels` meets the requirement."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                negated = self.operator is Operator.NOT_IN
                if len(self.values) == 1:
                    return f"{self.key}{'!=' if negated else '='}{next(iter(self.values))}"
                return f"{self.key} {'notin' if negated else 'in'} ({','.join(sorted(self.values))})"


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements that must all hold. Its `str` is the text that the API server takes as `labelSelector`."""

    requirements: tuple[Requirement, ...] = ()
    never: bool = False
    """Whether it matches nothing at all, whatever the requirements."""

    @classmethod
    def everything(cls) -> Self:
        """The selector that matches every object."""
        return cls()

    @classmethod
    def nothing(cls) -> Self:
        """The selector that matches no object. It has no text form."""
        return cls(never=True)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form; an empty text matches everything. Raises: ValueError that shows the text."""
        return cls(tuple(_Parser(text).requirements()))

    @classmethod
    def of(cls, selector: Mapping[str, Any] | None) -> Self:
        """Read the object form with `matchLabels` and `matchExpressions`; None matches nothing.

        Raises: ValueError on an unknown field or operator, or on a key or value that cannot be a label's.
        """
        if selector is None:
            return cls.nothing()
        unknown = set(selector) - {"matchLabels", "matchExpressions"}
        if unknown:
            raise ValueError(
                f"selector has unknown fields {', '.join(sorted(unknown))}; write matchLabels or matchExpressions"
            )
        found = [
            Requirement(key, Operator.IN, frozenset({value}))
            for key, value in (selector.get("matchLabels") or {}).items()
        ]
        found += [_expression(expression) for expression in selector.get("matchExpressions") or ()]
        return cls(tuple(found))

    @property
    def specificity(self) -> int:
        """The number of requirements: of two selectors that match, the one with more says more."""
        return len(self.requirements)

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with `labels` is selected; None counts as no labels."""
        known = labels or {}
        return not self.never and all(requirement.matches(known) for requirement in self.requirements)

    def __str__(self) -> str:
        return "<nothing>" if self.never else ",".join(map(str, self.requirements))


_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)
_DOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*", re.ASCII)
_MAX_NAME: Final = 63
_MAX_DOMAIN: Final = 253
_NAME_RULE: Final = "use up to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
_TOKEN = re.compile(r"\s*(?:(?P<mark>==|!=|[=!(),])|(?P<word>[^\s=!(),<>]+))")


def _check_key(key: str) -> None:
    domain, slash, name = key.rpartition("/")
    if slash and not (len(domain) <= _MAX_DOMAIN and _DOMAIN.fullmatch(domain)):
        raise ValueError(f"label key {key!r}: the part before '/' must be a lower-case DNS name")
    if not (len(name) <= _MAX_NAME and _NAME.fullmatch(name)):
        raise ValueError(f"{key!r} cannot be a label's key; {_NAME_RULE}")


def _expression(expression: Mapping[str, Any]) -> Requirement:
    operator = expression.get("operator")
    if operator not in list(Operator):
        raise ValueError(f"selector operator {operator!r} is unknown; write one of {', '.join(Operator)}")
    return Requirement(str(expression.get("key", "")), Operator(operator), frozenset(expression.get("values") or ()))


class _Parser:
    """Recursive descent over the tokens of one text. `in` and `notin` are operators only after a key."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._scan(text))
        self._next = 0

    def _scan(self, text: str) -> Iterable[str]:
        at, end = 0, len(text.rstrip())
        while at < end:
            token = _TOKEN.match(text, at)
            if token is None:
                raise self._error(f"unexpected {text[at:].lstrip()[0]!r}")
            yield token["mark"] or token["word"]
            at = token.end()

    def _error(self, what: str) -> ValueError:
        return ValueError(f"selector {self._text!r}: {what}; write it like app=web,tier in (a,b),!old")

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def requirements(self) -> Iterable[Requirement]:
        if not self._tokens:
            return
        while True:
            yield self._requirement()
            symbol = self._take()
            if not symbol:
                return
            if symbol != ",":
                raise self._error(f"expected ',' before {symbol!r}")

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._take()
            return Requirement(self._word("a key"), Operator.DOES_NOT_EXIST)
        key = self._word("a key")
        match self._peek():
            case "" | ",":
                return Requirement(key, Operator.EXISTS)
            case "=" | "==":
                return Requirement(key, Operator.IN, self._one_value())
            case "!=":
                return Requirement(key, Operator.NOT_IN, self._one_value())
            case "in":
                return Requirement(key, Operator.IN, self._several_values())
            case "notin":
                return Requirement(key, Operator.NOT_IN, self._several_values())
            case other:
                raise self._error(f"expected an operator after {key!r}, not {other!r}")

    def _word(self, what: str) -> str:
        symbol = self._take()
        if not symbol or symbol in {"=", "==", "!=", "!", "(", ")", ","}:
            raise self._error(f"expected {what}" + (f", not {symbol!r}" if symbol else " at the end"))
        return symbol

    def _one_value(self) -> frozenset[str]:
        self._take()
        return frozenset({self._value()})

    def _value(self) -> str:
        return "" if self._peek() in {"", ",", ")"} else self._word("a value")

    def _several_values(self) -> frozenset[str]:
        self._take()
        if self._take() != "(":
            raise self._error("expected '(' after in or notin")
        values = [self._value()]
        while (symbol := self._take()) == ",":
            values.append(self._value())
        if symbol != ")":
            raise self._error("expected ')'")
        return frozenset(values)
