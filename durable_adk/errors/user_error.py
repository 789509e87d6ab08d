"""Exceptions of user code as JSON, and back (DUR-10).

An exception crosses a process as the names of its class and of its bases, its arguments and
attributes as far as they are JSON, its text, its cause, and the locations in user code through
which it passed. On the other side it is an instance of the same class again, if that exists there.

The received data may be forged. So nothing is imported, and no constructor or setter runs: the
class is one below `Exception` that the process already has, and an instance is filled as pickle
would fill it.
"""

import json
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final, Self, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

MAX_MESSAGE: Final = 8_000
"""Bytes of a message; a failure of megabytes is cut before it reaches the server (1c, D6)."""
MAX_JSON: Final = 4_000
"""Maximum characters of an exception's arguments, and of its attributes; more are omitted."""
MAX_FRAMES: Final = 20
MAX_CAUSES: Final = 3
"""Maximum length of the chain of causes that is kept."""
UNFIT: Final = (StopIteration, StopAsyncIteration, BaseExceptionGroup)
"""Exceptions that Python treats specially where they are raised, or that contain others."""

_RAISED_BY = "__raised_by__"
"""Attribute with the frames of a recreated exception; a note would be in its text."""
_OWN = str(Path(__file__).parent.parent)
_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))


def storable(message: str, limit: int = MAX_MESSAGE) -> str:
    """Cut a text to `limit` bytes of UTF-8 and replace NUL and lone surrogates."""
    text = message[:limit].replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def text_of(error: BaseException) -> str:
    """Return an exception's text, and that of the first ones of a group.

    User code implements `__str__`, which may raise.
    """
    try:
        first = [f"{type(one).__name__}: {text_of(one)}" for one in _members(error)[:MAX_CAUSES]]
        return ": ".join([str(error), *(["; ".join(first)] if first else [])])
    except BaseException:  # noqa: BLE001 - it may raise anything
        return "(its text cannot be read)"


def kept(error: BaseException, name: str) -> Any:
    """Return a value that Python stores on an exception; its class may redefine the attribute."""
    return vars(BaseException)[name].__get__(error)


class UserError(BaseModel):
    """An exception of user code."""

    model_config = ConfigDict(extra="ignore")

    classes: list[str] = Field(min_length=1)
    """The names of its class and of that class's bases below `Exception`, with their modules."""
    text: str = ""
    args: list[Any] = Field(default_factory=list[Any])
    attributes: dict[str, Any] = Field(default_factory=dict[str, Any])
    frames: list[str] = Field(default_factory=list[str])
    """Where it passed through user code: file, line and function, innermost last."""
    cause: Self | None = None
    suppressed: bool = False
    """Whether the exception that was being handled when this one was raised is hidden."""

    @classmethod
    def of(cls, error: BaseException, *, causes: int = MAX_CAUSES) -> Self:
        """Describe an exception."""
        try:
            return cls._of(error, causes)
        except BaseException:  # noqa: BLE001 - its class has user code, for example `__eq__`
            text = storable(text_of(error))
            return cls(classes=[_name(type(error))], text=text, frames=frames_of(error))

    @classmethod
    def _of(cls, error: BaseException, causes: int) -> Self:
        kinds = [kind for kind in type(error).__mro__ if issubclass(kind, Exception)]
        cause = error.__cause__
        return cls(
            classes=[_name(kind) for kind in kinds] or [_name(type(error))],
            text=storable(text_of(error)),
            args=list(error.args) if _is_json(list(error.args)) else [],
            attributes=_attributes(error),
            frames=frames_of(error),
            cause=cls.of(cause, causes=causes - 1) if causes and cause is not None else None,
            suppressed=error.__suppress_context__,
        )

    @classmethod
    def read(cls, detail: Any) -> Self | None:
        """Read the result of `to_detail`; None if it is not one."""
        try:
            return cls.model_validate(detail)
        except ValidationError:
            return None

    def to_detail(self) -> dict[str, Any]:
        """Return the JSON form."""
        return self.model_dump(exclude_defaults=True)

    def found(self) -> Iterator[type[Exception]]:
        """Yield the classes among these that exist here, nearest first."""
        for name in self.classes:
            kind = _find(name)
            if kind is not None and not issubclass(kind, UNFIT):
                yield kind

    def rebuilt(self) -> Exception | None:
        """Return a new instance of the same class; None if it would not have the same text."""
        kind = next(self.found(), None)
        if kind is None or _name(kind) != self.classes[0]:
            return None
        try:
            error = made(kind, self.args)
            self.fill(error)
        except Exception:  # noqa: BLE001 - a class may reject filling in any way
            return None
        return error if storable(text_of(error)) == self.text else None

    def fill(self, error: Exception) -> None:
        """Set the attributes, the cause and the locations of the original on an exception.

        Attributes are set where the interpreter stores them, bypassing setters, which may do
        anything.
        """
        slots = _slots(type(error))
        for name, value in self.attributes.items():
            if name in slots:
                slots[name].__set__(error, value)
            elif not name.startswith("__"):
                vars(error)[name] = value
        if self.cause is not None:
            _set(error, "__cause__", self.cause.rebuilt() or self.cause.substitute())
        _set(error, "__suppress_context__", self.suppressed)
        if self.frames:
            vars(error)[_RAISED_BY] = self.frames

    def substitute(self) -> Exception:
        """Return an exception that names the one that cannot be recreated here."""
        return RuntimeError(f"{self.classes[0].rpartition(':')[2]}: {self.text}")


