"""The cache of a double of vLLM (vllm_double.py): its blocks, and who publishes what becomes of them."""

import collections
import hashlib
import time

import msgpack
import zmq


class Cache:
    """Blocks by their hash. A hash covers all tokens before its block, and adapter and salt of its request."""

    def __init__(self, block_count, block_tokens):
        self.block_tokens = block_tokens
        self.free = block_count
        self.users = {}  # hash -> requests that use the block
        self.idle = collections.OrderedDict()  # hashes of unused blocks, the least recently used first
        self.events = []

    def hashes(self, request, tokens):
        parent, hashes = f"{request.adapter or ''}/{request.salt}".encode(), []
        for begin in range(0, len(tokens) - self.block_tokens + 1, self.block_tokens):
            block = ",".join(map(str, tokens[begin:begin + self.block_tokens])).encode()
            parent = hashlib.sha256(parent + b"/" + block).digest()
            hashes.append(int.from_bytes(parent[-8:], "big"))
        return hashes

    def cached_blocks(self, hashes):
        count = 0
        while count < len(hashes) and hashes[count] in self.users:
            count += 1
        return count

    def hold(self, hashes):
        for name in hashes:
            self.users[name] += 1
            self.idle.pop(name, None)

    def store(self, hashes, parent, tokens, request):
        """New blocks, held by the request that computed them. Returns how many found room."""
        stored = 0
        for name in hashes:
            if name in self.users:
                break
            if self.free == 0 and not self.evict():
                break
            self.free -= 1
            self.users[name] = 1
            stored += 1
        if stored:
            adapter = [request.adapter] if request.adapter else []
            salt = [request.salt] if request.salt and parent is None else []
            keys = [adapter + (salt if i == 0 else []) or None for i in range(stored)]
            self.events.append({
                "type": "BlockStored", "block_hashes": list(hashes[:stored]), "parent_block_hash": parent,
                "token_ids": list(tokens[:stored * self.block_tokens]), "block_size": self.block_tokens,
                "lora_id": 1 if adapter else None, "medium": "GPU", "lora_name": request.adapter, "extra_keys": keys,
                "group_idx": 0,
                "kv_cache_spec_kind": "full_attention"})
        return stored

    def evict(self):
        if not self.idle:
            return False
        name, _ = self.idle.popitem(last=False)
        del self.users[name]
        self.free += 1
        self.events.append({"type": "BlockRemoved", "block_hashes": [name], "medium": "GPU", "group_idx": 0})
        return True

    def release(self, hashes):
        """The end of a prefix goes first."""
        for name in reversed(hashes):
            self.users[name] -= 1
            if self.users[name] == 0:
                self.idle[name] = None

    def clear(self):
        for name in list(self.idle):
            del self.users[name]
            self.free += 1
        self.idle.clear()
        self.events.append({"type": "AllBlocksCleared"})


class Publisher:
    """Sends batches of events, and the last 10,000 again on request."""

    def __init__(self, context, events, replay, topic, rank=0):
        self.rank = rank
        self.sequence = 0
        self.topic = topic.encode()
        self.sent = collections.deque(maxlen=10_000)
        self.loses_next = False
        self.socket = context.socket(zmq.PUB)
        self.socket.bind(events)
        self.replay = context.socket(zmq.ROUTER) if replay else None
        if self.replay:
            self.replay.bind(replay)

    async def publish(self, events):
        payload = msgpack.packb([time.time(), events, self.rank])
        number = self.sequence.to_bytes(8, "big")
        self.sequence += 1
        self.sent.append((number, payload))
        if self.loses_next:
            self.loses_next = False
            return
        await self.socket.send_multipart([self.topic, number, payload])

    async def answer_replays(self):
        while self.replay:
            client, empty, begin = await self.replay.recv_multipart()
            for number, payload in list(self.sent):
                if number >= begin:
                    await self.replay.send_multipart([client, empty, self.topic, number, payload])
            await self.replay.send_multipart([client, empty, b"", b"\xff" * 8, b""])
