"""The page in a real browser, over a real server with real releases."""

import json
import re
from pathlib import Path

import pytest

from pansketch_fleet.protocol import topics
from testbed.embedded_broker import EmbeddedBroker

AXE = (Path(__file__).with_name("axe") / "axe.min.js").read_text(encoding="utf-8")
SERIOUS = {"serious", "critical"}
VIEWS = {
    "fleet": ("#fleet", ["Devices", "one", "online", "1970-01-06", "topic"]),
    "readings": ("#stream/air", ["Histogram", "median", "6 noisy releases of 2 devices"]),
    "sums": ("#stream/sums", ["answers no quantiles", "by m2m"]),
    "keys": ("#stream/doors", ["Different keys over time", "epsilon 100 per key"]),
    "empty": ("#stream/silent", ["Nothing is stored of this stream yet"]),
    "privacy": ("#privacy", ["air", "any one reading", "What it costs", "Not covered"]),
    "api": ("#api", ["GET /v1/streams/{stream}/sample", "how many (needed)", "csv | json"]),
}
LOOKS = {
    "light": (1100, "light"),
    "dark": (1100, "dark"),
    "phone": (390, "light"),
    "phone-dark": (390, "dark"),
}


def found_by_axe(tab):
    """The violations that axe-core reports as serious or critical, with their elements."""
    tab.run(AXE)
    found = tab.run("axe.run(document).then(r => r.violations)")
    return [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in SERIOUS]


def foreign(tab, server):
    return [
        url
        for url in tab.requests
        if not url.startswith((server.url, "data:", "blob:" + server.url)) and url != "about:blank"
    ]


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_renders(shared, tab, shoot, view, look):
    width, scheme = LOOKS[look]
    fragment, says = VIEWS[view]
    tab.emulate(width, 900, scheme)
    tab.open(f"{shared.url}/{fragment}")
    text = tab.text()
    for words in says:
        assert words in text
    tab.run("document.querySelectorAll('details').forEach(each => { each.open = true })")
    assert found_by_axe(tab) == []
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")
    assert tab.errors == []
    assert foreign(tab, shared) == []
    assert shoot(f"{view}-{look}").stat().st_size > 5000


def test_axe_and_the_console_would_notice(shared, tab):
    """Negative control: a field without a label, an inline script, another host."""
    tab.open(f"{shared.url}/#stream/air")
    tab.run("document.querySelector('main label').remove()")
    assert "select-name" in [name for name, _ in found_by_axe(tab)]
    tab.run("document.body.append(Object.assign(document.createElement('script'), {text: 'x()'}))")
    tab.run("fetch('http://127.0.0.2:9/').catch(() => 0)")
    assert any("Content Security Policy" in error for error in tab.errors)
    tab.requests.append("http://elsewhere.example/chart.js")
    assert "http://elsewhere.example/chart.js" in foreign(tab, shared)


def test_pictures_have_a_text_alternative(shared, tab, get):
    tab.open(f"{shared.url}/#stream/air")
    labels = tab.run("[...document.querySelectorAll('svg')].map(e => e.getAttribute('aria-label'))")
    assert labels[0].startswith("Histogram of temp (degC), 32 bins, estimated.")
    assert labels[1].startswith("Mean of temp in each of 3 windows, with its level.")
    assert labels[2].startswith("Density of temp (degC) and wind")
    assert tab.run("document.querySelectorAll('circle.point').length") == 3
    # The third day is missing, and parts the line and its band.
    assert tab.run("document.querySelectorAll('path.band').length") == 2
    over_time = {"question": "mean", "attribute": "temp", "by": "window", "smooth": "true"}
    row = get("/v1/streams/air/query", **over_time).json()["rows"][0]["level"]
    assert f"{row['value']:.3f} ± {row['standard_error']:.3f} degC" in tab.run(
        "document.querySelectorAll('details')[1].textContent"
    )
    asked = {"question": "histogram", "attribute": "temp"}
    answer = get("/v1/streams/air/query", **asked).json()
    rows = tab.run("document.querySelector('details tbody').rows.length")
    bars = tab.run("document.querySelectorAll('rect.bar').length")
    assert rows == bars == len(answer["share"])
    median = get("/v1/streams/air/query", question="quantile", attribute="temp", q=0.5).json()
    assert f"{median['value']:.3f} ± {median['standard_error']:.3f} degC" in tab.text()
    captions = tab.run("[...document.querySelectorAll('figcaption')].map(e => e.textContent)")
    for caption in captions:
        assert "no reading is in it" in caption
        assert answer["guarantee"] in caption
        assert "standard error" in caption


