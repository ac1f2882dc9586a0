"""The keys of one entry of `attributes:`."""

from typing import Annotated, get_args

from pansketch.domain import Scale
from pansketch_fleet.settings.section import KeyDoc, Section


class AttributeSection(Section, frozen=True):
    """An attribute of a reading: a number within public bounds, a category, or a constant.

    A number has `low` and `high`. A category has `categories` only, and a constant `constant` only.
    """

    low: Annotated[
        float | None,
        KeyDoc(
            "The lower bound. Values below it are clipped.",
            "-30",
            unit="unit of the attribute",
            allowed="below `high`",
            default="required for a number",
        ),
    ] = None
    high: Annotated[
        float | None,
        KeyDoc(
            "The upper bound. Values above it are clipped.",
            "50",
            unit="unit of the attribute",
            default="required for a number",
        ),
    ] = None
    unit: Annotated[str, KeyDoc("The unit, for people.", "degC")] = ""
    scale: Annotated[
        str | None,
        KeyDoc(
            "The scale of the cells. `log` has finer cells near zero, `learned` where `knots` are.",
            "log",
            values=get_args(Scale),
            default="`linear`",
        ),
    ] = None
    knots: Annotated[
        list[float] | None,
        KeyDoc(
            "The ends of the parts of a learned scale: `pansketch-collector scales` prints them. "
            "Each part gets as many cells as the others.",
            "[-30, 4, 11, 15, 50]",
            unit="unit of the attribute",
            allowed="rising from `low` to `high`; 3, 5, 9, ... or 1,025 numbers",
            default="required for a learned scale",
        ),
    ] = None
    categories: Annotated[
        list[str] | None,
        KeyDoc(
            "The values of a category.",
            "[clear, cloudy, rain]",
            allowed="1 to 1,024 distinct texts",
            default="not a category",
        ),
    ] = None
    resolution: Annotated[
        float | None,
        KeyDoc(
            "The value around which a log scale becomes linear.",
            "5",
            unit="unit of the attribute",
            allowed="greater than 0",
            default="1",
        ),
    ] = None
    step: Annotated[
        float | None,
        KeyDoc(
            "The sensor's resolution. Readings are counted at the nearest multiple. Records and "
            "quantiles are multiples. Without it, errors of views and hierarchies hold any usual "
            "step that the releases do not exclude, so they may be wider.",
            "0.1",
            unit="unit of the attribute",
            allowed="greater than 0, at most the range",
            default="continuous values",
        ),
    ] = None
    cyclic: Annotated[
        bool | None,
        KeyDoc(
            "Values wrap around instead of being clipped, and `high` equals `low`.",
            "true",
            allowed="not with a log scale",
            default="`false`",
        ),
    ] = None
    atoms: Annotated[
        list[float | str] | None,
        KeyDoc(
            "Values with mass of their own, inside the bounds or not, and `missing`: no value, or "
            "none that can be read. Each has a cell of its own.",
            "[-200, missing]",
            unit="unit of the attribute",
            allowed="up to 8 distinct numbers and `missing`; `missing` alone with `categories`; "
            "sketches of type `views` only",
            default="none: a reading without a value is not counted",
        ),
    ] = None
    constant: Annotated[
        float | None,
        KeyDoc(
            "The value of this attribute in every synthetic record.",
            "3",
            unit="unit of the attribute",
            default="not a constant",
        ),
    ] = None
