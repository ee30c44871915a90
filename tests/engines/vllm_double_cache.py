"""The cache of a double of vLLM (vllm_double.py): its blocks, and who publishes what becomes of them."""

import collections
import hashlib
import time

import msgpack
import zmq


class Group:
    """What a group of layers without full attention keeps: the last blocks of a window (`window:BLOCK:TOKENS`), or the
    state at some boundaries (`recurrent:BLOCK`). Its blocks are multiples of the main group's."""

    def __init__(self, text, number, capacity):
        kind, block, *window = text.split(":")
        self.number = number
        self.capacity = capacity
        self.block = int(block)
        self.window = int(window[0]) if window else 0
        self.needed = -(-(self.window - 1) // self.block) if window else 1  # blocks before a boundary
        self.kind = {"window": "sliding_window", "recurrent": "mamba"}[kind]
        self.held = collections.OrderedDict()  # hashes, the least recently used first

    def can_go_on(self, names, end):
        """`names`: the hash at each multiple of the group's block, of which the boundary is the one number `end`."""
        if end % 1:
            return False
        return all(name in self.held for name in names[max(0, int(end) - self.needed):int(end)])

    def store(self, names, first, end):
        """Computes the blocks from `first` to `end`; returns those that are new."""
        kept = names[max(first, end - self.needed):end]
        new = [name for name in kept if name not in self.held]
        for name in kept:
            self.held[name] = None
            self.held.move_to_end(name)
        return new

    def evict(self):
        while len(self.held) > self.capacity:
            yield self.held.popitem(last=False)[0]


class Cache:
    """Blocks by their hash. A hash covers all tokens before its block, and adapter and salt of its request."""

    def __init__(self, block_count, block_tokens, groups=()):
        self.block_tokens = block_tokens
        self.groups = [Group(text, number + 1, max(4, block_count // 8)) for number, text in enumerate(groups)]
        self.free = block_count
        self.users = {}  # hash -> requests that use the block
        self.stored = set()  # all hashes that ever were
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

    def names_of(self, group, hashes):
        every = group.block // self.block_tokens
        return hashes[every - 1::every]

    def hit_blocks(self, hashes, most, drops_last=False):
        """The leading blocks behind which a request can go on in every group. With speculative heads the last one is dropped:
        of those before the prompt's last token or, as vLLM has it for several groups, of all that are there."""
        held = self.cached_blocks(hashes)
        if drops_last:
            held = max(0, (held if self.groups else min(held, most)) - 1)
        count = min(held, most)
        while count > 0 and not all(
                group.can_go_on(self.names_of(group, hashes), count * self.block_tokens / group.block)
                for group in self.groups):
            count -= 1
        return count

    def blocks_behind(self, hashes):
        """The leading blocks that were stored once, and are in a tier since."""
        count = 0
        while count < len(hashes) and hashes[count] in self.stored:
            count += 1
        return count

    def tell_found(self, hashes, request):
        """Tells again of the blocks that a request found, unmarked, of each group all up to there."""
        tokens = request.prompt[:len(hashes) * self.block_tokens]
        for group in [None, *self.groups]:
            names = self.names_of(group, hashes) if group else list(hashes)
            if not names:
                continue
            size = group.block if group else self.block_tokens
            kind = {"group_idx": group.number, "kv_cache_spec_kind": group.kind} if group else {
                "group_idx": 0, "kv_cache_spec_kind": "full_attention"}
            if group and group.window:
                kind["kv_cache_spec_sliding_window"] = group.window
            salt = [request.salt] if request.salt else None
            adapter = [request.adapter] if request.adapter else []
            self.events.append({
                "type": "BlockStored", "block_hashes": names, "parent_block_hash": None,
                "token_ids": list(tokens[:len(names) * size]), "block_size": size, "lora_id": 1 if adapter else None,
                "medium": "GPU", "lora_name": request.adapter,
                "extra_keys": [adapter + (salt or [] if i == 0 else []) or None for i in range(len(names))], **kind})

    def store_groups(self, hashes, tokens, begin, place):
        """What the other groups keep of the tokens from `begin` on; told before the main group's events at `place`."""
        for group in self.groups:
            names = self.names_of(group, hashes)
            first, end = begin // group.block, len(names)
            if end <= first:
                continue
            self.events.insert(place, {
                "type": "BlockStored", "block_hashes": group.store(names, first, end),
                "parent_block_hash": names[first - 1] if first else None,
                "token_ids": list(tokens[first * group.block:end * group.block]), "block_size": group.block,
                "lora_id": None, "medium": "GPU", "lora_name": None, "group_idx": group.number,
                "kv_cache_spec_kind": group.kind,
                **({"kv_cache_spec_sliding_window": group.window} if group.window else {})})
            for name in group.evict():
                self.events.append({"type": "BlockRemoved", "block_hashes": [name], "medium": "GPU",
                                    "group_idx": group.number})

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
            self.stored.add(name)
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
                "kv_cache_spec_kind": "full_attention",
                **({} if request.session is None else {"session_id": request.session})})
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
        for group in self.groups:
            group.held.clear()
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
