"""A headless Chromium for tests, driven over its DevTools protocol through a pipe: no port, no other package.

    with Browser() as browser:
        page = browser.open("http://127.0.0.1:8001/console/", width=390, height=844, dark=True)
        page.wait_for("document.title === 'Roost console'", "that the page is there")
        page.screenshot("page.png")
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading

from cluster import DEADLINE_SECONDS, wait_until

PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")
# Runs before a page's own scripts: its clock and its timers go so many times as fast.
HASTE = """(() => {
  const [now, wait] = [performance.now.bind(performance), window.setTimeout];
  performance.now = () => HASTE * now();
  window.setTimeout = (call, milliseconds, ...rest) => wait(call, milliseconds / HASTE, ...rest);
})()"""
KEYS = {"Enter": (13, "\r"), "Home": (36, "")}  # number and text
MISSING = "no Chromium: ./deploy/packages.sh test installs one"


def find_browser():
    """The program's path, or None."""
    return next((found for found in map(shutil.which, PROGRAMS) if found), None)


class Browser:
    """`flags` are Chromium's own."""

    def __init__(self, *flags):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.changed = threading.Condition()
        self.answers = {}
        self.pages = {}
        self.last_id = 0
        self._start(flags)

    def _start(self, flags):
        from_here, self.into = os.pipe()
        self.out_of, to_here = os.pipe()
        arguments = [find_browser(), "--headless", "--remote-debugging-pipe", f"--user-data-dir={self.folder.name}",
                     "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
                     "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb", *flags]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # root can not have a sandbox

        # Chromium reads from descriptor 3 and writes to 4.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{from_here} 4>&{to_here}', "bash", *arguments], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(from_here, to_here))
        os.close(from_here)
        os.close(to_here)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.send("Browser.close")
        self.process.wait(DEADLINE_SECONDS)
        self.reader.join(DEADLINE_SECONDS)
        os.close(self.into)
        os.close(self.out_of)
        self.folder.cleanup()

    def _read(self):
        rest = b""
        while piece := os.read(self.out_of, 1 << 16):
            *messages, rest = (rest + piece).split(b"\0")
            for message in messages:
                self._take(json.loads(message))

    def _take(self, message):
        with self.changed:
            if "id" in message:
                self.answers[message["id"]] = message
            elif message.get("sessionId") in self.pages:
                self.pages[message["sessionId"]].take(message["method"], message["params"])
            self.changed.notify_all()

    def send(self, method, session=None, **parameters):
        """A command's result."""
        with self.changed:
            self.last_id += 1
            wanted = self.last_id
        message = {"id": wanted, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.into, json.dumps(message).encode() + b"\0")
        with self.changed:
            if not self.changed.wait_for(lambda: wanted in self.answers, DEADLINE_SECONDS):
                raise AssertionError(f"Chromium did not answer {method}")
            answer = self.answers.pop(wanted)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, url, width=1280, height=900, dark=False, scale=1, haste=1):
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        self.pages[session] = page
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.send(f"{domain}.enable")
        page.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 600)
        page.send("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        page.send("Page.addScriptToEvaluateOnNewDocument", source=HASTE.replace("HASTE", str(haste)))
        page.send("Page.navigate", url=url)
        page.wait_for("document.readyState === 'complete'", f"that {url} is loaded")
        return page


class Page:
    def __init__(self, browser, target, session):
        self.browser = browser
        self.target = target
        self.session = session
        self.requested = []  # URLs
        self.statuses = {}  # URL -> of its last answer
        self.errors = []  # errors in the console, and exceptions

    def send(self, method, **parameters):
        return self.browser.send(method, self.session, **parameters)

    def take(self, method, event):
        if method == "Network.requestWillBeSent":
            self.requested.append(event["request"]["url"])
        elif method == "Network.responseReceived":
            self.statuses[event["response"]["url"]] = event["response"]["status"]
        elif method == "Log.entryAdded" and event["entry"]["level"] == "error":
            self.errors.append(f"{event['entry']['text']} {event['entry'].get('url', '')}")
        elif method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "assert"):
            self.errors.append(str([argument.get("value") for argument in event["args"]]))

    def close(self):
        self.browser.send("Target.closeTarget", targetId=self.target)

    def evaluate(self, expression):
        """Its value, awaited if it is a promise."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise AssertionError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def wait_for(self, expression, what):
        return wait_until(lambda: self.evaluate(expression), what)

    def text(self, selector):
        """The text that a person reads there; empty where there is no such element."""
        return self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def is_shown(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)})?.checkVisibility() ?? false")

    def click(self, selector):
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def type(self, text):
        """Types the text into the element that has the focus."""
        self.send("Input.insertText", text=text)

    def press(self, key):
        code, text = KEYS[key]
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text)

    def screenshot(self, path):
        """Takes a screenshot of the whole page."""
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))
