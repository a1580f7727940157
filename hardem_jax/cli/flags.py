"""Commands whose flags follow from those of another dataclass."""

import copy
import dataclasses
import inspect
import re
from collections.abc import Collection, Mapping
from typing import Any, get_type_hints

_ATTRIBUTES = "Attributes:\n"


def with_flags_of(
    *kinds: type,
    name: str,
    base: type,
    without: Collection[str] = (),
    defaults: Mapping[str, Any],
    **attributes: Any,
) -> Any:
    """A subclass of ``base`` that has the fields of other dataclasses, too, and their docstrings.

    Args:
        kinds: dataclasses; of fields with one name, those of the first count, and then ``base``'s.
        name: of the class.
        base: a dataclass with a method ``run``.
        without: names of fields of ``kinds`` that it does not get.
        defaults: field -> its default, in place of that in ``kinds`` or ``base``.
        **attributes: of the class.
    """
    fields: dict[str, tuple[str, Any, dataclasses.Field]] = {}
    docs: dict[str, str] = {}
    for kind in (base, *reversed(kinds)):
        hints = get_type_hints(kind, include_extras=True)
        skipped = () if kind is base else without
        for field in dataclasses.fields(kind):
            if field.name not in skipped:
                fields[field.name] = (field.name, hints[field.name], copy.copy(field))
        docs |= {name: text for name, text in _docs(kind).items() if name not in skipped}
    for field, default in defaults.items():
        fields[field][2].default = default
    about = inspect.cleandoc(base.__doc__ or "").partition(_ATTRIBUTES)[0]
    attributes["__doc__"] = f"{about}{_ATTRIBUTES}{''.join(docs.values())}"
    attributes["__module__"] = kinds[0].__module__
    return dataclasses.make_dataclass(
        name, fields.values(), bases=(base,), namespace=attributes, frozen=True, kw_only=True
    )


def _docs(kind: type) -> dict[str, str]:
    """Field -> its lines in the docstrings of a dataclass and its bases."""
    docs = {}
    for base in reversed(kind.__mro__):
        text = inspect.cleandoc(vars(base).get("__doc__") or "").partition(_ATTRIBUTES)[2]
        for lines in re.split(r"^(?=    \w+: )", text, flags=re.MULTILINE)[1:]:
            docs[lines.partition(":")[0].strip()] = f"{lines.rstrip()}\n"
    return docs
