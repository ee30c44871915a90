"""A double of vLLM 0.32: the HTTP API, the metrics and the events of its cache as the recordings show them, with a
"model" that needs no computing, so that tests can kill, stop and flood several of them within seconds.

    vllm_double.py --port 8000 --events tcp://127.0.0.1:5557 [--replay tcp://127.0.0.1:5657] [--blocks 72] …

The next token follows from the tokens before it (and from the seed, if it is sampled), so every double goes on with a
text as any other would. Its cache is one of blocks: a prompt's leading blocks that are there are cached, idle blocks are
evicted, the least recently used first. `vllm_double_test.py` compares its answers with the recordings.

Computing takes no time of its own, so requests do not slow each other down. With --paced they do, as on an engine:
prompts are computed one after the other, no request gets a token meanwhile, and each that runs makes the time between
tokens longer by --token-us-per-request. With --tokenizer FILE (and the package `tokenizers`) it takes texts too, and
its answers are words of that tokenizer, a token each, which are the same tokens in the next prompt. With --render it
turns a request into tokens (/v1/completions/render), as vLLM does with VLLM_ENABLE_SCALE_OUT_ENDPOINTS=1.

With --data-parallel-size N it has N ranks, each with a cache, a load and sockets of its own: its events at the port of
--events plus its number, replays likewise. A request goes to the rank of its header X-data-parallel-rank, without one
(or with --ignore-rank) to any.

It embeds, reranks and transcribes too, with answers that follow from the bodies (embedding_of); with --pooling that is
all that it does, as vLLM with --runner pooling. /chat takes parts that are images. /echo and /drip are of no vLLM: the
first answers with the body, the second with one piece of an answer that has no end.

With --kv-connector it exchanges blocks with other doubles as vLLM's NixlConnector does: a request with
kv_transfer_params.do_remote_decode lends its prompt's blocks, and its answer says where they are; one with
do_remote_prefill computes nothing but the last token of a prompt that its lender gives out, once. Where the lender does
not answer, it waits until its client goes.

SIGUSR1 loses the next message of events, as a full queue of the publisher does. SIGSTOP is a hang.
"""

import argparse
import asyncio
import contextlib
import json
import random
import signal
import time
import zlib

import zmq.asyncio

from vllm_double_cache import Cache, Publisher

VOCABULARY = 2048
END_OF_TEXT = 2047
VERSION = "0.32.0"
FINGERPRINT = f"vllm-{VERSION}-double"


def next_token(tokens, seed, bans=(), adapter=None):
    """The token after these. `seed` is None for greedy requests. Each adapter has a text of its own."""
    text = ",".join(map(str, [len(tokens), *tokens[-8:], seed, *([adapter] if adapter else [])])).encode()
    for turn in range(VOCABULARY):
        token = zlib.crc32(text + b"%d" % turn) % (VOCABULARY - 64)
        if token not in bans:
            return token
    return 0


def embedding_of(text):
    """Four numbers that follow from the text."""
    return [zlib.crc32(f"{i}{text}".encode()) / 2**32 for i in range(4)]


class Refused(Exception):
    """A request that is answered with an error, before any token."""

    def __init__(self, status, message, field=None):
        super().__init__(message)
        self.status = status
        self.field = field

    def json(self, **style):
        kind = "NotFoundError" if self.status == 404 else "BadRequestError"
        error = {"message": str(self), "type": kind, "param": self.field, "code": self.status}
        return json.dumps({"error": error}, **style)