def filled(site):
    site.fill()
    return site


def fill_in(tab, name, value):
    """Enters a value as a person would: the value, then its events."""
    tab.run(
        f"(field => {{ field.value = {json.dumps(value)};"
        "field.dispatchEvent(new Event('input', {bubbles: true}));"
        "field.dispatchEvent(new Event('change', {bubbles: true})); })"
        f"(document.querySelector('form [name={name}]'))"
    )


def show(tab):
    tab.run("document.querySelector('form.asking button').click()")


def test_what_is_chosen_changes_the_picture_and_the_address(shared, tab):
    tab.open(f"{shared.url}/#stream/air")
    before = tab.run("document.querySelector('svg').outerHTML")
    fill_in(tab, "attribute", "wind")
    show(tab)
    tab.until("document.querySelector('svg')?.getAttribute('aria-label').includes('of wind')")
    assert tab.run("document.querySelector('svg').outerHTML") != before
    fill_in(tab, "devices", "one")
    fill_in(tab, "to", "1970-01-03T00:00")
    show(tab)
    tab.until("document.querySelector('figcaption').textContent.includes('1 noisy release of 1')")
    assert tab.run("location.hash").startswith("#stream/air?attribute=wind")
    assert "devices=one" in tab.run("document.getElementById('download').href")
    tab.run("history.back()")
    tab.until("document.querySelector('figcaption')?.textContent.includes('of 2 devices')")
    assert tab.errors == []


def test_another_generator_and_another_stream(shared, tab):
    tab.open(f"{shared.url}/#stream/air")
    fill_in(tab, "generator", "kdtree")
    show(tab)
    tab.until("document.querySelector('figcaption').textContent.includes('by kdtree')")
    fill_in(tab, "stream", "doors")
    tab.until("document.querySelector('svg')?.getAttribute('aria-label').startsWith('Different')")
    # The third window is missing, so the line is parted there.
    assert tab.run("document.querySelectorAll('path.line').length") == 2


def test_an_unanswerable_question_shows_a_reason(shared, tab):
    tab.open(f"{shared.url}/#stream/air?devices=nine")
    assert "no release of air from device 'nine'" in tab.text()
    tab.open(f"{shared.url}/#stream/%3Cimg%20src=x%20onerror=x()%3E")
    assert "There is no stream <img src=x onerror=x()>." in tab.text()
    assert tab.run("document.querySelectorAll('main img').length") == 0


@pytest.mark.parametrize("shape", ["csv", "json", "parquet"])
def test_a_download_is_what_the_api_sends(shared, tab, get, tmp_path, soon, shape):
    tab.open(f"{shared.url}/#stream/air?devices=one")
    tab.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    fill_in(tab, "format", shape)
    tab.run(
        "(form => { form.querySelector('[type=number]').value = 70;"
        "form.querySelectorAll('[type=number]')[1].value = 5;"
        "form.dispatchEvent(new Event('input')); })"
        "(document.querySelector('section form'))"
    )
    tab.run("document.getElementById('download').click()")
    file = tmp_path / f"air.{shape}"
    soon(file.exists)
    asked = {"rows": 70, "format": shape, "seed": 5, "devices": "one"}
    assert file.read_bytes() == get("/v1/streams/air/sample", **asked).content


def test_a_token_is_asked_for_and_kept_in_the_tab_alone(
    make_site, serve, tab, token, tmp_path, soon
):
    site = make_site(collector=f"token: {token}")
    site.fill()
    with serve(site) as server:
        tab.open(f"{server.url}/#stream/air")
        tab.until("document.getElementById('asks').open")
        assert found_by_axe(tab) == []
        for given in ("wrong", token):
            tab.run(f"document.getElementById('asks-token').value = {given!r}")
            tab.run("document.querySelector('#asks-form button').click()")
            if given == "wrong":
                tab.until("document.getElementById('asks-problem').textContent")
        tab.until("document.querySelector('svg')")
        kept = tab.run("JSON.stringify([{...localStorage}, document.cookie, location.href])")
        assert token not in kept
        assert all(token not in url for url in tab.requests)
        assert tab.run("sessionStorage.length") == 1
        folder = tmp_path / "downloads"
        tab.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        tab.run("document.getElementById('download').click()")
        soon((folder / "air.csv").exists)
        assert (folder / "air.csv").read_text().startswith("temp,wind\n")
        tab.run("sessionStorage.clear()")
        assert server.program.stop() == 0


