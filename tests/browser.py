"""A real browser without a window, for tests of pages that people look at."""

import contextlib
import os
import shutil
import time

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
)
PATIENCE_S = 30.0


class Browser:
    """A browser that was started for tests."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, path, *, width=1300, height=900, scheme="light", touch=False):
        """Open a file, as on a screen of some size and a system of some colours."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": touch}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        self.set_scheme(scheme)
        self.driver.get_log("browser")
        self.driver.get(path.resolve().as_uri())
        self.wait_for("return document.documentElement.dataset.ready === 'yes'")

    def set_scheme(self, scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        (found,) = self.find_all(selector)
        return found

    def find_all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def click(self, selector):
        element = self.find(selector)
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        element.click()

    def show(self, selector):
        element = self.find(selector)
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        return element

    def drag(self, element, start, end):
        """Press a mouse button on an element, and let it go elsewhere; both as shares of its height."""
        from selenium.webdriver.common.action_chains import ActionChains

        height = element.rect["height"]
        first, last = (round((share - 0.5) * height) for share in (start, end))
        actions = ActionChains(self.driver, duration=20)
        actions.move_to_element_with_offset(element, 0, first).click_and_hold()
        actions.move_by_offset(0, (last - first) // 2).move_by_offset(0, (last - first + 1) // 2)
        actions.release().perform()

    def wait_for(self, script, *arguments):
        """Wait until a script returns something, and return it."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := self.run(script, *arguments)):
            assert time.monotonic() < deadline, f"never came true: {script}"
            time.sleep(0.02)
        return found

    def complaints(self):
        """Return what the browser complained of since the page was opened."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@contextlib.contextmanager
def start_browser(folder):
    """Start Chromium; where there is none the test is skipped, except in CI."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
    driver_program = shutil.which("chromedriver")
    if not (program and driver_program):
        reason = "the packages chromium and chromium-driver are not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(f"In CI nothing is left untested: {reason}.")
        pytest.skip(reason)
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={folder}", "--window-size=1300,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_program))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
