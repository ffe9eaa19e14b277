"""A real browser without a window, for tests of pages that people look at.

Chromium is driven through chromedriver by the protocol that browsers share (WebDriver: a few
requests with JSON to 127.0.0.1); a package for that would bring many others along.
"""

import base64
import contextlib
import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1300,900",
)
PATIENCE_S = 30.0
PRESS, RELEASE = ({"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp"))
# The key under which the protocol hands elements over.
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
# Whatever proxy the environment names, this stays on the machine.
DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
CENTER = "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})"


class Element:
    """An element of a page."""

    def __init__(self, browser, name):
        self._browser = browser
        self.name = name

    @property
    def text(self):
        return self._browser.ask("GET", f"element/{self.name}/text")

    @property
    def rect(self):
        return self._browser.ask("GET", f"element/{self.name}/rect")

    def attribute(self, name):
        return self._browser.run("return arguments[0].getAttribute(arguments[1])", self, name)

    def click(self):
        self._browser.ask("POST", f"element/{self.name}/click", {})

    def type(self, text):
        self._browser.ask("POST", f"element/{self.name}/clear", {})
        self._browser.ask("POST", f"element/{self.name}/value", {"text": text})


class Browser:
    """A session with a browser."""

    def __init__(self, address):
        self._address = address

    def ask(self, method, path, content=None):
        """Send a request of the protocol, and return the answer."""
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"{self._address}/{path}".rstrip("/"), data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with DIRECTLY.open(request, timeout=PATIENCE_S) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(json.load(error)["value"]["message"]) from None

    def open(self, path, *, width=1300, height=900, scheme="light", touch=False):
        """Open a file, as on a screen of some size and a system of some colours."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": touch}
        self._command("Emulation.setDeviceMetricsOverride", screen)
        self.set_scheme(scheme)
        self.complaints()
        self.ask("POST", "url", {"url": path.resolve().as_uri()})
        self.wait_for("return document.documentElement.dataset.ready === 'yes'")

    def set_scheme(self, scheme):
        """Let the system be light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._command("Emulation.setEmulatedMedia", {"features": features})

    def _command(self, name, parameters):
        self.ask("POST", "goog/cdp/execute", {"cmd": name, "params": parameters})

    def run(self, script, *arguments):
        """Run a script in the page, and return what it returns."""
        given = [{ELEMENT: item.name} if isinstance(item, Element) else item for item in arguments]
        return self.ask("POST", "execute/sync", {"script": script, "args": given})

    def wait_for(self, script, *arguments):
        """Wait until a script returns something, and return it."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := self.run(script, *arguments)):
            assert time.monotonic() < deadline, f"never came true: {script}"
            time.sleep(0.02)
        return found

    def find_all(self, selector):
        found = self.ask("POST", "elements", {"using": "css selector", "value": selector})
        return [Element(self, item[ELEMENT]) for item in found]

    def find(self, selector):
        (found,) = self.find_all(selector)
        return found

    def show(self, selector):
        """Scroll to an element."""
        element = self.find(selector)
        self.run(CENTER, element)
        return element

    def click(self, selector):
        self.show(selector).click()

    def drag(self, element, start, end):
        """Press the mouse on an element and let it go elsewhere, at shares of its height."""
        height = element.rect["height"]
        half = round((end - start) * height / 2)
        # From the first place on by distances: the page may replace the element meanwhile.
        first = {"origin": {ELEMENT: element.name}, "y": round((start - 0.5) * height)}
        places = [first, {"origin": "pointer", "y": half}, {"origin": "pointer", "y": half}]
        moves = [{"type": "pointerMove", "duration": 20, "x": 0, **place} for place in places]
        self._use_mouse([moves[0], PRESS, *moves[1:], RELEASE])

    def point_and_click(self, element):
        """Move the mouse onto an element, as a plot wants it, and click where it is."""
        place = {"type": "pointerMove", "origin": {ELEMENT: element.name}, "x": 0, "y": 0}
        # A plot notices the mouse a moment after it came.
        pause = {"type": "pause", "duration": 200}
        self._use_mouse([{**place, "duration": 50}, pause, PRESS, RELEASE])

    def _use_mouse(self, actions):
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}}
        self.ask("POST", "actions", {"actions": [{**mouse, "actions": actions}]})

    @property
    def title(self):
        return self.ask("GET", "title")

    def complaints(self):
        """Return what the browser has complained of since the last time."""
        return [entry["message"] for entry in self.ask("POST", "se/log", {"type": "browser"})]

    def screenshot(self, path):
        """Save what is to be seen as a PNG."""
        path.write_bytes(base64.b64decode(self.ask("GET", "screenshot")))


def find_programs():
    """Return Chromium and its driver; None for what is not installed."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None), shutil.which("chromedriver")


@contextlib.contextmanager
def start_browser(profile):
    """Start Chromium with a profile of its own; where there is none, skip, except in CI."""
    program, driver = find_programs()
    if not (program and driver):
        reason = "the packages chromium and chromium-driver are not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(f"In CI nothing is left untested: {reason}.")
        pytest.skip(reason)
    process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, text=True)
    try:
        port = next(
            m[1] for line in process.stdout if (m := re.search(r"successfully on port (\d+)", line))
        )
        options = {"binary": program, "args": [*FLAGS, f"--user-data-dir={profile}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        address = f"http://127.0.0.1:{port}/session"
        content = {"capabilities": {"alwaysMatch": wanted}}
        session = Browser(f"http://127.0.0.1:{port}").ask("POST", "session", content)
        browser = Browser(f"{address}/{session['sessionId']}")
        try:
            yield browser
        finally:
            browser.ask("DELETE", "")
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
