"""Follows an engine's cache by all the events that its replay socket has: by tokens, independent of hashes of ours.
Needs pyzmq, and msgpack or (as vLLM has it) msgspec."""

import zmq

try:
    from msgpack import unpackb
except ImportError:
    from msgspec.msgpack import decode as unpackb

END = b"\xff" * 8


def replay(endpoint, timeout_seconds=30):
    """All messages that the engine still has, as (sequence, events)."""
    context = zmq.Context()
    with context.socket(zmq.DEALER) as asker:
        asker.setsockopt(zmq.RCVHWM, 0)
        asker.setsockopt(zmq.LINGER, 0)
        asker.connect(endpoint)
        asker.send_multipart([b"", (0).to_bytes(8, "big")])
        messages = []
        while asker.poll(timeout_seconds * 1000):
            _, _, sequence, payload = asker.recv_multipart()
            if sequence == END:
                break
            messages.append((int.from_bytes(sequence, "big"), unpackb(payload)[1]))
        else:
            raise AssertionError(f"{endpoint} sent no end of its replay")
    context.term()
    return messages


class EventMirror:
    """Copies of blocks by the tokens from the prompt's begin to the block's end, and the scope: (adapter, salt)."""

    def __init__(self, endpoint):
        self.copies = {}
        self.chains = {}  # the engine's hash -> (scope, tokens)
        self.block_tokens = 0
        messages = replay(endpoint)
        assert [sequence for sequence, _ in messages] == list(range(len(messages))), "the replay has gaps"
        for _, events in messages:
            for event in events:
                self.apply(event)

    def apply(self, event):
        if event["type"] == "AllBlocksCleared":
            self.copies.clear()
        elif event["type"] == "BlockRemoved":
            for name in event["block_hashes"]:
                self.copies[name] -= 1
        else:
            self.store(event)

    def store(self, event):
        size = self.block_tokens = event["block_size"]
        adapter = event.get("lora_name") or ""
        salts = [key for key in (event.get("extra_keys") or [None])[0] or [] if key != adapter]
        scope, tokens = ((adapter, salts[0] if salts else ""), ())
        if event["parent_block_hash"] is not None:
            scope, tokens = self.chains[event["parent_block_hash"]]
        for i, name in enumerate(event["block_hashes"]):
            tokens = (*tokens, *event["token_ids"][i * size:(i + 1) * size])
            self.chains[name] = (scope, tokens)
            self.copies[name] = self.copies.get(name, 0) + 1

    def held(self):
        """The chains whose blocks are all there."""
        there = {self.chains[name] for name, count in self.copies.items() if count > 0}
        return {(scope, tokens) for scope, tokens in there
                if all((scope, tokens[:end]) in there
                       for end in range(self.block_tokens, len(tokens), self.block_tokens))}

    @staticmethod
    def held_blocks(held, block_tokens, tokens, salt="", adapter=""):
        """The number of the leading blocks of `tokens` that are in `held`."""
        count = 0
        while (count + 1) * block_tokens <= len(tokens) and (
                (adapter, salt), tuple(tokens[:(count + 1) * block_tokens])) in held:
            count += 1
        return count