class Request:
    def __init__(self, body, model, max_context, adapters=(), tokenizer=None):
        self.body = body
        self.prompt = body.get("prompt")
        if tokenizer and isinstance(self.prompt, str):
            self.prompt = tokenizer.encode(self.prompt).ids
        self.adapter = body["model"] if body.get("model") in adapters else None
        if self.adapter is None and body.get("model") not in (None, model):
            raise Refused(404, f"The model `{body['model']}` does not exist. Valid aliases: {model}.", "model")
        if not isinstance(self.prompt, list) or not self.prompt:
            raise Refused(400, "You must pass at least one prompt")
        if len(self.prompt) >= max_context:
            raise Refused(400, "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)", "max_tokens")
        self.count = body.get("n", 1)
        greedy = body.get("temperature", 1) == 0
        if greedy and self.count > 1:
            raise Refused(400, f"n must be 1 when using greedy sampling, got {self.count}.")
        least, most = body.get("min_tokens") or 0, body.get("max_tokens")
        if most is not None and least > most:
            raise Refused(400, f"min_tokens must be less than or equal to max_tokens={most}, got {least}.")
        self.seed = None if greedy else body.get("seed", 0)
        self.limit = min(body.get("max_tokens") or 16, max_context - len(self.prompt))
        self.salt = body.get("cache_salt") or ""
        self.session = body.get("session_id")
        if not isinstance(self.session, (str, type(None))):
            raise Refused(400, "session_id: Input should be a valid string", "session_id")
        self.transfer = body.get("kv_transfer_params") or {}
        self.tells_found = (body.get("vllm_xargs") or {}).get("kv_cache_report_mode") == "full"
        self.grouped = 0  # tokens of which the other groups of layers keep what they keep
        self.stops = set(body.get("stop_token_ids") or [])
        if not body.get("ignore_eos"):
            self.stops.add(END_OF_TEXT)
        options = body.get("stream_options") or {}
        self.tells_usage = options.get("include_usage", False)
        self.tells_usage_always = options.get("continuous_usage_stats", False)

    def problem(self):
        """The error that the engine finds in the request, and sends with status 200; None if there is none."""
        if any(token >= VOCABULARY for token in self.prompt):
            bad = next(token for token in self.prompt if token >= VOCABULARY)
            return Refused(400, f"Token id {bad} is out of vocabulary")
        wanted = self.body.get("logprobs") or 0
        if wanted > 20:
            return Refused(400, f"Requested sample logprobs of {wanted}, which is greater than max allowed: 20 "
                           f"(parameter=logprobs, value={wanted})", "logprobs")
        return None


