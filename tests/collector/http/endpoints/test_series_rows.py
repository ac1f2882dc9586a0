"""Cached rows of series: computed again once their own releases change."""

import pytest

from pansketch import WindowId, encode
from pansketch_collector.http.endpoints.caches import BARE_ROW_SIZE, SeriesRows
from pansketch_collector.periods.series import SeriesQuestion, series
from pansketch_collector.queries.generator_registry import GeneratorChoice
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection
from pansketch_fleet.protocol import topics
from pansketch_fleet.settings.device_spec import schedule_offset, window_index
from tests.seeded_noise import noise_of_test

AIR = Selection("air")
AUTO = GeneratorChoice()
MINUTES = 600


@pytest.fixture
def site(make_site):
    found = make_site()
    found.fill()
    return found


@pytest.fixture
def minutes(make_site, arrive):
    """A stream with windows of ten minutes; adds those of a device."""
    site = make_site()
    text = site.path.read_text()
    site.path.write_text(text.replace("window: 1d", "window: 10m", 1))

    def add(device, *numbers, readings=((20.0, 0.0),) * 50):
        (stream,) = [each for each in site.config.streams if each.name == "air"]
        messages = []
        for number in numbers:
            start = number * MINUTES + schedule_offset(device, MINUTES)
            window = WindowId(device, "air", number, start, start + MINUTES)
            spec = stream.spec.for_window(window_index(start, MINUTES))
            sketch = spec.start(noise_of_test())
            sketch.update_many(readings)
            release = encode(sketch.release(noise_of_test(), window))
            messages.append(arrive(topics.release("testing", device, "air"), release))
        site.commit(messages)

    site.add = add
    return site


def test_of_short_windows_only_the_row_of_a_new_release_is_computed_again(minutes):
    """The first marks of all windows of an hour change with each release."""
    rows, question = SeriesRows(), SeriesQuestion("mean", ("temp",), "window", smooth=True)

    def computed(expected):
        found, numbers = series_of(minutes, question, rows, seconds=MINUTES)
        assert sorted(set(numbers)) == expected
        assert found == series_of(minutes, question, SeriesRows())[0], "as without a cache"

    minutes.add("one", 7, 8, 9)
    computed([7, 8, 9])
    computed([])
    minutes.add("one", 10)
    computed([10])
    minutes.add("two", 8)
    computed([8])
    with store.opened(minutes.config.collector.database) as opened:
        opened.exclude("two", None, None, 0)
    computed([7, 8, 9, 10])


TEMP = SeriesQuestion("mean", ("temp",), "window", smooth=True)


def series_of(site, asked, rows, choice=AUTO, selection=AIR, seconds=86_400):
    """The answer with the cached rows, and the first days of the rows that were computed."""
    computed = []

    def noted(reader, name, releases, answer):
        def counted():
            computed.append(name[1].since // seconds)
            return answer()

        return rows.answering(reader, name, releases, counted)

    with reading(site.config.collector.database) as reader:
        return series(reader, site.config, selection, choice, asked, noted), computed


@pytest.mark.parametrize("question", [TEMP, SeriesQuestion("count", ("temp > 22",), "day")])
@pytest.mark.parametrize("stream", ["air", "pairs", "sums"])
def test_rows_are_computed_again_once_their_own_releases_change(site, arrive, stream, question):
    """Each answer equals the one without a cache, which is the control."""
    rows, selection = SeriesRows(), Selection(stream)
    _, first = series_of(site, question, rows, selection=selection)
    again, repeated = series_of(site, question, rows, selection=selection)
    assert (first[:3], repeated) == ([1, 2, 4], [])
    assert again == series_of(site, question, SeriesRows(), selection=selection)[0]
    topic = topics.release("testing", "one", stream)
    site.commit([arrive(topic, site.release("one", stream, 5))])
    with_new, changed = series_of(site, question, rows, selection=selection)
    assert changed == [5]
    assert with_new == series_of(site, question, SeriesRows(), selection=selection)[0]
    assert len(with_new.rows) == len(again.rows) + 1


def test_an_excluded_window_and_other_questions_have_rows_of_their_own(site):
    rows = SeriesRows()
    assert series_of(site, TEMP, rows)[1] == [1, 2, 4]
    with store.opened(site.config.collector.database) as opened:
        opened.exclude("one", 2 * 86_400, 3 * 86_400, 0)
    found, computed = series_of(site, TEMP, rows)
    assert (2 in computed, [row.releases for row in found.rows]) == (True, [2, 1, 2])
    assert found == series_of(site, TEMP, SeriesRows())[0]
    other = SeriesQuestion("quantile", ("temp", "0.5"), "window")
    assert series_of(site, other, rows)[1] == [1, 2, 4]
    assert series_of(site, TEMP, rows, GeneratorChoice("kdtree"))[1] == [1, 2, 4]
    assert series_of(site, TEMP, rows, selection=Selection("air", devices=frozenset(["one"])))[1]
    rows.forget()
    assert series_of(site, TEMP, rows)[1] == [1, 2, 4]


def test_only_the_rows_asked_for_last_are_kept(site):
    """The named devices of a selection count as well."""
    rows = SeriesRows(max_size=3 * BARE_ROW_SIZE)
    assert series_of(site, TEMP, rows)[1] == [1, 2, 4]
    assert series_of(site, TEMP, rows)[1] == []
    series_of(site, SeriesQuestion("mean", ("temp",), "window"), rows, GeneratorChoice("kdtree"))
    assert series_of(site, TEMP, rows)[1] == [1, 2, 4]
    both = Selection("air", devices=frozenset(["one", "two"]))
    series_of(site, TEMP, rows, selection=both)
    assert series_of(site, TEMP, rows, selection=both)[1] == [1, 2, 4]
