"""A double of servers that take requests as clients write them: llama.cpp's as recordings/llama.cpp has it, and with --like
ollama or --like mlx one of those, with what they tell and what they do not.

    llama_double.py --port 8080 [--slots 2] [--context 8192] [--models a,b] [--like ollama] [--token-ms 5] …

It has slots, each of which holds one text. A request goes to the idle slot whose text begins most alike (at least a tenth of
the prompt, as llama.cpp does), else to the one that was idle for longest, and waits while all are busy. A text that it would
replace goes to RAM, from where it comes back. Four bytes are a token. Prompts cost --prefill-us for each token that the slot lacks. Answers follow from the prompt.

/completion takes token ids, and a slot (`id_slot`): a request that names a busy one waits, and what runs there is lost, which
/requests tells of. Its answers are ids of the demo model that have a text.

With --slot-save-path slots are saved to files there and restored, one at a time for all slots. A file holds the ids and
--slot-token-bytes of nothing for each. As the real server it restores what it is given, and dies of a file that ends too early.
"""

import argparse
import array
import http.server
import json
import os
import pathlib
import threading
import time
import typing
import zlib

BUILD = "b7777-double"
SIMILARITY = 0.1


def tokens_of(text):
    data = text.encode()
    return [data[i:i + 4] for i in range(0, len(data), 4)]


def text_of(content):
    if isinstance(content, list):
        return "".join(part.get("text", f"<{part['type']}>") for part in content)
    return content or ""


def render(body):
    """The prompt of a chat or a completion."""
    if "messages" not in body:
        return body["prompt"]
    tools = "".join(json.dumps(tool) for tool in body.get("tools") or [])
    return tools + "".join(f"<|{m['role']}|>{text_of(m.get('content'))}" for m in body["messages"]) + "<|assistant|>"


def words_of(prompt, count):
    return [f"w{zlib.crc32(f'{i}{prompt[-64:]}'.encode()) % 1000} " for i in range(count)]


def ids_of(prompt, count):
    """Output for a prompt of ids."""
    return [300 + zlib.crc32(f"{i}{prompt[-16:]}".encode()) % 1000 for i in range(count)]


def common(a, b):
    length = min(len(a), len(b))
    return next((i for i in range(length) if a[i] != b[i]), length)


class Sequence:
    """What a slot or the memory holds. `first` is the first position of which windows still have the keys and values."""

    def __init__(self, tokens=(), points=(), first=0):
        self.tokens, self.points, self.first = list(tokens), list(points), first


class Point(typing.NamedTuple):
    """A checkpoint: of so many tokens, whose windows begin at `first`."""

    tokens: int
    first: int
    task: int


