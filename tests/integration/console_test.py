"""The operators' page in a real browser, beside a real router: every panel has data, no other server is asked, a router
that is gone is said to be gone.

Skipped without a Chromium. ROOST_CONSOLE_SHOTS names a folder for screenshots.
"""

import http.client
import json
import os
import pathlib
import random
import signal
import tempfile
import threading
import unittest
import urllib.parse

from browser import MISSING, Browser, find_browser
from cluster import DEADLINE_SECONDS, ROOT, Cluster, text, wait_until
from keys import KeyFile, bearer

SHOTS = os.environ.get("ROOST_CONSOLE_SHOTS")
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
DOCUMENTS = [f"You are clerk number {i} of the library and answer from its catalogue. {text(60 + 40 * i, f'document {i}')}"
             for i in range(4)]
# The condition that a number was told: neither empty nor a dash.
HAS_NUMBER = r"/\d/.test({})"


class Load:
    """Requests that share documents, until it ends. `headers` are those of the clients."""

    def __init__(self, router, headers=None, clients=3):
        self.router = router
        self.headers = headers
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=self._ask, args=(client,)) for client in range(clients)]
        for thread in self.threads:
            thread.start()

    def _ask(self, client):
        draw = random.Random(client)
        while not self.ended.is_set():
            prompt = draw.choice(DOCUMENTS) + text(6, draw.random())
            body = {"model": "demo-model", "prompt": prompt, "max_tokens": 4}
            try:
                self.router.request("POST", "/v1/completions", body, self.headers)
            except OSError:
                return  # a test has killed the router

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join(DEADLINE_SECONDS)


class ConsoleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not find_browser():
            raise unittest.SkipTest(MISSING)
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.browser = cls.enterClassContext(Browser("--host-resolver-rules=MAP *.example 127.0.0.1"))

    def start(self, *flags, workers=2):
        cluster = self.enterContext(Cluster())
        router = cluster.start_router(*flags)
        for i in range(workers):
            cluster.start_worker(f"worker-{'abc'[i]}")
        return cluster, router

    def open(self, router, path="/console", **how):
        return self.open_url(router.admin + path, **how)

    def open_url(self, url, **how):
        page = self.browser.open(url, haste=5, **how)
        self.addCleanup(page.close)
        return page

    def wait_for_live(self, page):
        wait_until(lambda: page.is_shown("#live"), "that the page shows numbers")

    def check_quiet(self, page, origin, allowed=()):
        """No error in the console, and no request but to the router."""
        self.assertEqual([error for error in page.errors if not any(word in error for word in allowed)], [])
        others = [url for url in page.requested if "://".join(urllib.parse.urlsplit(url)[:2]) != origin]
        self.assertEqual(others, [])
        self.assertGreater(len(page.requested), 8)

    def wait_for_number(self, page, selector):
        page.wait_for(HAS_NUMBER.format(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"),
                      f"that {selector} has a number")

    # ---- what it shows ----

    def check_every_panel(self, page):
        for tile in ("hits", "saved", "ttft", "tokens", "queue", "errors", "routing", "prediction"):
            self.wait_for_number(page, f"#tile-{tile} .value")
        for tile in ("hits", "saved", "ttft", "tokens", "queue", "errors"):
            page.wait_for(f"document.querySelector('#tile-{tile} .spark path')?.getTotalLength() > 5", f"the line of {tile}")
        for worker in ("worker-a", "worker-b"):
            self.assertIn(worker, page.text("#workers"))
        for told in ("demo-model", "release ", "on "):
            self.assertIn(told, page.text("#workers"))
        self.assertRegex(page.text("#verdict"), r"^demo-model: 2 workers take requests since \d\d:\d\d UTC")
        self.assertFalse(page.is_shown("#lost-workers"))
        page.wait_for("/worker-b\\s*joined/.test(document.querySelector('#events').innerText)", "events")
        for tile in ("ready", "hits", "ttft", "output", "waiting", "failed"):
            self.wait_for_number(page, f"#hour-{tile} p")
        page.wait_for("/\\d+ in the last minute/.test(document.querySelector('#workers').innerText)", "shares of requests")
        page.wait_for("document.querySelectorAll('#decisions details').length > 5", "decisions")
        page.wait_for("document.querySelectorAll('#prefixes .chip').length > 0", "prefixes with their holders")
        self.wait_for_number(page, "#savings .headline")

    def test_every_panel_has_data_under_load(self):
        _, router = self.start("--show-prefix-text")
        router.wait_for_workers(2)
        router.learn_rates()
        pages = {(name, dark): self.open(router, width=width, height=height, dark=dark)
                 for name, (width, height) in SIZES.items() for dark in (False, True)}
        with Load(router):
            for (name, dark), page in pages.items():
                with self.subTest(size=name, dark=dark):
                    self.check_every_panel(page)
                    # The load's own, which come after those of the requests before it.
                    page.wait_for("document.querySelector('#prefixes').innerText.includes('clerk number')",
                                  "the text of the load's prefixes")
                    self.check_quiet(page, router.admin)
                    self.check_layout(page, SIZES[name][0])
            self.keep_screenshots(pages)
        self.check_numbers(router, pages["desktop", False])

    def check_layout(self, page, width):
        """Nothing is wider than the screen, and text can be told from what it stands on."""
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
        self.assertEqual(page.evaluate(LOW_CONTRAST), [])

    def keep_screenshots(self, pages):
        if not SHOTS:
            return
        pathlib.Path(SHOTS).mkdir(parents=True, exist_ok=True)
        for (name, dark), page in pages.items():
            page.screenshot(pathlib.Path(SHOTS) / f"{name}-{'dark' if dark else 'light'}.png")

    def check_numbers(self, router, page):
        """The load has ended, so what the page says can be compared with what the router says."""
        cached = router.metric("roost_router_cached_tokens_total")
        prompt = router.metric("roost_router_prompt_tokens_total")
        page.wait_for(f"document.querySelector('#tile-hits').innerText.includes('began {round(100 * cached / prompt)}')",
                      "the hit rate since the router began")
        decision = router.decisions(1)[0]
        page.wait_for(f"document.querySelector('#decisions .ids').textContent.includes({json.dumps(decision['id'])})",
                      "the newest decision")
        self.assertIn(decision["worker"], page.text("#decisions details"))

    def test_a_decision_is_explained_and_stays_while_it_is_open(self):
        _, router = self.start()
        router.wait_for_workers(2)
        router.learn_rates()
        with Load(router):
            page = self.open(router)
            self.wait_for_live(page)
            page.wait_for("document.querySelectorAll('#decisions details').length > 5", "decisions")
            page.evaluate("document.querySelector('#decisions summary').focus()")
            page.press("Enter")  # the keyboard does it
            page.wait_for("document.querySelector('#decisions details[open]') !== null", "that it is open")
            explained = page.text("#decisions details[open] .explained")
            for part in ("was chosen by cache-aware because", "Predicted: ", "Beside the best: ", "Round robin would have", "← chosen",
                         "worker-a", "worker-b", "roostctl explain"):
                self.assertIn(part, explained)
            ids = "[...document.querySelectorAll('#decisions .ids code:first-of-type')].map((id) => id.textContent).join()"
            shown = page.evaluate(ids)
            page.wait_for("/Held while a decision is open/.test(document.querySelector('#decisions').innerText)", "newer ones")
            self.assertEqual(page.evaluate(ids), shown)
            page.evaluate("document.activeElement.blur()")
            page.click("#decisions details[open] summary")
            page.wait_for(f"{ids} !== {json.dumps(shown)}", "that the list goes on")
            self.check_quiet(page, router.admin)

    def test_text_of_prompts_is_text_and_hidden_unless_the_operator_shows_it(self):
        hostile = "<img src=x onerror=alert(1)><script>alert(2)</script> " * 4
        for flags in ((), ("--show-prefix-text",)):
            with self.subTest(flags=flags):
                _, router = self.start(*flags, workers=1)
                router.wait_for_workers(1)
                for i in range(3):
                    router.completion(hostile + text(10, i), max_tokens=1)
                page = self.open(router)
                page.wait_for("document.querySelectorAll('#prefixes .chip').length > 0", "prefixes")
                shown = page.text("#prefixes")
                self.assertEqual("<img src=x" in shown, bool(flags), shown)
                self.assertEqual("--show-prefix-text" in shown, not flags)
                self.assertEqual(page.evaluate("document.querySelectorAll('#prefixes img, #prefixes script').length"), 0)
                self.check_quiet(page, router.admin)

    def test_empty_states_say_what_to_do(self):
        cluster, router = self.start(workers=0)
        page = self.open(router)
        self.wait_for_live(page)
        self.assertIn("roost-worker --model", page.text("#workers"))
        self.assertIn("curl ", page.text("#decisions"))
        for panel, told in (("prefixes", "none is ready"), ("keys", "roostctl key new")):
            wait_until(lambda: told in page.text(f"#{panel}"), f"what to do, in {panel}")
        cluster.start_worker("worker-a")
        page.wait_for("/ready/.test(document.querySelector('#workers li')?.innerText ?? '')", "that the worker appears")
        page.wait_for("/No request has found a cached prefix/.test(document.querySelector('#prefixes').innerText)", "what prefixes are")
        self.check_quiet(page, router.admin)

    def test_pairs_of_workers_are_shown_once_blocks_travelled(self):
        _, router = self.start()
        router.wait_for_workers(2)
        page = self.open(router)
        self.wait_for_live(page)
        self.assertFalse(page.is_shown("#transfers-section"))
        for worker in ("worker-a", "worker-b"):
            warm = {"model": "demo-model", "prompt": DOCUMENTS[0], "workers": [worker]}
            self.assertEqual(router.request("POST", "/admin/v1/warm", warm).status, 200)
        wait_until(lambda: page.is_shown("#transfers-section"), "that it is shown")
        self.assertRegex(page.text("#transfers li"), r"(?s)worker-a.*worker-b.*[MG]B/s.*complete")
        self.assertIn("1\u00a0pair of workers", page.text("#transfers-note"))
        self.check_layout(page, SIZES["desktop"][0])
        self.check_quiet(page, router.admin)

    def test_a_lost_worker_stays_visible_with_what_became_of_its_requests(self):
        cluster, router = self.start(workers=1)
        lost = cluster.start_worker("worker-lost")
        router.wait_for_workers(2)
        page = self.open(router)
        self.wait_for_live(page)
        lost.kill()
        wait_until(lambda: page.is_shown("#lost-workers"), "that it is shown")
        self.assertIn("worker-lost", page.text("#lost-list"))
        self.assertRegex(page.text("#lost-list"), "silent: nothing was heard of it|its connection is gone")
        page.wait_for("/^1 of 1 ready, 1\\smore worker lost;/.test(document.querySelector('#workers-note').innerText)",
                      "that the count of workers does not look whole")
        page.wait_for("/\\d\\d:\\d\\d:\\d\\d\\sUTC/.test(document.querySelector('#events').innerText)", "times as the logs have them")
        page.wait_for("/worker-lost lost \\d+ s ago/.test(document.querySelector('#verdict').innerText)", "the line on top")
        page.wait_for("/worker-lost\\s*lost/.test(document.querySelector('#events').innerText)", "the event")
        self.check_layout(page, SIZES["desktop"][0])
        self.check_quiet(page, router.admin)

    # ---- what a router that is gone looks like ----

    def test_a_killed_router_is_said_to_be_gone_and_its_numbers_with_it(self):
        cluster, router = self.start(workers=1)
        router.wait_for_workers(1)
        page = self.open(router)
        self.wait_for_live(page)
        router.kill()
        wait_until(lambda: page.is_shown("#lost"), "that the page says so")
        self.assertRegex(page.text("#lost h2"), r"^Not reachable since \d\d:\d\d:\d\d\sUTC$")
        self.assertFalse(page.is_shown("#live"))
        self.assertTrue(page.is_shown("#savings"))  # needs no router
        cluster.start_router("--admin-address", urllib.parse.urlparse(router.admin).netloc)
        self.wait_for_live(page)
        self.assertFalse(page.is_shown("#lost"))
        self.assertIn("No worker is connected", page.text("#workers"))  # nothing of the old one is left

    def test_a_router_that_hangs_is_not_reachable_either(self):
        _, router = self.start(workers=0)
        page = self.open(router)
        self.wait_for_live(page)
        os.kill(router.process.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: page.is_shown("#lost"), "that the page says so")
        finally:
            os.kill(router.process.pid, signal.SIGCONT)
        self.wait_for_live(page)

    def test_a_paused_page_asks_nothing(self):
        _, router = self.start(workers=0)
        page, other = self.open(router), self.open(router)
        self.wait_for_live(page)
        page.click("#pause")
        wait_until(lambda: page.text("#state").startswith("Paused at"), "that it says so")
        # Answers to earlier requests may still come, so it counts from the other's next answer on.
        for wanted in (2, 5):
            before, others = len(page.requested), len(other.requested)
            wait_until(lambda: len(other.requested) >= others + 4 * wanted, "that the other page asks on")
        self.assertEqual(len(page.requested), before)
        router.kill()
        wait_until(lambda: other.is_shown("#lost"), "that the other page sees it")
        self.assertTrue(page.is_shown("#live"))
        page.click("#pause")
        wait_until(lambda: page.is_shown("#lost"), "that it asks again")

    # ---- keys and names ----

    def test_with_keys_the_page_asks_for_one_and_keeps_it_in_its_tab(self):
        admin = KeyFile(self.folder, "operators.jsonl")
        clients = KeyFile(self.folder, "clients.jsonl")
        admin.add("oncall")
        clients.add("chat-app", "--tenant", "acme")
        _, router = self.start("--admin-keys", str(admin.path), "--api-keys", str(clients.path))
        page = self.open(router)
        wait_until(lambda: page.is_shown("#ask-key"), "that it asks for a key")
        self.assertFalse(page.is_shown("#live"))
        self.assertEqual(page.evaluate("document.activeElement.id"), "key")
        for wrong, told in (("sk-roost-wrong", "does not take this key"), ("schlüssel", "signs of ASCII")):
            page.type(wrong)
            page.press("Enter")
            wait_until(lambda: told in page.text("#key-error"), f"that it refuses {wrong}")
            page.evaluate("document.getElementById('key').focus()")
        self.assertEqual(page.evaluate("sessionStorage.length + localStorage.length + document.cookie.length"), 0)
        page.type(admin.secrets["oncall"])
        page.press("Enter")
        self.wait_for_live(page)
        with Load(router, bearer(clients.secrets["chat-app"])):
            self.check_every_panel(page)
            page.wait_for("/chat-app/.test(document.querySelector('#keys').innerText)", "the usage of the key")
            page.wait_for("/[1-9]/.test(document.querySelector('#keys li .cell:nth-child(2)').innerText)", "its requests")
        self.assertEqual(page.evaluate("Object.values(sessionStorage).join()"), admin.secrets["oncall"])
        self.assertEqual(page.evaluate("localStorage.length + document.cookie.length"), 0)
        self.assertNotIn(admin.secrets["oncall"], "".join(page.requested))
        page.send("Page.reload")
        self.wait_for_live(page)  # the same tab
        self.check_quiet(page, router.admin, allowed=("status of 401",))
        other = self.open(router)
        wait_until(lambda: other.is_shown("#ask-key"), "that another tab asks")
        page.click("#forget")
        wait_until(lambda: page.is_shown("#ask-key"), "that it is forgotten")
        self.assertEqual(page.evaluate("sessionStorage.length"), 0)

    def test_a_page_by_another_name_is_refused_the_data(self):
        _, router = self.start(workers=0)
        by_name = router.admin.replace("127.0.0.1", "evil.example")
        page = self.open_url(f"{by_name}/console/")
        wait_until(lambda: page.is_shown("#refused"), "that the router refuses")
        self.assertIn("use an IP address or localhost", page.text("#refused"))
        # Requests of another site's page, once its name points here.
        for path in ("admin/v1/workers", "admin/v1/decisions", "admin/v1/prefixes", "metrics"):
            status = page.evaluate(f"fetch('/{path}', {{headers: {{'User-Agent': 'curl'}}}}).then((answer) => answer.status)")
            self.assertEqual(status, 403, path)

    def test_a_named_page_may_be_called_by_its_name(self):
        cluster = self.enterContext(Cluster())
        first = cluster.start_router()
        address = urllib.parse.urlparse(first.admin).netloc
        first.stop()
        name = f"http://{address.replace('127.0.0.1', 'router.example')}"
        cluster.start_router("--admin-address", address, "--cors-origins", name)
        page = self.open_url(f"{name}/console/")
        self.wait_for_live(page)
        self.check_quiet(page, name)

    def test_nobody_shows_the_page_in_a_frame(self):
        _, router = self.start(workers=0)
        page = self.open(router, "/console/")
        page.evaluate(f"""new Promise((done) => {{
          const frame = document.createElement('iframe');
          frame.onload = frame.onerror = done;
          frame.src = '{router.admin}/console/';
          document.body.append(frame);
        }})""")
        self.assertTrue(any("frame" in error.lower() for error in page.errors), page.errors)

    # ---- files ----

    def test_a_connection_goes_on_behind_an_answer_without_a_body(self):
        _, router = self.start(workers=0)
        connection = http.client.HTTPConnection(urllib.parse.urlparse(router.admin).netloc, timeout=DEADLINE_SECONDS)
        connection.request("GET", "/console/style.css")
        answer = connection.getresponse()
        style = answer.read()
        self.assertEqual(style, (ROOT / "router/console/style.css").read_bytes())
        for _ in range(2):
            connection.request("GET", "/console/style.css", headers={"If-None-Match": answer.headers["ETag"]})
            known = connection.getresponse()
            self.assertEqual((known.status, known.read(), known.headers["Content-Length"]), (304, b"", None))
        connection.request("HEAD", "/console/style.css")
        head = connection.getresponse()
        self.assertEqual((head.status, head.read(), int(head.headers["Content-Length"])), (200, b"", len(style)))
        connection.close()


class ConsoleScriptsTest(unittest.TestCase):
    """The parts of the page that compute, called in the browser."""

    @classmethod
    def setUpClass(cls):
        if not find_browser():
            raise unittest.SkipTest(MISSING)
        cls.browser = cls.enterClassContext(Browser())
        cls.router = cls.enterClassContext(Cluster()).start_router()
        cls.page = cls.browser.open(f"{cls.router.admin}/console/")

    def call(self, module, expression):
        return self.page.evaluate(f"import('./{module}.js').then((m) => {expression})")

    def formatted(self, function, values):
        return [told.replace("\u00a0", " ") for told in self.call("format", f"{json.dumps(values)}.map((v) => m.{function}(v))")]

    def test_numbers_have_units_and_three_digits(self):
        self.assertEqual(self.formatted("count", [0, 7, 1488, 9999, 10000, 13949, 99950, 999499, 999500, 4224000, 2.5e9, 4e12, None]),
                         ["0", "7", "1,488", "9,999", "10.0k", "13.9k", "100k", "999k", "1.00M", "4.22M", "2.50G", "4000G", "–"])
        self.assertEqual(self.formatted("percent", [0, 0.0004, 0.004, 0.36, 0.969, 0.9951, 0.99999, 1, None]),
                         ["0 %", "0.1 %", "0.4 %", "36 %", "97 %", "99.5 %", "99.9 %", "100 %", "–"])
        self.assertEqual(self.formatted("seconds", [0, 0.00042, 0.0031, 0.059, 0.9994, 0.9996, 1.344, 59.94, 59.96, 192, 7500, 90000, -0.059, None]),
                         ["0 ms", "0.42 ms", "3.1 ms", "59 ms", "999 ms", "1.00 s", "1.34 s", "59.9 s", "1 min", "3 min 12 s", "2 h 5 min",
                          "1 d 1 h", "-59 ms", "–"])
        self.assertEqual(self.formatted("rate", [0, 0.001, 0.42, 8.14, 120.4, 13900, None]),
                         ["0", "<0.01", "0.42", "8.1", "120", "13.9k", "–"])

    def test_metrics_are_read_with_all_that_labels_can_hold(self):
        text = 'a{m="x",n="q\\"}\\\\,\\n{"} 2\na{m="y",n=""} 3e2\n# HELP b help\nb 7\nb_bucket{le="+Inf"} 4\nbroken\n'
        told = self.call("prometheus", f"(() => {{ const f = m.parse({json.dumps(text)}); return ["
                         "m.sum(f, 'a'), m.sum(f, 'a', {m: 'x'}), m.sum(f, 'a', {m: undefined}), m.sum(f, 'b'), m.sum(f, 'none'),"
                         "f.get('a')[0].labels.n]; })()")
        self.assertEqual(told, [302, 2, 302, 7, 0, 'q"}\\,\n{'])

    def test_quantiles_are_those_of_the_time_between_two_readings(self):
        now = "new Map([[0.1, 10], [1, 30], [Infinity, 40]])"
        before = "new Map([[0.1, 10], [1, 10], [Infinity, 10]])"
        self.assertEqual(self.call("prometheus", f"m.quantile(0.5, {now}, {before})"), {"value": 0.1 + 0.9 * 15 / 20})
        self.assertEqual(self.call("prometheus", f"m.quantile(0.99, {now}, {before})"), {"above": 1})
        self.assertEqual(self.call("prometheus", f"m.quantile(0.25, {now})"), {"value": 0.1})
        self.assertIsNone(self.call("prometheus", f"m.quantile(0.5, {now}, {now})"))
        self.assertIsNone(self.call("prometheus", "m.quantile(0.5, new Map())"))

    def test_the_calculator_has_the_examples_of_the_page_about_prompts(self):
        example = {"shared": 4096, "own": 128, "requests": 1000, "workers": 4, "speed": 10000}
        told = self.call("savings", f"m.savings({json.dumps(example)})")
        self.assertEqual((round(told["shareOfOne"], 2), round(told["saved"], 3)), (0.97, 0.966))
        self.assertEqual((told["without"], told["withSharing"]), (4224000, 4 * 4096 + 128000))
        self.assertEqual((round(told["firstTokenWithout"], 2), round(told["firstTokenWith"], 3)), (0.42, 0.013))
        few = self.call("savings", f"m.savings({json.dumps({**example, 'requests': 2})})")
        self.assertEqual((few["computing"], few["saved"]), (2, 0))

    def test_the_calculator_follows_its_fields_and_sliders(self):
        page = self.page
        for name, value in (("shared", "4096"), ("own", "128"), ("requests", "1000"), ("workers", "4"), ("speed", "10000")):
            page.evaluate(f"(() => {{ const field = document.getElementById('savings-{name}'); field.value = '{value}';"
                          "field.dispatchEvent(new Event('input')); })()")
        told = page.text("#savings").replace("\u00a0", " ")
        for part in ("96.6 % of the prompt tokens need not be computed", "97 % saved", "4.22M tokens", "422 ms → 13 ms",
                     "(1,000 − 4) · 4,096 / (1,000 · 4,224)"):
            self.assertIn(part, told)
        page.evaluate("document.getElementById('savings-shared').value = '-1'; "
                      "document.getElementById('savings-shared').dispatchEvent(new Event('input'))")
        self.assertEqual(page.evaluate("document.getElementById('savings-shared').getAttribute('aria-invalid')"), "true")
        self.assertIn("96.6", page.text("#savings .headline"))  # the last right value counts
        page.evaluate("document.querySelector('#savings-shared ~ input').focus()")
        page.press("Home")
        page.wait_for("document.getElementById('savings-shared').value === '0'", "that the keyboard moves the slider")
        self.assertIn("0.0", page.text("#savings .headline"))

    def test_everything_that_can_be_used_has_a_name(self):
        unnamed = self.page.evaluate("""[...document.querySelectorAll('button, input, select')].filter((each) =>
          !(each.labels?.length || each.getAttribute('aria-label') || each.innerText?.trim())).map((each) => each.outerHTML)""")
        self.assertEqual(unnamed, [])


# Elements whose text has a contrast below 4.5 on its background (WCAG 2.2, 1.4.3).
LOW_CONTRAST = """(() => {
  const parts = (color) => color.match(/[\\d.]+/g).map(Number);
  const luminance = (color) => parts(color).slice(0, 3).map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  const background = (element) => {
    for (let each = element; each !== null; each = each.parentElement) {
      const color = getComputedStyle(each).backgroundColor;
      if ((parts(color)[3] ?? 1) > 0) return color;
    }
    return 'rgb(255, 255, 255)';
  };
  const low = [];
  for (const element of document.querySelectorAll('body *')) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== '');
    if (!hasText || !element.checkVisibility() || element.disabled) continue;
    const [a, b] = [luminance(getComputedStyle(element).color), luminance(background(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) low.push(`${element.tagName} ${element.className} ${element.innerText}: ${contrast.toFixed(2)}`);
  }
  return low;
})()"""


if __name__ == "__main__":
    unittest.main()