def test_the_page_refreshes_pauses_when_hidden_and_reports_an_unreachable_server(
    make_site, serve, connect, tab
):
    with (
        EmbeddedBroker(None) as broker,
        connect(broker.port, "testing", "one") as peer,
        serve(filled(make_site(url=broker.url))) as server,
    ):
        server.program.wait_until_connected()
        tab.open(f"{server.url}/#stream/air")
        tab.run("window.sameDocument = true")
        release = server.site.release("one", "air", 5)
        peer.exchange(topics.release("testing", "one", "air"), release)
        tab.until("document.querySelector('figcaption').textContent.includes('7 noisy releases')")
        tab.run(
            "Object.defineProperty(document, 'hidden', {get: () => window.away, configurable: 1});"
            "window.away = true; document.dispatchEvent(new Event('visibilitychange'))"
        )
        tab.until("document.getElementById('main').getAttribute('aria-busy') === 'false'")
        seen = len(tab.requests)
        tab.run("new Promise(done => setTimeout(done, 5500))")  # longer than between two requests
        assert len(tab.requests) == seen
        tab.run("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
        tab.until("document.getElementById('says').textContent === ''")
        assert tab.errors == []
        assert len(tab.requests) > seen
        network = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        for offline in (True, False):
            tab.call("Network.emulateNetworkConditions", offline=offline, **network)
            tab.run("document.dispatchEvent(new Event('visibilitychange'))")
            says = "document.getElementById('says').textContent.includes('does not')"
            tab.until(says if offline else f"!{says}")
            assert "Histogram" in tab.text()
        freshness = tab.run("document.getElementById('freshness').textContent")
        assert re.fullmatch(r"As of \d\d:\d\d:\d\d UTC", freshness)
        assert tab.run("window.sameDocument")
        tab.call("Page.navigate", url="about:blank")
        assert server.program.stop() == 0


LAGGING = """
    window.lagging = true;
    window.asked = [];
    const fetched = window.fetch;
    window.fetch = async (...given) => {
      window.asked.push(String(given[0]));
      const found = await fetched(...given);
      if (!window.lagging) return found;
      const headers = new Headers(found.headers);
      headers.set("Pansketch-Newer-Releases", "true");
      return new Response(found.status === 304 ? null : found.body,
        { status: found.status, headers });
    };
"""


@pytest.mark.parametrize(("view", "question"), [("stream", "histogram"), ("changes", "drift")])
def test_pictures_are_asked_for_until_they_rest_on_all_releases(shared, tab, view, question):
    """A model that is still reused answers from fewer releases, and no later release may come."""
    lists = "window.asked.filter((each) => each.endsWith('v1/streams')).length"
    questions = f"window.asked.filter((each) => each.includes('query?question={question}')).length"
    tab.open(f"{shared.url}/")
    tab.run(LAGGING)
    tab.run(f"location.hash = '#{view}/air'")
    tab.until(f"{questions} >= 3")  # nothing new is stored
    tab.run("window.lagging = false")
    seen = tab.run(lists)
    tab.until(f"{lists} >= {seen + 2}")  # of these the first one may have begun before
    tab.until("document.getElementById('main').getAttribute('aria-busy') === 'false'")
    current, seen = tab.run(questions), tab.run(lists)
    tab.until(f"{lists} >= {seen + 2}")
    tab.until("document.getElementById('main').getAttribute('aria-busy') === 'false'")
    assert tab.run(questions) == current
    assert tab.errors == []


def press(tab, key):
    about = {"key": key, "code": key, "windowsVirtualKeyCode": {"Tab": 9, "Enter": 13}[key]}
    typed = {"text": "\r"} if key == "Enter" else {}
    tab.call("Input.dispatchKeyEvent", type="keyDown", **about, **typed)
    tab.call("Input.dispatchKeyEvent", type="keyUp", **about)


def test_the_keyboard_is_enough(shared, tab):
    tab.open(f"{shared.url}/#fleet")
    press(tab, "Tab")
    assert tab.run("document.activeElement.id") == "skip"
    press(tab, "Enter")
    assert tab.run("document.activeElement.id") == "main"
    press(tab, "Tab")
    assert tab.run("document.activeElement.getAttribute('aria-label')") == "Devices"
    tab.run("document.querySelector('nav a[href=\"#privacy\"]').focus()")
    press(tab, "Enter")
    tab.until("document.querySelector('h1').textContent === 'Privacy'")
    assert tab.run("document.activeElement.id") == "main"
