"""A headless Chromium of the system's packages, for the tests that look at pages as a person does."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

T = TypeVar("T")
WIDTH, HEIGHT = 1600, 1000
SECONDS = 60
GLANCE = 5
BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
FLAGS = (
    "--headless=new",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A container's shared memory is often too small for a page.
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--lang=en-US",
    f"--window-size={WIDTH},{HEIGHT}",
)
INSTALL = (
    "install them: `apt install chromium chromium-driver` on Debian, `apt install chromium-browser "
    "chromium-chromedriver` on Ubuntu, `dnf install chromium chromedriver` on Fedora, "
    "`brew install --cask chromium && brew install chromedriver` on macOS"
)


class Browser:
    """One window; every look waits until the page says what is looked for."""

    def __init__(self, driver: Chrome, base: str) -> None:
        self.driver = driver
        self.base = base

    def open(self, path: str, *expected: str, seconds: float = SECONDS) -> str:
        """Open a page and return its text once it holds everything that is expected."""
        self.driver.get(self.base + path)
        return self.wait_for(*expected, seconds=seconds)

    def wait_for(self, *expected: str, seconds: float = SECONDS) -> str:
        """Return the text of the page once it holds everything that is expected; fail with the text otherwise.

        What is expected twice must be there twice.
        """

        def missing() -> list[str]:
            text = self.text
            return [words for words in expected if text.count(words) < expected.count(words)]

        try:
            WebDriverWait(self.driver, seconds).until(lambda _driver: not missing())
        except Exception:  # noqa: BLE001 - the page's text says more than the driver's error
            pytest.fail(f"{self.driver.current_url} does not say {missing()}; it says:\n{self.text}")
        return self.text

    @property
    def text(self) -> str:
        """The page's visible text on one line."""
        text = self.driver.execute_script("return document.body ? document.body.innerText : ''")
        return " ".join(str(text).split())

    def click(self, text: str) -> None:
        """Click the innermost visible element that has this text, once there is one."""

        def clicked(_driver: Chrome) -> bool:
            found = [element for element in self._with_text(text) if element.is_displayed()]
            if found:
                ActionChains(self.driver).move_to_element(found[-1]).click().perform()
            return bool(found)

        self._until(clicked)

    def follow(self, part: str) -> None:
        """Open the first link whose address has this part behind the base, once there is one."""

        def addresses(driver: Chrome) -> list[str]:
            links = driver.find_elements(By.CSS_SELECTOR, f"a[href^='{part}']")
            return [str(link.get_attribute("href")) for link in links]

        self.driver.get(self._until(addresses)[0])

    def reopen_until(self, path: str, *expected: str) -> str:
        """Open a page again and again until it holds everything that is expected; some choose what they show once."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(pytest.fail.Exception):
                return self.open(path, *expected, seconds=GLANCE)
        return self.open(path, *expected)

    def is_on(self, label: str) -> bool:
        """Tell whether the switch in the table row with this label is on."""
        path = f"//tr[contains(normalize-space(.), {label!r})]//input[@type='checkbox']"
        return self._until(lambda driver: [switch.is_selected() for switch in driver.find_elements(By.XPATH, path)])[0]

    def fill(self, placeholder: str, text: str) -> None:
        """Type a text into the visible field that has this placeholder, once there is one."""

        def filled(driver: Chrome) -> bool:
            fields = driver.find_elements(By.CSS_SELECTOR, f"input[placeholder='{placeholder}']")
            found = [field for field in fields if field.is_displayed()]
            if found:
                found[0].send_keys(text)
            return bool(found)

        self._until(filled)

    def show(self, text: str) -> None:
        """Scroll to the innermost visible element that has this text, once there is one."""

        def shown(driver: Chrome) -> bool:
            found = [element for element in self._with_text(text) if element.is_displayed()]
            if found:
                driver.execute_script("arguments[0].scrollIntoView({block: 'start'})", found[-1])
            return bool(found)

        self._until(shown)

    def resize(self, width: int, height: int) -> None:
        self.driver.set_window_size(width, height)

    def _with_text(self, text: str) -> list[WebElement]:
        return self.driver.find_elements(By.XPATH, f"//body//*[normalize-space(.)={text!r}]")

    def _until(self, condition: Callable[[Chrome], T]) -> T:
        # A page that draws itself anew takes elements away between two looks.
        return WebDriverWait(self.driver, SECONDS, ignored_exceptions=[StaleElementReferenceException]).until(condition)

    def photograph(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        assert self.driver.save_screenshot(str(path))


def programs() -> tuple[str, str]:
    """Return the browser and its driver; fails the test with what to install where one is missing."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver") or shutil.which("/usr/lib/chromium-browser/chromedriver")
    if browser is None or driver is None:
        missing = " and ".join(
            name for name, found in (("Chromium", browser), ("chromedriver", driver)) if found is None
        )
        pytest.fail(f"the page tests need {missing}; {INSTALL}")
    return browser, driver


@contextmanager
def browsing(base: str, profile: Path) -> Iterator[Browser]:
    """Open a browser with a new profile in a folder; `base` is the address that paths are relative to."""
    browser, driver = programs()
    options = ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    if sys.platform != "win32" and os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    service = ChromeService(executable_path=driver, env={**os.environ, "SE_OFFLINE": "true", "TZ": "UTC"})
    with Chrome(options=options, service=service) as chrome:
        chrome.set_page_load_timeout(SECONDS)
        yield Browser(chrome, base)
