"""A series of answers as a table for people and as JSON for programs."""

import json

from pansketch import Estimate
from pansketch_collector.periods.series import Row, Series
from pansketch_collector.queries import answers
from pansketch_fleet.text_table import aligned
from pansketch_fleet.units import utc_text

NO_VALUE = "-"
NOISY = "their noise outweighs their readings, or none of their releases can be used"


def as_table(found: Series) -> str:
    """An aligned table, a line about its releases, and a line for each reason of a refusal."""
    unit = next((f" ({e.answer.unit})" for e in found.rows if e.answer and e.answer.unit), "")
    shares = any(e.answer is not None and e.answer.share is not None for e in found.rows)
    header = [
        *(["device"] if found.by == "device" else [found.by, "devices"]),
        "releases",
        "readings",
        f"value{unit}",
        *(["share"] if shares else []),
        *([] if found.step is None else ["level"]),
    ]
    rows = [_cells(found, row, shares) for row in found.rows]
    lines = aligned(header, rows, {*header[1:]})
    noisy = [row for row in found.rows if row.answer is None]
    if noisy:
        lines.append(f"note: {len(noisy)} of {len(found.rows)} rows have no value: {NOISY}")
        # A window that is over gets no more readings, so what it lacks is no advice.
        others = [row for row in noisy if found.by == "device" or row.readings is None]
        lines += [f"note: {text}" for text in dict.fromkeys(row.refusal for row in others)][:3]
    if found.step is not None:
        step = f"{found.step:.3g}{unit.replace('(', '').replace(')', '')}"
        lines.append(f"level: moves by {step} (standard deviation) from one {found.by} to the next")
    return "\n".join([*lines, answers.source(found)])


def _cells(found: Series, row: Row, shares: bool) -> list[str]:
    who = [row.device] if found.by == "device" else [utc_text(row.start), str(row.devices)]
    if found.by == "day":
        who[0] = who[0][:10]
    share = row.answer.share if row.answer is not None else None
    return [
        *who,
        str(row.releases),
        with_error(row.readings),
        "too noisy"
        if row.answer is None
        else with_error(Estimate(row.answer.value, row.answer.standard_error)),
        *([NO_VALUE if share is None else f"{100 * share:.3g} %"] if shares else []),
        *([] if found.step is None else [with_error(row.level)]),
    ]


def with_error(estimate: Estimate | None) -> str:
    """`12.3 ± 0.4`; a dash where there is none."""
    if estimate is None:
        return NO_VALUE
    digits = answers.decimals_of(estimate.standard_error)
    value, error = estimate.value, estimate.standard_error
    return f"{answers.shown(value, digits)} ± {answers.shown(error, digits)}"


def as_json(found: Series) -> str:
    """`as_object` on one line."""
    return json.dumps(as_object(found), ensure_ascii=False)


def as_object(found: Series) -> dict[str, object]:
    """All rows and what they rest on; what is not known is None."""
    unit = next((row.answer.unit for row in found.rows if row.answer), None)
    step = {} if found.step is None else {"step": answers.known(found.step)}
    rows = [_object(found, row) for row in found.rows]
    return {"by": found.by, "unit": unit, **step, "rows": rows} | answers.basis(found)


def _object(found: Series, row: Row) -> dict[str, object]:
    answer = row.answer
    object_: dict[str, object] = {
        "from": utc_text(row.start),
        "to": utc_text(row.end),
        **({"device": row.device} if found.by == "device" else {}),
        "releases": row.releases,
        "devices": row.devices,
        "readings": estimate_object(row.readings),
        "value": None if answer is None else answers.known(answer.value),
        "standard_error": None if answer is None else answers.known(answer.standard_error),
    }
    if answer is not None and answer.share is not None:
        object_["share"] = answers.known(answer.share)
    if answer is None:
        object_ |= {"refused": row.refusal, "more_windows": row.more_windows}
    return object_ | ({} if found.step is None else {"level": _level(found, row.level)})


def _level(found: Series, level: Estimate | None) -> dict[str, object] | None:
    """As `estimate_object`, with its `band`: two standard errors around it, inside the bounds."""
    object_ = estimate_object(level)
    if object_ is None or level is None:
        return None
    low, high = found.bounds
    ends = level.value - 2 * level.standard_error, level.value + 2 * level.standard_error
    return object_ | {"band": [answers.known(min(max(end, low), high)) for end in ends]}


def estimate_object(estimate: Estimate | None) -> dict[str, object] | None:
    """`value` and `standard_error`; None where there is none."""
    if estimate is None:
        return None
    return {
        "value": answers.known(estimate.value),
        "standard_error": answers.known(estimate.standard_error),
    }