class Rank:
    """A data-parallel rank: a cache, a load, and who publishes what becomes of its blocks."""

    def __init__(self, number, options, words):
        self.number = number
        self.options = options
        self.words = words
        self.cache = Cache(options.blocks - 1, options.block_tokens, options.group)  # one block is the engine's own
        self.publisher = Publisher(zmq.asyncio.Context.instance(), at_rank(options.events, number),
                                   at_rank(options.replay, number), options.topic, number)
        self.running = 0
        self.waiting = 0
        self.room = asyncio.Condition()
        self.device = asyncio.Lock()  # with --paced: held while a prompt is computed
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.tier_tokens = 0
        self.fetched = 0  # prompts of other engines
        self.output_tokens = 0
        self.steps = 0

    # ---- requests ----

    async def publish(self):
        events, self.cache.events = self.cache.events, []
        if events:
            await self.publisher.publish(events)

    async def admit(self):
        self.waiting += 1
        try:
            async with self.room:
                await self.room.wait_for(lambda: self.running < self.options.max_running)
                self.running += 1
        finally:
            self.waiting -= 1

    async def leave(self, held):
        self.cache.release(held)
        async with self.room:
            self.running -= 1
            self.room.notify_all()

    async def prefill(self, request, held):
        """Computes the prompt's blocks that are not cached; returns how many tokens were."""
        hashes = self.cache.hashes(request, request.prompt)
        size = self.options.block_tokens
        cached = self.cache.hit_blocks(hashes, (len(request.prompt) - 1) // size, self.options.speculative)
        request.grouped = cached * size
        if request.tells_found:
            self.cache.tell_found(hashes[:cached], request)
        self.cache.hold(hashes[:cached])
        held.extend(hashes[:cached])
        if self.options.tier:
            behind = self.cache.blocks_behind(hashes[cached:(len(request.prompt) - 1) // size])
            self.tier_tokens += behind * size
            cached += behind
        found = cached * size
        if request.transfer.get("do_remote_prefill"):
            await self.fetch(request)
            self.tier_tokens += len(request.prompt) - 1 - found
            found = len(request.prompt) - 1
        new_tokens = len(request.prompt) - found
        async with self.device if self.options.paced else contextlib.nullcontext():
            await asyncio.sleep(new_tokens * self.options.prefill_us * 1e-6)
        self.keep(request, request.prompt, held)
        self.prompt_tokens += len(request.prompt)
        self.cached_tokens += cached * size
        self.steps += 1
        return found

    async def fetch(self, request):
        """Another double's blocks of the prompt."""
        try:
            place = request.transfer
            reader, writer = await asyncio.open_connection(place["remote_host"], place["remote_port"])
            writer.write(f"GET /lent/{place['remote_request_id']} HTTP/1.1\r\nconnection: close\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            if json.loads(answer.partition(b"\r\n\r\n")[2]) == request.prompt:
                self.fetched += 1
                return
        except (OSError, KeyError, ValueError):
            pass
        await asyncio.Event().wait()

    async def wait_for_step(self):
        await asyncio.sleep(self.options.token_ms * 1e-3 + self.running * self.options.token_us_per_request * 1e-6)
        while self.device.locked():
            async with self.device:
                pass

    def keep(self, request, tokens, held):
        """Stores the full blocks of `tokens` that the request does not hold yet."""
        hashes = self.cache.hashes(request, tokens)
        place = len(self.cache.events)
        while len(held) < len(hashes):
            known = self.cache.cached_blocks(hashes)
            if known > len(held):
                self.cache.hold(hashes[len(held):known])
                held.extend(hashes[len(held):known])
                continue
            begin = len(held)
            parent = hashes[begin - 1] if begin else None
            stored = self.cache.store(hashes[begin:], parent, tokens[begin * self.options.block_tokens:], request)
            if stored == 0:
                return  # no room: the rest is computed and not kept
            held.extend(hashes[begin:begin + stored])
        self.cache.store_groups(hashes, tokens, request.grouped, place)
        request.grouped = max(request.grouped, len(hashes) * self.options.block_tokens)

    async def generate(self, request):
        """Yields (choice, token, finish reason, stop reason, cached tokens)."""
        await self.admit()
        held = []
        try:
            cached = await self.prefill(request, held)
            await self.publish()
            tokens = [list(request.prompt) for _ in range(request.count)]
            open_choices = list(range(request.count))
            produced = 0
            minimum = request.body.get("min_tokens") or 0
            while open_choices:
                produced += 1
                for choice in list(open_choices):
                    seed = None if request.seed is None else request.seed + choice
                    bans = request.stops if produced <= minimum else ()
                    token = next_token(tokens[choice], seed, bans, request.adapter)
                    if self.words:
                        token = self.words[token % len(self.words)][0]
                    tokens[choice].append(token)
                    self.output_tokens += 1
                    stops = token in request.stops
                    finish = "stop" if stops else "length" if produced == request.limit else None
                    if finish:
                        open_choices.remove(choice)
                    stop_reason = token if stops and token != END_OF_TEXT else None
                    yield choice, token, finish, stop_reason, cached
                self.steps += 1
                self.keep(request, tokens[0][:-1], held)
                await self.publish()
                if open_choices:
                    await self.wait_for_step()
        finally:
            await self.leave(held)

    def metrics(self):
        used = sum(1 for users in self.cache.users.values() if users)
        labels = f'engine="{self.number}",model_name="{self.options.model}"'
        values = {
            "num_requests_running": self.running, "num_requests_waiting": self.waiting,
            "kv_cache_usage_perc": used / max(1, self.options.blocks - 1),
            "prompt_tokens_total": self.prompt_tokens, "generation_tokens_total": self.output_tokens,
            "prefix_cache_hits_total": self.cached_tokens, "external_prefix_cache_hits_total": self.tier_tokens, "prefix_cache_queries_total": self.prompt_tokens,
            "iteration_tokens_total_count": self.steps}
        lines = [f"vllm:{name}{{{labels}}} {float(value)}" for name, value in values.items()]
        if self.options.pooling:
            return lines
        # As vLLM does, the blocks of all ranks together.
        blocks = self.options.blocks * self.options.data_parallel_size
        lines.append(f'vllm:cache_config_info{{block_size="{self.options.block_tokens}",enable_prefix_caching="True",'
                     f'engine="{self.number}",num_gpu_blocks="{blocks}"}} 1.0')
        return lines


class Double:
    def __init__(self, options):
        self.options = options
        self.adapters = list(options.adapter)
        self.tokenizer = load_tokenizer(options.tokenizer) if options.tokenizer else None
        self.words = words_of(self.tokenizer) if self.tokenizer else []  # (token, text)
        self.texts = dict(self.words)
        self.ranks = [Rank(number, options, self.words) for number in range(options.data_parallel_size)]
        self.started = time.time()
        self.looks = 0  # at its metrics
        self.sessions = []  # the session of each completion
        self.lends = True
        self.lent = {}  # prompts whose blocks another engine may fetch, by request
        self.next_id = 0
        self.draw = random.Random(1)
        self.routes = {"/v1/embeddings": self.embed, "/rerank": self.rerank, "/v1/audio/transcriptions": self.transcribe,
                       "/v1/chat/completions": self.chat, "/echo": self.echo, "/drip": self.drip}

    def rank_of(self, headers):
        wanted = headers.get("x-data-parallel-rank")
        if wanted is not None and not 0 <= int(wanted) < len(self.ranks):
            raise Refused(400, f"data_parallel_rank {wanted} is out of range [0, {len(self.ranks)}).")
        if wanted is not None and not self.options.ignore_rank:
            return self.ranks[int(wanted)]
        return self.draw.choice(self.ranks)

    # ---- the API ----

    def logprobs_of(self, request, token):
        if request.body.get("logprobs") is None:
            return None
        best = [token, *(t for t in range(request.body["logprobs"] + 1) if t != token)][:request.body["logprobs"] + 1]
        name = (lambda t: f"token_id:{t}") if request.body.get("return_tokens_as_token_ids") else (lambda t: f"<{t}>")
        return {"text_offset": [0], "token_logprobs": [-0.5], "tokens": [name(token)],
                "top_logprobs": [{name(t): -0.5 - i for i, t in enumerate(best)}]}

    async def stream(self, request, rank, identity, writer):
        head = {"id": identity, "object": "text_completion", "created": int(time.time()),
                "model": request.adapter or self.options.model}
        produced, cached, open_choices = 0, 0, request.count
        seen = set()
        async for choice, token, finish, stop_reason, cached in rank.generate(request):
            produced += 1
            usage = {"prompt_tokens": len(request.prompt), "total_tokens": len(request.prompt) + produced,
                     "completion_tokens": produced}
            returns_ids = request.body.get("return_token_ids")
            first = choice not in seen
            seen.add(choice)
            chunk = {**head, "choices": [{
                "index": choice, "text": self.texts.get(token, f" t{token}"), "logprobs": self.logprobs_of(request, token),
                "finish_reason": finish, "stop_reason": stop_reason,
                "prompt_token_ids": request.prompt if returns_ids and first else None,
                "token_ids": [token] if returns_ids else None}]}
            if request.tells_usage_always:
                chunk["usage"] = usage
            open_choices -= finish is not None
            if not request.tells_usage and open_choices == 0:
                chunk["system_fingerprint"] = FINGERPRINT
            await send_chunk(writer, b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n")
        if request.tells_usage:
            usage = {"prompt_tokens": len(request.prompt), "total_tokens": len(request.prompt) + produced,
                     "completion_tokens": produced, "prompt_tokens_details": {"cached_tokens": cached}}
            chunk = {**head, "choices": [], "usage": usage, "system_fingerprint": FINGERPRINT}
            await send_chunk(writer, b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n")

    async def whole(self, request, rank, identity, writer):
        """An answer in one piece."""
        choices = {i: {"index": i, "text": "", "logprobs": None, "token_ids": []} for i in range(request.count)}
        cached = 0
        async for choice, token, finish, stop_reason, cached in rank.generate(request):
            choices[choice]["token_ids"].append(token)
            choices[choice].update(finish_reason=finish, stop_reason=stop_reason)
        produced = sum(len(choice["token_ids"]) for choice in choices.values())
        answer = {"id": identity, "object": "text_completion", "created": int(time.time()), "model": self.options.model,
                  "choices": list(choices.values()),
                  "usage": {"prompt_tokens": len(request.prompt), "total_tokens": len(request.prompt) + produced,
                            "completion_tokens": produced, "prompt_tokens_details": {"cached_tokens": cached}}}
        if request.transfer.get("do_remote_decode"):
            if self.lends:
                self.lent[identity] = request.prompt
            blocks = range(1 + len(request.prompt) // self.options.block_tokens)
            answer["kv_transfer_params"] = {
                "do_remote_prefill": True, "do_remote_decode": False, "remote_block_ids": list(blocks),
                "remote_engine_id": f"double-{self.options.port}", "remote_request_id": identity,
                "remote_host": "127.0.0.1", "remote_port": self.options.port}
        send_page(writer, 200, json.dumps(answer))

    async def complete(self, body, headers, writer):
        request = Request(json.loads(body), self.options.model, self.options.max_context, self.adapters, self.tokenizer)
        self.sessions.append(request.session)
        self.next_id += 1
        identity = "cmpl-" + headers.get("x-request-id", f"double-{self.next_id}")
        if not self.options.kv_connector:
            request.transfer = {}
        elif not request.body.get("stream"):
            return await self.whole(request, self.rank_of(headers), identity, writer)
        start_stream(writer)
        if problem := request.problem():
            await send_chunk(writer, f"data: {problem.json()}\n\n".encode())
        else:
            await self.stream(request, self.rank_of(headers), identity, writer)
        await send_chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        return await writer.drain()

    def render(self, body):
        """The request as tokens: what other routers ask for before they choose an engine."""
        request = Request(body, self.options.model, self.options.max_context, self.adapters, self.tokenizer)
        self.next_id += 1
        return json.dumps([{"request_id": f"cmpl-double-{self.next_id}", "token_ids": request.prompt,
                            "sampling_params": {"max_tokens": request.limit}, "model": self.options.model,
                            "stream": body.get("stream", False)}])

    # ---- requests without a cache ----

    def check_model(self, name):
        if name not in (None, self.options.model, *self.options.alias, *self.adapters):
            raise Refused(404, f"The model `{name}` does not exist.", "model")

    async def pass_through(self, path, body, headers, writer):
        rank = self.rank_of(headers)
        await rank.admit()
        try:
            await asyncio.sleep(self.options.pooling_ms * 1e-3)
            await self.routes[path](body, headers, writer)
        finally:
            await rank.leave([])

    async def embed(self, body, _, writer):
        asked = json.loads(body)
        self.check_model(asked.get("model"))
        texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
        data = [{"object": "embedding", "index": i, "embedding": embedding_of(text)} for i, text in enumerate(texts)]
        send_page(writer, 200, json.dumps({"object": "list", "model": asked.get("model"), "data": data}))

    async def rerank(self, body, _, writer):
        asked = json.loads(body)
        results = [{"index": i, "relevance_score": embedding_of(text)[0]} for i, text in enumerate(asked["documents"])]
        send_page(writer, 200, json.dumps({"results": sorted(results, key=lambda each: -each["relevance_score"])}))

    async def transcribe(self, body, headers, writer):
        send_page(writer, 200, json.dumps({"text": f"{len(body)} {zlib.crc32(body)}", "type": headers["content-type"]}))

    async def chat(self, body, _, writer):
        asked = json.loads(body)
        self.check_model(asked.get("model"))
        kinds = [part["type"] for message in asked["messages"] if isinstance(message["content"], list)
                 for part in message["content"]]
        if not asked.get("stream"):
            return send_page(writer, 200, json.dumps({"choices": [{"message": {"content": " ".join(kinds)}}]}))
        start_stream(writer)
        for kind in kinds or ["text"]:
            await send_chunk(writer, b"data: " + json.dumps({"choices": [{"delta": {"content": kind}}]}).encode() + b"\n\n")
        await send_chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        return await writer.drain()

    async def echo(self, body, headers, writer):
        kind = headers.get("content-type", "")
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\ncontent-type: {kind}\r\n\r\n".encode())
        for first in range(0, len(body), 1 << 16):
            writer.write(body[first:first + (1 << 16)])
            await writer.drain()

    async def drip(self, _, __, writer):
        start_stream(writer)
        await send_chunk(writer, b"data: 1\n\n")
        await asyncio.Event().wait()

    def openapi(self):
        paths = [*self.routes, *([] if self.options.pooling else ["/v1/completions"])]
        if self.options.pooling:
            paths.remove("/v1/chat/completions")
        return {"paths": {**{path: {"post": {}} for path in paths}, "/health": {"get": {}}, "/v1/models": {"get": {}}}}

    def page(self, path):
        if path == "/openapi.json" and not self.options.no_docs:
            return 200, json.dumps(self.openapi())
        if "post" in self.openapi()["paths"].get(path, {}):
            return 405, json.dumps({"detail": "Method Not Allowed"})
        if path == "/health":
            return 200, ""
        if path == "/version":
            return 200, json.dumps({"version": VERSION})
        if path == "/v1/models":
            names = [{"id": name, "object": "model", "owned_by": "vllm", "parent": None,
                      "max_model_len": self.options.max_context} for name in (self.options.model, *self.options.alias)]
            adapters = [{"id": name, "object": "model", "owned_by": "vllm", "parent": self.options.model,
                         "max_model_len": None} for name in self.adapters]
            return 200, json.dumps({"object": "list", "data": [*names, *adapters]})
        if path == "/metrics":
            return 200, self.metrics()
        if path == "/looks":  # of no vLLM
            return 200, str(self.looks)
        if path == "/sessions":  # of no vLLM
            return 200, json.dumps(self.sessions)
        if path == "/transfers":  # of no vLLM either: prompts that were lent and not fetched, and prompts that were fetched
            return 200, json.dumps({"lent": len(self.lent), "fetched": sum(rank.fetched for rank in self.ranks)})
        if path.startswith("/lent/") and path[6:] in self.lent:
            return 200, json.dumps(self.lent.pop(path[6:]))
        return 404, json.dumps({"detail": "Not Found"})

    def metrics(self):
        self.looks += 1
        lines = [line for rank in self.ranks for line in rank.metrics()]
        return "\n".join([*lines, f"process_start_time_seconds {self.started}"]) + "\n"

    async def serve(self, reader, writer):
        """One connection, with any number of requests."""
        try:
            while await self.serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def serve_one(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        try:
            if method == "POST" and path in self.routes and path in self.openapi()["paths"]:
                await self.while_connected(reader, self.pass_through(path, body, headers, writer))
            elif (method, path) == ("POST", "/v1/completions") and not self.options.pooling:
                await self.while_connected(reader, self.complete(body, headers, writer))
            elif (method, path) == ("POST", "/v1/completions/render") and self.options.render:
                send_page(writer, 200, self.render(json.loads(body)))
            elif (method, path) == ("POST", "/reset_prefix_cache"):
                for rank in self.ranks:
                    rank.cache.clear()
                send_page(writer, 200, "")
            elif (method, path) == ("POST", "/stop_lending"):  # of no vLLM: it names blocks, and lets them go
                self.lends = False
                send_page(writer, 200, "")
            elif (method, path) == ("POST", "/v1/load_lora_adapter"):
                self.adapters.append(json.loads(body)["lora_name"])
                send_page(writer, 200, "")
            elif (method, path) == ("POST", "/v1/unload_lora_adapter"):
                self.adapters.remove(json.loads(body)["lora_name"])
                send_page(writer, 200, "")
            elif method == "GET":
                send_page(writer, *self.page(path))
            else:
                raise Refused(404, "Not Found")
        except Refused as refusal:
            send_page(writer, refusal.status, refusal.json(separators=(",", ":")))
        await writer.drain()
        return headers.get("connection") != "close"

    @staticmethod
    async def while_connected(reader, work):
        """A client that goes aborts its request."""
        task = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(reader.read(1))
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise ConnectionResetError
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await task


def at_rank(endpoint, rank):
    if not endpoint:
        return endpoint
    host, _, port = endpoint.rpartition(":")
    return f"{host}:{int(port) + rank}"


def load_tokenizer(path):
    import tokenizers  # only here: tests of the double do without it

    return tokenizers.Tokenizer.from_file(path)


def words_of(tokenizer):
    """Tokens that are a space and a word, with their texts."""
    texts = ((token, tokenizer.decode([token])) for token in range(tokenizer.get_vocab_size()))
    return [(token, text) for token, text in texts if text[:1] == " " and len(text) > 2 and text[1:].isalpha()]


def start_stream(writer):
    writer.write(b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
                 b"transfer-encoding: chunked\r\n\r\n")


async def send_chunk(writer, data):
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))
    await writer.drain()


def send_page(writer, status, body):
    data = body.encode()
    kind = "application/json" if body[:1] in tuple("{[") else "text/plain; version=0.0.4; charset=utf-8"
    writer.write(f"HTTP/1.1 {status} X\r\nserver: uvicorn\r\ncontent-length: {len(data)}\r\ncontent-type: {kind}\r\n\r\n"
                 .encode() + data)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--events", required=True)
    parser.add_argument("--replay", default="")
    parser.add_argument("--topic", default="kv-events", help="of the events; vLLM's own default is an empty one")
    parser.add_argument("--model", default="demo-model")
    parser.add_argument("--alias", action="append", default=[], help="another served name; may be repeated")
    parser.add_argument("--blocks", type=int, default=256)
    parser.add_argument("--block-tokens", type=int, default=32)
    parser.add_argument("--group", action="append", default=[],
                        help="of layers beside those with full attention: recurrent:BLOCK or window:BLOCK:TOKENS; may be repeated")
    parser.add_argument("--speculative", action="store_true", help="computes the last block of a hit again, as EAGLE and MTP do")
    parser.add_argument("--tier", action="store_true", help="finds what it has evicted in a tier that no event tells of")
    parser.add_argument("--adapter", action="append", default=[], help="a LoRA adapter that it serves; may be repeated")
    parser.add_argument("--max-context", type=int, default=2048)
    parser.add_argument("--max-running", type=int, default=64)
    parser.add_argument("--prefill-us", type=float, default=20, help="per token")
    parser.add_argument("--token-ms", type=float, default=5)
    parser.add_argument("--token-us-per-request", type=float, default=0, help="more for each request that runs")
    parser.add_argument("--paced", action="store_true", help="requests slow each other down")
    parser.add_argument("--data-parallel-size", type=int, default=1, help="ranks, each with --blocks of its own")
    parser.add_argument("--ignore-rank", action="store_true", help="requests go to any rank, whatever they ask for")
    parser.add_argument("--kv-connector", action="store_true", help="exchanges blocks with other engines")
    parser.add_argument("--render", action="store_true", help="answers /v1/completions/render")
    parser.add_argument("--pooling", action="store_true", help="generates nothing")
    parser.add_argument("--pooling-ms", type=float, default=1, help="time of an embedding, a rerank, a transcription")
    parser.add_argument("--no-docs", action="store_true", help="has no /openapi.json")
    parser.add_argument("--tokenizer", default="", help="a tokenizer.json, for prompts that are texts")
    return parser.parse_args()


async def main():
    options = parse()
    double = Double(options)
    loop = asyncio.get_running_loop()
    publishers = [rank.publisher for rank in double.ranks]
    loop.add_signal_handler(signal.SIGUSR1, lambda: [setattr(each, "loses_next", True) for each in publishers])
    server = await asyncio.start_server(double.serve, "127.0.0.1", options.port, limit=1 << 24)
    replays = asyncio.gather(*(each.answer_replays() for each in publishers))
    print("ready", flush=True)
    async with server:
        await asyncio.gather(server.serve_forever(), replays)


if __name__ == "__main__":
    asyncio.run(main())