class Layers:
    """Where the server goes on in a sequence, and its checkpoints, as server-context.cpp (pre_decode, create_checkpoint) has them
    for a prompt of token ids that is computed alone. `kind` is full, windows or hybrid."""

    BATCH, PHYSICAL_BATCH = 2048, 512
    MOST = 32  # of a slot's checkpoints
    ENDS = (4 + PHYSICAL_BATCH, 4)  # before a prompt's end

    def __init__(self, kind="full", window=64, min_step=8192):
        self.kind, self.min_step = kind, min_step
        self.window = window if kind == "windows" else 0
        self.cells = -(-(window + self.PHYSICAL_BATCH) // 256) * 256

    def first_of(self, held):
        return {"full": 0, "windows": held.first, "hybrid": len(held.tokens) - 1}[self.kind]

    def go_on(self, held, prompt):
        """So many tokens of the prompt are found. The sequence loses what is behind them."""
        past = following = common(held.tokens, prompt)
        threshold = max(0, following - self.window - (past == len(prompt)))
        if self.kind != "full" and past > 0 and self.first_of(held) >= threshold:
            usable = [point for point in held.points
                      if point.tokens - 1 <= following and (point.first < threshold or point.first == 0)]
            if usable:
                point = usable[-1]
                following = min(following, max(point.first + 1, point.tokens - 1))
                past = min(following, point.tokens)
                held.first = max(point.first, point.tokens - self.window)
            else:
                past = following = 0
        if past == 0:
            held.first = 0
        held.points = [point for point in held.points if point.tokens - 1 <= following]
        past = min(past, len(prompt) - 1)
        held.tokens = held.tokens[:past]
        return past

    def compute(self, held, prompt, task):
        """The rest of the prompt."""
        end = len(prompt)
        at = len(held.tokens)
        while at < end:
            begin, at = at, min([end, at + self.BATCH] + [end - before for before in self.ENDS if at < end - before])
            if self.kind != "full" and begin > 0 and end < at + self.PHYSICAL_BATCH:
                held.tokens = prompt[:begin]
                self.add_point(held, Point(begin, self.first_of(held), task))
            held.tokens = prompt[:at]
            held.first = max(held.first, at - self.cells)

    def add_point(self, held, new):
        last = -1
        for point in list(held.points):
            if len(held.points) + 1 < self.MOST:
                break
            if point.task != new.task and last >= 0 and point.tokens <= last + self.min_step:
                held.points.remove(point)
            else:
                last = point.tokens
        held.points = held.points[max(0, len(held.points) - self.MOST + 1):]
        held.points = [point for point in held.points if point.tokens != new.tokens] + [new]

    def extend(self, held, output):
        held.tokens = held.tokens + list(output)
        held.first = max(held.first, len(held.tokens) - self.cells)


class Slots:
    def __init__(self, count, ram_texts, layers=None):
        self.layers = layers or Layers()
        self.ram = []
        self.ram_texts = ram_texts
        self.held = [Sequence() for _ in range(count)]
        self.busy = [False] * count
        self.used = [0] * count
        self.task = [None] * count
        self.kept = [0] * count
        self.turn = 0
        self.tasks = 0
        self.named_busy = 0
        self.change = threading.Condition()

    def take(self, prompt, named=-1, finds=True):
        """The slot, and how many of the prompt's tokens it has."""
        with self.change:
            if named >= 0:
                self.named_busy += self.busy[named]
                self.change.wait_for(lambda: not self.busy[named])
                best, is_like = named, True
            else:
                self.change.wait_for(lambda: not all(self.busy))
                idle = [i for i, busy in enumerate(self.busy) if not busy]
                best = max(idle, key=lambda i: common(self.held[i].tokens, prompt))
                is_like = common(self.held[best].tokens, prompt) > SIMILARITY * len(prompt)
                if not is_like:
                    best = min(idle, key=lambda i: self.used[i])
            self.swap(best, prompt, not is_like)
            if not finds:
                self.held[best] = Sequence()
            cached = self.layers.go_on(self.held[best], prompt)
            self.tasks += 1
            self.task[best] = self.tasks
            self.kept[best] = cached
            self.busy[best] = True
            self.layers.compute(self.held[best], prompt, self.tasks)
            return best, cached

    def swap(self, slot, prompt, always):
        """A text of which the slot would lose most goes to RAM, and a better one comes from there."""
        held = self.held[slot]
        mine = common(held.tokens, prompt)
        if not self.ram_texts or not (always or 2 * mine < len(held.tokens)):
            return
        if held.tokens and not any(common(text.tokens, held.tokens) == len(held.tokens) for text in self.ram):
            self.ram = [text for text in self.ram if common(text.tokens, held.tokens) < len(text.tokens)]
            self.ram = [*self.ram, Sequence(held.tokens, held.points, held.first)][-self.ram_texts:]
        keep, like, best = mine / len(held.tokens) if held.tokens else -1, mine, None
        for text in self.ram:
            its = common(text.tokens, prompt)
            if its >= len(text.tokens) / 4 and its / len(text.tokens) > keep and its > like:
                keep, like, best = its / len(text.tokens), its, text
        if best:
            self.ram.remove(best)
            self.held[slot] = best

    def run_alone(self, slot, action):
        """What the server does in its one loop, once the slot is idle."""
        with self.change:
            self.change.wait_for(lambda: not self.busy[slot])
            return action()

    def give_back(self, slot, prompt_tokens, output):
        with self.change:
            self.turn += 1
            self.used[slot] = self.turn
            self.held[slot].tokens = self.held[slot].tokens[:prompt_tokens]
            self.layers.extend(self.held[slot], output)
            self.kept[slot] = 0
            self.busy[slot] = False
            self.change.notify_all()


class Answer:
    """One answer: what llama.cpp writes of it."""

    def __init__(self, options, body):
        self.options = options
        self.body = body
        self.is_chat = "messages" in body
        self.prompt = render(body)
        self.tokens = tokens_of(self.prompt)
        limit = body.get("max_tokens") or body.get("max_completion_tokens") or 8
        self.words = words_of(self.prompt, limit)
        self.cached = self.sent = 0

    def usage(self):
        usage = {"completion_tokens": len(self.words), "prompt_tokens": len(self.tokens),
                 "total_tokens": len(self.tokens) + len(self.words)}
        if self.options.like != "ollama":
            usage["prompt_tokens_details"] = {"cached_tokens": self.cached}
        return usage

    def timings(self):
        if self.options.like != "llama.cpp":
            return {}
        return {"timings": {"cache_n": self.cached, "prompt_n": len(self.tokens) - self.cached,
                            "predicted_n": len(self.words)}}

    def head(self, kind):
        return {"created": 1, "id": "chatcmpl-double", "model": self.body.get("model", ""), "system_fingerprint": BUILD,
                "object": f"chat.completion{kind}" if self.is_chat else "text_completion"}

    def whole(self):
        text = "".join(self.words)
        choice = {"finish_reason": "length", "index": 0}
        choice |= {"message": {"role": "assistant", "content": text}} if self.is_chat else {"text": text}
        return {"choices": [choice], **self.head(""), "usage": self.usage(), **self.timings()}

    @staticmethod
    def progress():
        return []

    def chunk(self, word):
        piece = {"delta": {"content": word}} if self.is_chat else {"text": word}
        return {"choices": [{"finish_reason": None, "index": 0, **piece}], **self.head(".chunk")}

    def ends(self):
        piece = {"delta": {}} if self.is_chat else {"text": ""}
        end = {"choices": [{"finish_reason": "length", "index": 0, **piece}], **self.head(".chunk")}
        if not (self.body.get("stream_options") or {}).get("include_usage"):
            return [{**end, **self.timings()}]
        return [end, {"choices": [], **self.head(".chunk"), "usage": self.usage(), **self.timings()}]


class TokenAnswer(Answer):
    """One answer of /completion."""

    def __init__(self, options, body):
        self.options = options
        self.body = body
        self.prompt = self.tokens = body["prompt"]
        if not all(0 <= token < 2048 for token in self.tokens):
            raise InvalidTokens
        self.words = ids_of(self.prompt, body.get("n_predict") or 8)
        self.cached = self.sent = 0

    def probabilities(self, tokens):
        if not self.body.get("n_probs"):
            return {}
        top = [{"id": 5, "token": "&", "bytes": [38], "logprob": -0.5}]
        return {"completion_probabilities": [{"id": token, "token": "w", "bytes": [119], "logprob": -1.5, "top_logprobs": top}
                                             for token in tokens]}

    def progress(self):
        if not self.body.get("return_progress"):
            return []
        return [{"index": 0, "content": "", "tokens": [0], "stop": False, "id_slot": -1, "tokens_predicted": 0,
                 "tokens_evaluated": len(self.tokens),
                 "prompt_progress": {"total": len(self.tokens), "cache": self.cached, "processed": self.cached, "time_ms": 0}}]

    def chunk(self, word):
        return {"index": 0, "content": "w", "tokens": [word], "stop": False, "id_slot": -1, "tokens_predicted": self.sent + 1,
                "tokens_evaluated": len(self.tokens), **self.probabilities([word])}

    def end(self, content, tokens):
        return {"index": 0, "content": content, "tokens": tokens, "id_slot": self.number, "stop": True, "model": "demo-model",
                "tokens_predicted": len(self.words), "tokens_evaluated": len(self.tokens), "stop_type": "limit",
                "tokens_cached": len(self.tokens) + len(self.words) - 1, **self.timings()}

    def whole(self):
        return {**self.end("w" * len(self.words), self.words), **self.probabilities(self.words)}

    def ends(self):
        return [self.end("", [])]


class InvalidTokens(Exception):
    pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a head and its body are two writes
    options = None
    slots = None
    requests = []
    moves = []
    may_answer = threading.Event()

    def log_message(self, *_args):
        pass

    def send(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status, message):
        self.send(status, {"error": {"code": status, "message": message, "type": "not_found_error"}})

    def do_GET(self):
        options = self.options
        models = [{"id": name, "object": "model", "created": 1, "owned_by": "llamacpp"} for name in options.models]
        pages = {"/v1/models": lambda: {"object": "list", "data": models}, "/requests": lambda: self.requests,
                 "/named-busy": lambda: self.slots.named_busy, "/moves": lambda: self.moves}
        if options.like == "llama.cpp":
            for model in models:
                model["meta"] = {"n_ctx_train": (1 if options.share_context else 4) * options.context}
            pages |= {"/health": lambda: {"status": "ok"}, "/props": self.props}
            if not options.no_slots:
                pages["/slots"] = self.slot_page
        if self.path not in pages:
            return self.refuse(404, "File Not Found")
        return self.send(200, pages[self.path]())

    def slot_page(self):
        slots = self.slots
        pages = []
        for i, busy in enumerate(slots.busy):
            page = {"id": i, "n_ctx": self.options.context, "is_processing": busy}
            if slots.task[i]:
                page |= {"id_task": slots.task[i], "n_prompt_tokens": len(slots.held[i].tokens),
                         "n_prompt_tokens_cache": slots.kept[i]}
            pages.append(page)
        return pages

    def props(self):
        options = self.options
        return {"default_generation_settings": {"params": {}, "n_ctx": options.context}, "total_slots": options.slots,
                "model_path": options.model_file, "endpoint_slots": not options.no_slots, "endpoint_props": False,
                "endpoint_metrics": False, "chat_template": options.chat_template, "build_info": BUILD}

    def move_slot(self, data):
        """/slots/N?action=A"""
        options, slots = self.options, self.slots
        if not options.slot_save_path:
            return self.send(501, {"error": {"code": 501, "type": "not_supported_error",
                                             "message": "This server does not support slots action. Start it with `--slot-save-path`"}})
        number, _, action = self.path.removeprefix("/slots/").partition("?action=")
        slot = int(number) % options.slots
        if action == "erase":
            count = len(slots.held[slot].tokens)
            slots.run_alone(slot, lambda: slots.held.__setitem__(slot, Sequence()))
            return self.send(200, {"id_slot": slot, "n_erased": count})
        name = json.loads(data).get("filename", "")
        if action not in ("save", "restore") or not name or "/" in name:
            return self.bad_request("Invalid action" if name else "key 'filename' not found")
        path = pathlib.Path(options.slot_save_path) / name
        done = slots.run_alone(slot, lambda: self.timed(self.save if action == "save" else self.restore, slot, path))
        if done is None:
            return self.bad_request("Unable to restore slot: No available space in KV cache or invalid slot save file")
        words = ("n_saved", "n_written", "save_ms") if action == "save" else ("n_restored", "n_read", "restore_ms")
        self.moves.append([action, *done[:2]])
        return self.send(200, {"id_slot": slot, "filename": name, words[0]: done[0], words[1]: done[1], "timings": {words[2]: done[2]}})

    @staticmethod
    def timed(action, slot, path):
        began = time.monotonic()
        done = action(slot, path)
        return done and (*done, 1000 * (time.monotonic() - began))

    def bad_request(self, message):
        self.send(400, {"error": {"code": 400, "message": message, "type": "invalid_request_error"}})

    def save(self, slot, path):
        options = self.options
        held = self.slots.held[slot].tokens
        with path.open("wb") as file:
            file.write(options.kv_type.encode().ljust(8) + array.array("I", held).tobytes())
            file.flush()
            if options.die_in_saves:
                os._exit(1)
            file.write(bytes(options.slot_token_bytes * len(held)))
        time.sleep(len(held) * options.save_us / 1e6)
        return len(held), path.stat().st_size

    def restore(self, slot, path):
        options = self.options
        data = path.read_bytes() if path.exists() else b""
        count, rest = divmod(len(data) - 8, 4 + options.slot_token_bytes)
        if data[:8] != options.kv_type.encode().ljust(8):
            self.slots.held[slot] = Sequence()
            return None
        if rest:
            os._exit(1)
        time.sleep(count * options.restore_us / 1e6)
        self.slots.held[slot] = Sequence(array.array("I", data[8:8 + 4 * count]))
        return count, len(data)

    def do_POST(self):
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/slots/"):
            return self.move_slot(data)
        if self.path == "/answer":
            self.may_answer.set()
            return self.send(200, {})
        if self.path not in ("/v1/chat/completions", "/v1/completions", "/completion"):
            return self.refuse(404, "File Not Found")
        try:
            body = json.loads(data)
            answer = (TokenAnswer if self.path == "/completion" else Answer)(self.options, body)
        except InvalidTokens:
            return self.refuse(400, "Prompt contains invalid tokens")
        except (ValueError, KeyError, TypeError) as error:
            return self.refuse(400, f"not a request: {error}")
        if len(answer.tokens) >= self.options.context:
            return self.refuse(400, "the request exceeds the available context size")
        slot, answer.cached = self.slots.take(answer.tokens, body.get("id_slot", -1), body.get("cache_prompt", True))
        answer.slot = slot
        answer.number = slot
        try:
            time.sleep((len(answer.tokens) - answer.cached) * self.options.prefill_us / 1e6)
            self.may_answer.wait()
            self.requests.append({"prompt": len(answer.tokens), "cached": answer.cached, "slot": slot,
                                  "model": answer.body.get("model")})
            self.answer(answer)
        finally:
            self.release(answer)

    def release(self, answer):
        """Frees its slot, once. It holds what is sent."""
        if answer.slot is None:
            return
        output = answer.words[:answer.sent]
        tail = output[:-1] if isinstance(answer, TokenAnswer) else tokens_of("".join(output))
        self.slots.give_back(answer.slot, len(answer.tokens), tail)
        answer.slot = None

    def answer(self, answer):
        if not answer.body.get("stream"):
            time.sleep(len(answer.words) * self.options.token_ms / 1e3)
            answer.sent = len(answer.words)
            self.release(answer)
            return self.send(200, answer.whole())
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for progress in answer.progress():
            self.event(json.dumps(progress))
        for count, word in enumerate(answer.words, 1):
            self.event(json.dumps(answer.chunk(word)))
            answer.sent = count
            time.sleep(self.options.token_ms / 1e3)
        self.release(answer)
        for end in answer.ends():
            self.event(json.dumps(end))
        if not isinstance(answer, TokenAnswer):
            self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")
        return None

    def event(self, data):
        text = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, _request, _client):
        pass  # a client that went away


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--context", type=int, default=65536, help="tokens of a slot")
    parser.add_argument("--models", type=lambda text: text.split(","), default=["demo-model"])
    parser.add_argument("--like", choices=["llama.cpp", "ollama", "mlx"], default="llama.cpp")
    parser.add_argument("--ram-texts", type=int, default=64, help="that its --cache-ram holds")
    parser.add_argument("--kind", choices=["full", "windows", "hybrid"], default="full", help="of its layers")
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--checkpoint-min-step", type=int, default=8192)
    parser.add_argument("--share-context", action="store_true", help="as llama.cpp without -np")
    parser.add_argument("--no-slots", action="store_true", help="as llama.cpp's flag: no page of them")
    parser.add_argument("--model-file", default="/models/double.gguf", help="that it says to have read")
    parser.add_argument("--chat-template", default="", help="that it says to render with")
    parser.add_argument("--slot-save-path")
    parser.add_argument("--slot-token-bytes", type=int, default=1024)
    parser.add_argument("--kv-type", default="f16", help="files of another one can not be restored")
    parser.add_argument("--save-us", type=float, default=0, help="of a token")
    parser.add_argument("--restore-us", type=float, default=0)
    parser.add_argument("--die-in-saves", action="store_true", help="in the middle of the first file")
    parser.add_argument("--held", action="store_true", help="answers begin once /answer is posted")
    parser.add_argument("--prefill-us", type=float, default=0)
    parser.add_argument("--token-ms", type=float, default=0)
    Handler.options = parser.parse_args()
    layers = Layers(Handler.options.kind, Handler.options.window, Handler.options.checkpoint_min_step)
    Handler.slots = Slots(Handler.options.slots, Handler.options.ram_texts, layers)
    if not Handler.options.held:
        Handler.may_answer.set()
    server = Server(("127.0.0.1", Handler.options.port), Handler)
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
