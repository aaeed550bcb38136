"""A headless Chromium, driven by the DevTools protocol over a pipe with Python's own library."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--hide-scrollbars", "--mute-audio",
    "--force-device-scale-factor=1",
]
KEYS = {"Escape": 27, "Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


def find_chromium():
    """Path of a Chromium, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if path := shutil.which(name):
            return path
    return None


class Browser:
    """One browser with one page. Use it in a `with` statement."""

    def __init__(self, chromium, width=1500, height=950, timeout=30):
        self.timeout = timeout
        self.messages = 0
        self.errors = []  # exceptions and console errors of the page, and requests to a network
        self.buffer = b""
        self.folder = tempfile.mkdtemp(prefix="millrace-page-")
        read_end, self.to_browser = os.pipe()
        self.from_browser, write_end = os.pipe()

        def place():
            # The browser reads from descriptor 3 and writes to 4. The pipes may have these numbers,
            # so they are copied first.
            incoming, outgoing = os.dup(read_end), os.dup(write_end)
            os.dup2(incoming, 3)
            os.dup2(outgoing, 4)

        self.process = subprocess.Popen(
            [chromium, *FLAGS, f"--user-data-dir={self.folder}", f"--window-size={width},{height}",
             "--remote-debugging-pipe", "about:blank"],
            preexec_fn=place, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_end)
        os.close(write_end)
        self.session = None
        pages = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        target = pages[0]["targetId"] if pages else self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _receive(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.from_browser], [], [], left)[0]:
                raise TimeoutError(f"the browser did not answer within {self.timeout} s")
            chunk = os.read(self.from_browser, 1 << 20)
            if not chunk:
                raise ConnectionError("the browser ended")
            self.buffer += chunk
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def _note(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:", "blob:")):
            self.errors.append(f"the page asked a network for {params['request']['url']}")

    def call(self, method, **params):
        """Calls a method of the protocol and returns its result."""
        self.messages += 1
        number = self.messages
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self.timeout
        while True:
            answer = self._receive(deadline)
            if answer.get("id") != number:
                self._note(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            return answer["result"]

    def resize(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def open(self, path, fragment=""):
        """Opens a file and waits until the page reports that it is shown."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=f"file://{os.path.abspath(path)}{'#' + fragment if fragment else ''}")
        self.wait_for("document.documentElement?.dataset.ready === 'true'")

    def run(self, script):
        """The value of a JavaScript expression, which may be a promise."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    def wait_for(self, condition):
        """Waits until a JavaScript expression is true."""
        deadline = time.monotonic() + self.timeout
        while not self.run(condition):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not true within {self.timeout} s: {condition}; errors: {self.errors}")
            time.sleep(0.02)

    def settle(self):
        """Waits until all changes are drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0))))")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, **({} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}))
        self.settle()

    def drag(self, x0, y0, x1, y1, shift=False):
        more = {"modifiers": 8 if shift else 0}
        self.mouse("mouseMoved", x0, y0)
        self.mouse("mousePressed", x0, y0, button="left", clickCount=1, **more)
        for i in range(1, 5):
            self.mouse("mouseMoved", x0 + (x1 - x0) * i / 4, y0 + (y1 - y0) * i / 4, button="left", buttons=1, **more)
        self.mouse("mouseReleased", x1, y1, button="left", clickCount=1, **more)
        self.settle()

    def wheel(self, x, y, by):
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=by)
        self.settle()

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {}
        code = KEYS.get(key, ord(key.upper()) if len(key) == 1 else 0)
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)
        self.settle()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.settle()

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
