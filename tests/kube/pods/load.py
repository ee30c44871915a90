"""Clients of the API, in a process of its own: each asks again and again, streamed and not, on connections that stay open
and on new ones. Writes a JSON object per request on stdout; ends when its stdin ends, after the open requests.

    load.py '{"address": "10.96.0.1", "port": 80, "model": "demo-model", "clients": 6, "ca": null, "key": null}'

A request has failed if its answer is not complete: another status, an error in the stream, no end of the stream, fewer
tokens than were asked for. Nothing is tried again. Most prompts come again and again; some are new, and no cache helps.
"""

import http.client
import json
import random
import ssl
import sys
import threading
import time

TOKENS = (8, 40, 120, 400)
PROMPTS = 12
NEW_PROMPTS = 0.3
SECONDS = 60


class Client:
    def __init__(self, number, options, write):
        self.number = number
        self.options = options
        self.write = write
        self.draw = random.Random(number)
        self.count = 0
        # Half of them keep their connection, as SDKs do.
        self.keeps = number % 2 == 0
        self.connection = None

    def connect(self):
        if self.options["ca"]:
            context = ssl.create_default_context(cafile=self.options["ca"])
            return http.client.HTTPSConnection(self.options["address"], self.options["port"], timeout=SECONDS, context=context)
        return http.client.HTTPConnection(self.options["address"], self.options["port"], timeout=SECONDS)

    def ask(self):
        is_stream = self.draw.random() < 0.7
        self.count += 1
        prompt = str(self.draw.randrange(PROMPTS))
        if self.draw.random() < NEW_PROMPTS:
            prompt = f"{self.number} {self.count}"
        tokens = self.draw.choice(TOKENS)
        body = {"model": self.options["model"], "prompt": f"{prompt} " + "Who comes here at this hour? " * 40,
                "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": is_stream}
        headers = {"Content-Type": "application/json"}
        if self.options["key"]:
            headers["Authorization"] = f"Bearer {self.options['key']}"
        if is_stream:
            body["stream_options"] = {"include_usage": True}
        record = {"client": self.number, "start": time.monotonic(), "stream": is_stream, "prompt": prompt, "tokens": tokens,
                  "reused": self.connection is not None}
        try:
            self.connection = self.connection or self.connect()
            self.connection.request("POST", "/v1/completions", json.dumps(body), headers)
            response = self.connection.getresponse()
            record["worker"] = response.getheader("x-roost-worker")
            record.update(self.read_stream(response, record) if is_stream and response.status == 200 else
                          self.read_whole(response))
            if response.will_close or not self.keeps:
                self.close()
        except (OSError, http.client.HTTPException, ValueError) as error:
            record["error"] = f"{type(error).__name__}: {error}"
            self.close()
        if "error" not in record and record["got"] != tokens:
            record["error"] = f"{record['got']} tokens instead of {tokens}"
        record["end"] = time.monotonic()
        self.write(record)

    def close(self):
        self.connection.close()
        self.connection = None

    @staticmethod
    def read_whole(response):
        text = response.read().decode()
        if response.status != 200:
            return {"error": f"status {response.status}: {text[:300]}"}
        answer = json.loads(text)
        return {"got": answer["usage"]["completion_tokens"], "text": answer["choices"][0]["text"],
                "revision": answer["system_fingerprint"], **Client.cache_use(answer["usage"])}

    @staticmethod
    def cache_use(usage):
        return {"cached": usage["prompt_tokens_details"]["cached_tokens"], "prompt_tokens": usage["prompt_tokens"]}

    @staticmethod
    def read_stream(response, record):
        result = {"got": 0, "text": "", "revision": None}
        is_done = False
        for line in response:
            if line.startswith(b"data: [DONE]"):
                is_done = True
            elif line.startswith(b"data: "):
                event = json.loads(line[6:])
                if "error" in event:
                    return {"error": f"error in the stream: {event['error']}"}
                record.setdefault("first", time.monotonic())
                result["revision"] = event.get("system_fingerprint") or result["revision"]
                if event.get("usage"):
                    result |= {"got": event["usage"]["completion_tokens"], **Client.cache_use(event["usage"])}
                result["text"] += "".join(choice.get("text") or "" for choice in event["choices"])
        return result if is_done else {"error": f"the stream was cut after {len(result['text'])} characters"}


def main():
    options = json.loads(sys.argv[1])
    stopping = threading.Event()
    lock = threading.Lock()

    def write(record):
        with lock:
            print(json.dumps(record), flush=True)

    def run(number):
        client = Client(number, options, write)
        while not stopping.is_set():
            client.ask()
            stopping.wait(client.draw.uniform(0, 0.1))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(options["clients"])]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stopping.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
