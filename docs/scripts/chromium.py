"""Drive the system's headless Chromium over the DevTools protocol: for screenshots and for tests of pages.

    with chromium() as browser:
        page = browser.page(1280, 800)
        page.open("http://127.0.0.1:8080")
        page.type("#entity", "person")

Keys and clicks are those of a person: they reach the page through the browser. The protocol is documented at
https://chromedevtools.github.io/devtools-protocol/.
"""

import base64
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from websockets.sync.client import ClientConnection, connect

PATIENCE = 30.0  # seconds until what a page is waited for must be there
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0")
QUIET = (
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-extensions",
    "--disable-component-update",
    "--disable-background-networking",
)
Value = TypeVar("Value")


class Browser:
    """A running Chromium, to which one connection is open."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection, self._number = connection, 0

    def send(self, method: str, session: str | None = None, **parameters: object) -> dict[str, Any]:
        """Send a command and return its result. Raises RuntimeError if the browser refuses it."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        self._connection.send(json.dumps(command | ({"sessionId": session} if session else {})))
        while True:
            reply = json.loads(self._connection.recv(timeout=PATIENCE))
            if reply.get("id") == self._number:  # the others are events
                break
        if "error" in reply:
            raise RuntimeError(f"{method}: {reply['error']['message']}")
        return dict(reply["result"])

    def page(self, width: int, height: int) -> "Page":
        """Open an empty page of that size in pixels, as a screen of that size shows it."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, str(session))
        page.resize(width, height)
        return page

    def download_to(self, folder: Path) -> None:
        """Store downloads in a folder."""
        self.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))


class Page:
    """A page. Elements are named by CSS selectors."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    def send(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send a command to this page."""
        return self._browser.send(method, self._session, **parameters)

    def close(self) -> None:
        """Close the page."""
        self.send("Page.close")

    def resize(self, width: int, height: int) -> None:
        """Give the page another size in pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", **metrics)

    def open(self, address: str, patience: float = PATIENCE) -> None:
        """Open an address, and wait until the page has loaded."""
        failed = self.send("Page.navigate", url=address).get("errorText")
        if failed:
            raise RuntimeError(f"{address}: {failed}")
        self.until("document.readyState === 'complete'", patience)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, of a promise the value that it resolves to."""
        done = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise RuntimeError(f"{expression}: {done['exceptionDetails']['exception'].get('description')}")
        return done["result"].get("value")

    def until(self, expression: str, patience: float = PATIENCE) -> Any:
        """Wait until an expression is true or an element, and return its value, `true` for an element.

        Raises TimeoutError after `patience` seconds.
        """
        plain = f"(found => found instanceof Node ? true : found)({expression})"
        return waited(lambda: self.evaluate(plain), expression, patience)

    def text(self, selector: str) -> str:
        """Return the visible text of an element; '' if there is no such element."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def texts(self, selector: str) -> list[str]:
        """Return the visible text of each element."""
        return list(self.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText)"))

    def click(self, selector: str) -> None:
        """Click the middle of an element."""
        self.click_on(f"document.querySelector({json.dumps(selector)})")

    def click_on(self, element: str, patience: float = PATIENCE) -> None:
        """Click the middle of the element that a JavaScript expression gives."""
        where = self.until(
            f"(e => {{ if (!e) return null; e.scrollIntoView({{block: 'center', behavior: 'instant'}});"
            f" const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})({element})",
            patience,
        )
        button = {"x": where[0], "y": where[1], "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, **button)

    def type(self, selector: str, text: str) -> None:
        """Replace the text of an input by typing."""
        self.click(selector)
        self.evaluate(f"document.querySelector({json.dumps(selector)}).select()")
        self.press("Backspace")
        for letter in text:
            self.send("Input.dispatchKeyEvent", type="keyDown", text=letter, key=letter)
            self.send("Input.dispatchKeyEvent", type="keyUp", key=letter)

    def press(self, key: str) -> None:
        """Press a key, such as Enter or ArrowDown."""
        code = {"Enter": 13, "Backspace": 8, "Tab": 9, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40}[key]
        named = {"key": key, "code": key, "windowsVirtualKeyCode": code} | ({"text": "\r"} if key == "Enter" else {})
        self.send("Input.dispatchKeyEvent", type="keyDown", **named)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def upload(self, selector: str, file: Path) -> None:
        """Choose a file in an input of files."""
        found = self.send("Runtime.evaluate", expression=f"document.querySelector({json.dumps(selector)})")
        self.send("DOM.setFileInputFiles", files=[str(file)], objectId=found["result"]["objectId"])

    def screenshot(self, file: Path, whole: bool = False) -> None:
        """Store a picture of the page as PNG: what is visible, or the whole height."""
        picture = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(picture["data"]))


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium with an empty profile; afterwards stop it and remove the profile."""
    program = shutil.which("chromium")
    if program is None:
        raise RuntimeError("chromium is not installed: apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="kgcal-chromium-", ignore_cleanup_errors=True) as folder:
        place = Path(folder) / "DevToolsActivePort"
        command = [program, *OPTIONS, *QUIET, f"--user-data-dir={folder}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
        try:
            waited(lambda: place.exists() and "\n/" in place.read_text(), "Chromium's port", PATIENCE)
            lines = place.read_text().split("\n")  # the port, and the path of the browser
            with connect(f"ws://127.0.0.1:{lines[0]}{lines[1]}", max_size=None) as connection:
                browser = Browser(connection)
                yield browser
                browser.send("Browser.close")
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)


def waited(find: Callable[[], Value], what: str, patience: float) -> Value:
    """Return the first true value that a function finds. Raises TimeoutError after `patience` seconds."""
    end = time.monotonic() + patience
    while not (found := find()):
        if time.monotonic() > end:
            raise TimeoutError(f"after {patience:.0f} seconds there is no {what}")
        time.sleep(0.05)
    return found
