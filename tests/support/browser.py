"""Pages opened in headless Chromium, and what a person could see, hear or press there.

Chromium is driven through chromedriver (https://www.w3.org/TR/webdriver2/, https://chromedevtools.github.io/devtools-protocol/) by Selenium, which is
given both programs and so never looks for them on the network.  A page is opened from disk; what it says on its console, what goes wrong in it, what it
asks the network for and what its own policy had to stop is collected from its first line on.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

#: What makes the reports and the inputs of tests (``tests/drawing/conftest.py``).
Make = Callable[..., Any]
#: Switches that make Chromium a quiet, offline program.
_SWITCHES = (
    "--headless",
    "--no-sandbox",  # it does not start for root otherwise, and what it opens are files of our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    # Pages are to take little of all processors, not little time: without what these do beside a page, a fifth less.
    "--disable-features=BackForwardCache,ProactivelySwapBrowsingInstance,SpareRendererForSitePerProcess",
    "--js-flags=--single-threaded",
    "--num-raster-threads=1",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--dns-prefetch-disable",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)

#: What runs in a page before anything of its own: the errors and violations that no log of the driver has, and when it was drawn.
_WATCH = """
window.__seen = {errors: [], violations: [], ready: null};
addEventListener("error", (event) => __seen.errors.push(String(event.message || event.target)), true);
addEventListener("unhandledrejection", (event) => __seen.errors.push("unhandled: " + event.reason));
document.addEventListener("securitypolicyviolation", (event) =>
  __seen.violations.push(event.violatedDirective + ": " + (event.blockedURI || "") + " " + (event.sample || "")));
const watch = new MutationObserver(() => {
  if (document.documentElement && document.documentElement.dataset.ready !== undefined && __seen.ready === null)
    __seen.ready = performance.now();
});
watch.observe(document, {attributes: true, subtree: true, attributeFilter: ["data-ready"], childList: true});
"""


class PageError(AssertionError):
    """The page says by itself that it could not be shown, or never says that it could."""


def missing() -> str | None:
    """What is not there that is needed to open pages, in words; None where all of it is."""
    gone = [words for words, path in (("chromium", _chromium()), ("chromedriver", _driver())) if path is None]
    return f"needs {' and '.join(gone)} on the PATH (Debian: chromium, chromium-driver)" if gone else None


def _chromium() -> str | None:
    named = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next(filter(None, map(shutil.which, named)), None)


def _driver() -> str | None:
    return shutil.which("chromedriver")


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser of its own, with a new profile, for as long as the block lasts; the test is skipped without one, and fails in CI."""
    if (words := missing()) is not None:
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    chromium, driver = _chromium(), _driver()
    assert chromium is not None
    with tempfile.TemporaryDirectory(prefix="memlens-browser-", ignore_cleanup_errors=True) as profile:
        options = Options()
        options.binary_location = chromium
        for switch in (*_SWITCHES, f"--user-data-dir={profile}"):
            options.add_argument(switch)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        options.add_experimental_option("perfLoggingPrefs", {"enableNetwork": True, "enablePage": False})
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("NO_PROXY", "localhost,127.0.0.1")  # the driver is here, whatever proxy there is
            running = webdriver.Chrome(options, Service(driver))
        try:
            running.set_page_load_timeout(120)
            running.set_script_timeout(120)
            running.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _WATCH})
            yield Browser(running)
        finally:
            running.quit()


@dataclass(frozen=True)
class Browser:
    """A running browser; it shows one page at a time."""

    driver: webdriver.Chrome

    def open(
        self, path: Path, *, width: int = 1400, height: int = 900, scheme: str = "light", wait: bool = True
    ) -> Page:
        """Open a file.

        Args:
            path: The file.
            width: Of the window, in CSS pixels.
            height: Of the window, in CSS pixels.
            scheme: ``light`` or ``dark``: what the person prefers.
            wait: Wait until the page says that it is drawn; False for pages that never do.

        Raises:
            PageError: The page says that it failed, or says nothing within a minute.
        """
        driver = self.driver
        driver.get("about:blank")
        page = Page(driver, path.resolve().as_uri())
        page.resize(width, height)
        page.prefer(scheme)
        for log in ("browser", "performance"):
            driver.get_log(log)  # type: ignore[no-untyped-call]  # what the page before said
        driver.get(page.url)
        if wait:
            page.wait_until_drawn()
        return page


