"""Dynamo's selector (ai-dynamo-runtime's SelectionService) as a router over HTTP, for vllm_bench.py.

    dynamo_selector.py --port 8000 --tokenizer FILE --block-size 32 --worker URL=EVENTS,REPLAY [--worker …]
                       [--sync PORT --sync-peer PORT …]

The service chooses: it hears the engines' events and knows the load that it has booked. It takes tokens and forwards
nothing, so this program does what the gateway does that one puts before it: makes tokens of the prompt, asks the service
for a worker, sends the request on as it came, relays the answer as it comes, and tells the service when the first token
came and when the answer ended. --sync: several selectors tell each other what they have booked.
"""

import argparse
import asyncio
import itertools
import json
import os

import aiohttp
import tokenizers
from aiohttp import web
from dynamo._core import SelectionService  # dynamo.llm needs more packages

MODEL = "demo-model"


class Gateway:
    def __init__(self, options):
        self.options = options
        self.tokenizer = tokenizers.Tokenizer.from_file(options.tokenizer)
        self.numbers = itertools.count()
        self.service = SelectionService(
            replica_sync_port=options.sync, replica_sync_peers=[f"tcp://127.0.0.1:{port}" for port in options.sync_peer])

    async def start(self, application):
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        for number, worker in enumerate(self.options.worker):
            url, _, endpoints = worker.partition("=")
            events, replay = endpoints.split(",")
            record = await self.service.upsert_worker({
                "worker_id": number, "model_name": MODEL, "endpoint": url, "block_size": self.options.block_size,
                "kv_events_endpoints": {0: events}, "replay_endpoint": replay})
            assert record["lifecycle"] == "schedulable", record

    async def stop(self, application):
        await self.session.close()
        self.service.shutdown()

    async def complete(self, request):
        body = await request.read()
        tokens = self.tokenizer.encode(json.loads(body)["prompt"]).ids
        name = f"{os.getpid()}-{next(self.numbers)}"
        chosen = await self.service.select_and_reserve({"model_name": MODEL, "token_ids": tokens, "selection_id": name})
        try:
            return await self.relay(request, body, chosen["endpoint"], name)
        finally:
            await self.service.free_reservation(name)

    async def relay(self, request, body, endpoint, name):
        headers = {"Content-Type": "application/json"}
        async with self.session.post(f"{endpoint}/v1/completions", data=body, headers=headers) as answer:
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            await response.prepare(request)
            first = True
            async for piece in answer.content.iter_any():
                if first:
                    await self.service.prefill_complete(name)
                    first = False
                await response.write(piece)
            await response.write_eof()
            return response


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--block-size", type=int, required=True)
    parser.add_argument("--worker", action="append", required=True)
    parser.add_argument("--sync", type=int)
    parser.add_argument("--sync-peer", type=int, action="append", default=[])
    options = parser.parse_args()

    async def application():
        gateway = Gateway(options)
        made = web.Application()
        made.router.add_post("/v1/completions", gateway.complete)
        made.on_startup.append(gateway.start)
        made.on_cleanup.append(gateway.stop)
        return made

    web.run_app(application(), host="127.0.0.1", port=options.port, print=None)


if __name__ == "__main__":
    main()