def made(kind: type[Exception], args: Sequence[Any]) -> Exception:
    """Return an instance of a class without running its own code."""
    builtin = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    error: Exception = builtin.__new__(kind, *args)
    _set(error, "args", tuple(args))
    return error


def _set(error: Exception, name: str, value: object) -> None:
    BaseException.__setattr__(error, name, value)  # the class may define its own


def _members(error: BaseException) -> Sequence[BaseException]:
    return cast("Any", error).exceptions if isinstance(error, BaseExceptionGroup) else ()


def frames_of(error: BaseException, *, causes: int = MAX_CAUSES) -> list[str]:
    """Return where an exception passed through user code: file, line, function, innermost last.

    For a group, and for an error that the runtime made of another one, the list ends where that one
    was raised.
    """
    known = kept(error, "__dict__")
    if _RAISED_BY in known:
        return list(known[_RAISED_BY])
    path = traceback.walk_tb(kept(error, "__traceback__"))
    codes = [(frame.f_code, line) for frame, line in path]
    found = [
        f"{code.co_filename}:{line} in {code.co_name}"
        for code, line in codes
        if not code.co_filename.startswith((_OWN, "<", *_LIBRARIES))
    ]
    is_ours = not codes or codes[-1][0].co_filename.startswith(_OWN)
    inner = next(iter(_members(error)), kept(error, "__cause__") if is_ours else None)
    if inner is not None and causes:
        found += frames_of(inner, causes=causes - 1)
    return found[-MAX_FRAMES:]


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _attributes(error: BaseException) -> dict[str, Any]:
    """Return an exception's attributes, in its dict and in slots, as far as they are JSON."""
    found = {name: getattr(error, name, None) for name in _slots(type(error))} | vars(error)
    kept = {
        name: value
        for name, value in found.items()
        if value is not None and not name.startswith("__") and _is_json(value)
    }
    return kept if _is_json(kept) else {}


def _slots(kind: type[BaseException]) -> dict[str, Any]:
    """Return the slots of a class, and the fields of Python's own classes, by name."""
    return {
        name: member
        for base in kind.__mro__
        if issubclass(base, Exception) and base is not Exception
        for name, member in vars(base).items()
        if isinstance(member, MemberDescriptorType)
        or (isinstance(member, GetSetDescriptorType) and base.__module__ == "builtins")
    }


def _is_json(value: Any) -> bool:
    """Return whether a value is JSON that every store keeps and that is not large."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        same = len(text) <= MAX_JSON and json.loads(text) == value
    except Exception:  # noqa: BLE001 - iterating and comparing may run user code
        return False
    return bool(same) and storable(text, 4 * MAX_JSON) == text and "\\u0000" not in text


def _find(name: str) -> type[Exception] | None:
    """Return the class of that name below `Exception`, if this process has it.

    Of several classes made by the same function, the last one counts; of a module that was loaded
    more than once, for example by a workflow sandbox, the first.
    """
    found = [kind for kind in _below(Exception, set()) if _name(kind) == name]
    if not found:
        return None
    return found[-1] if "<locals>" in name else found[0]


def _below(kind: type[Exception], seen: set[type]) -> Iterator[type[Exception]]:
    if kind not in seen:
        seen.add(kind)
        yield kind
        for child in type.__subclasses__(kind):
            yield from _below(child, seen)
