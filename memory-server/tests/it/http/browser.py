"""What a real browser makes of the operator's page.

    python browser.py CHROMIUM ADDRESS TOKEN FOLDER PATHS

Signs in with the keyboard, opens every path of PATHS (a JSON object of names and paths) at two widths, and ends with an exit code
other than 0 where the browser complains, a stored script ran, a page is too wide, or something cannot be read aloud. If FOLDER is named,
a picture of each page at both widths is put there. Speaks the DevTools protocol over a pipe, so nothing but Python is needed.
"""

import base64
import json
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path

CHROMIUM, ADDRESS, TOKEN, FOLDER, PATHS = sys.argv[1:6]
PATIENCE = 60.0
WIDTHS = {"wide": (1280, 900), "narrow": (390, 844)}
LOOKS = [("wide", "light"), ("narrow", "dark")]

# What a page must have to be used without a pointer and without eyes; the answer lists what it lacks.
AUDIT = """(() => {
  const lacks = [];
  const all = (what) => [...document.querySelectorAll(what)];
  if (document.title.includes('owned')) lacks.push('a stored script ran');
  if (document.scripts.length || all('img,iframe,object,embed').length) lacks.push('foreign elements');
  if (all('*').some((e) => e.getAttributeNames().some((name) => name.startsWith('on') || name === 'style'))) lacks.push('an inline handler or style');
  if (document.documentElement.scrollWidth > innerWidth) lacks.push(`it is ${document.documentElement.scrollWidth} wide`);
  if (all('h1').length !== 1 || all('main').length !== 1) lacks.push('one h1 and one main');
  let level = 1;
  for (const heading of all('h1,h2,h3,h4')) {
    const own = Number(heading.tagName[1]);
    if (own > level + 1) lacks.push(`a heading between ${level} and ${own}`);
    level = own;
  }
  for (const field of all('input:not([type=hidden],[hidden]),select')) {
    if (!field.labels.length && !field.ariaLabel) lacks.push(`a label for ${field.name}`);
  }
  for (const table of all('table')) if (!table.caption || !table.querySelector('th[scope]')) lacks.push('a caption or heads of columns');
  for (const one of all('button,a,summary')) if (!one.textContent.trim()) lacks.push('a name of a link or button');
  const ids = all('[id]').map((one) => one.id);
  if (new Set(ids).size !== ids.length) lacks.push('ids of their own');
  // Contrast of each text with what is behind it, as the WCAG counts it.
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parts(colour).slice(0, 3).map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if ((parts(colour)[3] ?? 1) === 1) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  for (const element of all('body *')) {
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(behind(element))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) lacks.push(`contrast of ${element.tagName} ${element.className} “${element.textContent.slice(0, 30)}”`);
  }
  return [...new Set(lacks)];
})()"""


class Browser:
    """A browser with one tab."""

    def __init__(self, profile):
        (self.reads, theirs_out), (theirs_in, self.writes) = os.pipe(), os.pipe()
        command = [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-dev-shm-usage",
            "--hide-scrollbars", "--force-color-profile=srgb", "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank",
        ]
        # The browser reads commands from 3 and writes answers to 4.
        wrapped = ["sh", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "sh", *command]
        self.process = subprocess.Popen(wrapped, pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in), os.close(theirs_out)
        self.number, self.session, self.left, self.events, self.shown = 0, None, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def message(self):
        while b"\0" not in self.left:
            if not select.select([self.reads], [], [], PATIENCE)[0]:
                raise SystemExit("the browser says nothing any more")
            part = os.read(self.reads, 1 << 16)
            if not part:
                raise SystemExit("the browser has ended")
            self.left += part
        message, self.left = self.left.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        asked = {"id": self.number, "method": method, "params": params}
        if self.session:
            asked["sessionId"] = self.session
        os.write(self.writes, json.dumps(asked).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise SystemExit(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def wait(self, loader=None):
        """Until this page is loaded, or any but the one that is shown; what an earlier one tells late is not taken for it."""
        while True:
            for event in self.events:
                told = event.get("params", {})
                if event.get("method") == "Page.lifecycleEvent" and told["name"] == "load":
                    if told["loaderId"] == loader or (loader is None and told["loaderId"] != self.shown):
                        self.shown = told["loaderId"]
                        return
            self.events.append(self.message())

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"{expression[:60]}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def open(self, path):
        self.wait(self.call("Page.navigate", url=ADDRESS + path)["loaderId"])

    def press(self, key, code):
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def complaints(self):
        """What the browser has said since the last time."""
        said = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Log.entryAdded":
                said.append(params["entry"]["text"])
            elif event.get("method") == "Runtime.exceptionThrown":
                said.append(str(params["exceptionDetails"]))
            elif event.get("method") == "Runtime.consoleAPICalled":
                said.append(str(params["args"]))
            elif event.get("method") == "Network.requestWillBeSent" and not params["request"]["url"].startswith(ADDRESS):
                said.append(f"asks elsewhere: {params['request']['url']}")
        self.events = []
        return said

    def picture(self, name, height):
        if not FOLDER:
            return
        whole = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": whole["width"], "height": min(whole["height"], height), "scale": 1}
        shot = self.call("Page.captureScreenshot", format="webp", quality=75, captureBeyondViewport=True, clip=clip)
        Path(FOLDER, f"{name}.webp").write_bytes(base64.b64decode(shot["data"]))


def main():
    problems = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        try:
            visit(browser, problems)
        finally:
            browser.process.terminate()
            browser.process.wait(PATIENCE)
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


def visit(browser, problems):
    def examine(name):
        problems.extend(f"{name}: {lack}" for lack in browser.evaluate(AUDIT))
        problems.extend(f"{name}: {said}" for said in browser.complaints())

    def look(width, scheme):
        across, down = WIDTHS[width]
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.call("Emulation.setDeviceMetricsOverride", width=across, height=down, deviceScaleFactor=1, mobile=False)

    for width, scheme in LOOKS:
        look(width, scheme)
        browser.open("/login")
        examine(f"login, {width}, {scheme}")
        browser.picture(f"login-{width}", 500)
    # The field has the focus already.
    browser.call("Input.insertText", text=TOKEN)
    browser.press("Enter", 13)
    browser.wait()
    if browser.evaluate("location.pathname") != "/":
        raise SystemExit("signing in by the keyboard leads nowhere")
    browser.press("Tab", 9)
    if browser.evaluate("document.activeElement.className") != "skip":
        problems.append("the first Tab does not reach the link to the content")
    for width, scheme in LOOKS:
        look(width, scheme)
        for name, path in json.loads(PATHS).items():
            browser.open(path)
            examine(f"{name}, {width}, {scheme}")
            browser.picture(f"{name}-{width}", 1400)


main()