@dataclass
class Page:
    """A page that is open.

    Attributes:
        driver: The browser's driver, for what is not here.
        url: Where the page lies.
    """

    driver: webdriver.Chrome
    url: str
    _console: list[str] = field(default_factory=list)
    _requests: list[str] = field(default_factory=list)

    # What it is like.

    def shown(self, of: str = "#picture") -> tuple[int, int]:
        """The first event, or place of an axis, that a picture shows, and the one after the last."""
        data = self.data(of)
        return int(data["from"]), int(data["to"])

    def resize(self, width: int, height: int = 900, *, scale: float = 1.0) -> None:
        """Make the window another size; narrower ones than a window on a desktop can be, too."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def prefer(self, scheme: str, **features: str) -> None:
        """Prefer ``light`` or ``dark``, and other media features (``forced_colors="active"``)."""
        wanted = {"prefers-color-scheme": scheme} | {name.replace("_", "-"): value for name, value in features.items()}
        given = [{"name": name, "value": value} for name, value in wanted.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": given})

    # Whether it is well.

    def wait_until_drawn(self, seconds: float = 60) -> None:
        """Wait until the page says that its pictures are drawn."""
        asked = "return document.documentElement.dataset.ready || __seen.errors[0]"  # after an error nothing more comes
        state = self.wait_for(lambda: self.run(asked), "ready mark", seconds)
        if state != "true":
            raise PageError(f"the page says of itself: {state}; {self.run('return __seen.errors')}; {self.console()}")

    def wait_for(self, found: Callable[[], Any], what: str, seconds: float = 60) -> Any:
        """The first answer that is true, asked for again and again."""
        until = time.monotonic() + seconds
        while not (answer := found()):
            if time.monotonic() > until:
                raise PageError(f"no {what} within {seconds} s; {self.run('return __seen.errors')}; {self.console()}")
            time.sleep(0.01)
        return answer

    def settle(self) -> None:
        """Wait for two frames: what was asked for by then has been drawn."""
        self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")

    def console(self) -> list[str]:
        """All that the console has of this page."""
        said = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        self._console += [f"{entry['level']} {entry['message']}" for entry in said]
        return self._console

    def requests(self) -> list[str]:
        """Every address that was asked for, that of the page left out."""
        for entry in self.driver.get_log("performance"):  # type: ignore[no-untyped-call]
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self._requests.append(message["params"]["request"]["url"])
            elif message["method"] in ("Network.webSocketCreated", "Network.webTransportCreated"):
                self._requests.append(message["params"]["url"])
        return [url for url in self._requests if url != self.url]

    def errors(self) -> list[str]:
        """What went wrong in scripts."""
        return [str(error) for error in self.run("return __seen.errors")]

    def violations(self) -> list[str]:
        """What the page's own policy had to stop."""
        return [str(violation) for violation in self.run("return __seen.violations")]

    def assert_well(self) -> None:
        """Nothing on the console, no error, nothing asked of a network, nothing that its policy had to stop."""
        wrong = {
            "errors": self.errors(),
            "violations": self.violations(),
            "console": [line for line in self.console() if not line.startswith(("DEBUG", "INFO"))],
            "requests": [url for url in self.requests() if not url.startswith(("data:", "blob:"))],
        }
        assert not any(wrong.values()), {name: found for name, found in wrong.items() if found}

    def drawn_after(self) -> float:
        """Seconds from the beginning of the navigation until the page said that it is drawn."""
        return float(self.run("return __seen.ready")) / 1000

    # What is there.

    def run(self, script: str, *arguments: object) -> Any:
        """What a script in the page gives; ``return`` it."""
        return self.driver.execute_script(script, *arguments)

    def one(self, selector: str) -> WebElement:
        """The first element that a CSS selector finds."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        """Every element that a CSS selector finds."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "body") -> str:
        """The text of an element, hidden text with it and scripts and styles without, each run of white space one space."""
        script = """
        const copy = document.querySelector(arguments[0]).cloneNode(true);
        for (const hidden of copy.querySelectorAll("script, style")) hidden.remove();
        return copy.textContent;"""
        return " ".join(str(self.run(script, selector)).split())

    def data(self, selector: str) -> dict[str, str]:
        """The ``data-…`` attributes of an element, by their names in JavaScript."""
        return dict(self.run("return {...document.querySelector(arguments[0]).dataset}", selector))

    def table(self, selector: str) -> list[list[str]]:
        """The texts of a table's rows, those of its head with them."""
        rows = "return [...document.querySelector(arguments[0]).rows].map((row) => [...row.cells].map((c) => c.textContent))"
        return [[" ".join(cell.split()) for cell in row] for row in self.run(rows, selector)]

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def accessible(self) -> list[dict[str, str]]:
        """The role and the name of every element as a screen reader has them."""
        self.driver.execute_cdp_cmd("Accessibility.enable", {})
        nodes = self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        return [
            {"role": node["role"]["value"], "name": node.get("name", {}).get("value", "")}
            for node in nodes
            if not node.get("ignored") and "role" in node
        ]

    def hidden_characters(self) -> list[str]:
        """Where text or an attribute has a character that turns or hides text instead of showing."""
        script = r"""
        const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069]/, found = [];
        const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
          const at = walker.currentNode, texts = at.nodeType === 3 ? [at.data] : [...at.attributes].map((attribute) => attribute.value);
          if (!(at.parentElement?.closest("script, style"))) for (const text of texts) if (hidden.test(text))
            found.push(`${at.parentElement.tagName} in ${at.parentElement.closest("[id]")?.id}: ${JSON.stringify(text.slice(0, 60))}`);
        }
        return found;"""
        return [str(one) for one in self.run(script)]

    def pixels(self, selector: str) -> int:
        """How many colours a canvas shows: one where nothing is drawn."""
        script = """
        const canvas = document.querySelector(arguments[0]);
        const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        return new Set(new Uint32Array(data.buffer)).size;"""
        return int(self.run(script, selector))

    # What is done to it.

    def press(self, *keys: str) -> None:
        """Press keys, one after the other, wherever the focus is."""
        actions = ActionChains(self.driver, duration=0)
        for key in keys:
            actions.send_keys(key)
        actions.perform()
        self.settle()

    def tab_stops(self, at_most: int = 200) -> list[dict[str, str]]:
        """What the Tab key comes to from the top of the page, in order (:meth:`focused`)."""
        self.run("""
        const top = document.createElement("button");
        document.body.prepend(top); top.focus(); top.remove();""")
        stops: list[dict[str, str]] = []
        for _ in range(at_most):
            ActionChains(self.driver, duration=0).send_keys(Keys.TAB).perform()  # where the focus is waits for no frame
            if (stop := self.focused())["tag"] == "body" or stop in stops:
                break
            stops.append(stop)
        return stops

    def focused(self) -> dict[str, str]:
        """The element that has the focus: its tag, id, place in pixels, label or text, and whether one can see that it has it."""
        script = """
        const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();
        const seen = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
        return {tag: at.tagName.toLowerCase(), id: at.id, top: String(Math.round(box.top + scrollY)), left: String(Math.round(box.left)), label: at.getAttribute("aria-label") || at.textContent.trim().slice(0, 80),
                visible: String(seen && box.width > 0 && box.height > 0)};"""
        return dict(self.run(script))

    def hover(self, selector: str, x: float, y: float = 0.5) -> None:
        """Move the pointer over an element, to a share of its width and height."""
        self._over(selector, x, y).perform()
        self.settle()

    def click(self, selector: str, x: float = 0.5, y: float = 0.5) -> None:
        """Click on an element, at a share of its width and height."""
        self._over(selector, x, y).click().perform()
        self.settle()

    def double_click(self, selector: str, x: float = 0.5, y: float = 0.5) -> None:
        """Click twice on an element, at a share of its width and height."""
        self._over(selector, x, y).double_click().perform()
        self.settle()

    def drag(self, selector: str, x: float, to_x: float, y: float = 0.5, *, held: str = "") -> None:
        """Drag over an element from one share of its width to another, a key being held down."""
        actions = self._over(selector, x, y)
        if held:
            actions.key_down(held)
        actions.click_and_hold()
        width = self._box(selector)[0]
        for _ in range(4):
            actions.move_by_offset(round((to_x - x) * width / 4), 0)
        actions.release()
        if held:
            actions.key_up(held)
        actions.perform()
        self.settle()

    def wheel(self, selector: str, x: float, y: float, by: int, *, held: str) -> None:
        """Turn the wheel over an element where the pointer is, a key being held down."""
        self.hover(selector, x, y)
        box = self.run("return document.querySelector(arguments[0]).getBoundingClientRect()", selector)
        at = {"x": box["x"] + x * box["width"], "y": box["y"] + y * box["height"]}
        turned = {"type": "mouseWheel", "deltaX": 0, "deltaY": by, "modifiers": {Keys.CONTROL: 2, Keys.SHIFT: 8}[held]}
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", at | turned)  # Selenium's wheel knows no keys
        self.settle()

    def _box(self, selector: str) -> tuple[float, float]:
        box = self.run(
            "const e = document.querySelector(arguments[0]); e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const b = e.getBoundingClientRect(); return [b.width, b.height]",
            selector,
        )
        return float(box[0]), float(box[1])

    def _over(self, selector: str, x: float, y: float) -> ActionChains:
        width, height = self._box(selector)
        inside = (max(min(x * width, width - 1), 1) - width / 2, max(min(y * height, height - 1), 1) - height / 2)
        return ActionChains(self.driver, duration=0).move_to_element_with_offset(
            self.one(selector), int(inside[0]), int(inside[1])
        )
