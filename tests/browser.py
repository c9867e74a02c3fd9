"""A headless Chromium, driven over a pipe with the Chrome DevTools protocol: what the browser tests need, no more."""

import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--remote-debugging-pipe", "--no-first-run", "--disable-extensions", "--disable-background-networking",
    "--disable-dev-shm-usage", "--force-color-profile=srgb", "--hide-scrollbars",
)  # fmt: skip
KEYS = {
    "Backspace": 8, "Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39,
    "ArrowDown": 40,
}  # fmt: skip


def installed():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


# For pytestmark of modules that use a browser
BROWSER = pytest.mark.skipif(
    installed() is None, reason="no Chromium on this machine: reports are not tested in a browser"
)

# What the runs of conftest.py contain
HOSTILE = "</script><script>alert('x')</script>\"'&é\u2028<img src=x onerror=alert(1)>"
NODES = 300


class Browser:
    """One process with one page. Errors that the page reports are in ``errors``."""

    def __init__(self, profile, *flags, timeout=120):
        inward, self._out = os.pipe()
        self._in, outward = os.pipe()

        def pipes_as_3_and_4():                         # where --remote-debugging-pipe expects them
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (inward, outward)]
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        command = [installed(), *FLAGS, *flags, f"--user-data-dir={profile}", "about:blank"]
        silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, pass_fds=(3, 4), preexec_fn=pipes_as_3_and_4, **silent)
        os.close(inward)
        os.close(outward)
        self.timeout, self._rest, self._last, self._session = timeout, b"", 0, None
        self.errors, self.requests = [], []
        pages = [t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        found = self.send("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError, TimeoutError):
            self._session = None
            self.send("Browser.close")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._in)
        os.close(self._out)

    # ------------------------------------------------------------ protocol

    def send(self, method, **params):
        """Send a command and wait for its result."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self.timeout
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._last:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._note(answer)

    def _receive(self, deadline):
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise OSError("the browser has ended")
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event):
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.errors.append(f"dialog: {params['message']}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    # ------------------------------------------------------------ the page

    def open(self, path, width=1280, height=900, dark=False, media=""):
        """Open a file with a window of this size."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                  {"name": "prefers-reduced-motion", "value": "reduce"}]  # fmt: skip
        self.send("Emulation.setEmulatedMedia", media=media, features=scheme)
        self.send("Page.navigate", url=path.as_uri())
        self.until("document.readyState === 'complete'")

    def js(self, expression):
        """The value of an expression, which may be a promise."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression, seconds=60):
        """Wait until an expression is true."""
        deadline = time.monotonic() + seconds
        while not self.js(f"Boolean({expression})"):
            assert time.monotonic() < deadline, f"never true: {expression}; {self.errors}"
            time.sleep(0.02)

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)}).innerText")

    def seen(self, selector):
        """Whether the first such element is visible."""
        return self.js(f"document.querySelector({json.dumps(selector)})?.checkVisibility() ?? false")

    def centre(self, selector):
        box = f"document.querySelector({json.dumps(selector)})"
        self.js(f"{box}.scrollIntoView({{block: 'center'}})")
        return self.js(f"(b => [b.x + b.width / 2, b.y + b.height / 2])({box}.getBoundingClientRect())")

    def move(self, x, y):
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector=None, at=None):
        """Click on an element, or on a place."""
        x, y = at or self.centre(selector)
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, text):
        self.send("Input.insertText", text=text)

    def press(self, key):
        code = {"windowsVirtualKeyCode": KEYS[key]} if key in KEYS else {"text": key}
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, **code)
