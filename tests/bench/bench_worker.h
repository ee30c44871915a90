// The messages of a benchmark's own worker to a router.
#pragma once

#include "common/wire/messages.h"
#include "common/wire/tokenizer_digest.h"

namespace roost::bench {

// The bundle of a model "m" that a worker sends when the router asks for its tokenizer; the router uses its own.
inline wire::Tokenizer WorkerBundle() {
  wire::Tokenizer bundle{"", "{}", "", "", ""};
  bundle.digest = wire::DigestOf(bundle);
  return bundle;
}

inline wire::Hello WorkerHello() {
  wire::Hello hello;
  hello.worker_id = "scripted";
  hello.process_id = 1;
  hello.epoch = 1;
  hello.model = "m";
  hello.fingerprint = "f";
  hello.kv_dtype = "f32";
  hello.block_tokens = 16;
  hello.block_count = 1U << 16U;
  hello.max_context_tokens = 1U << 20U;
  hello.max_running_requests = 64;
  hello.tokenizer_digest = WorkerBundle().digest;
  hello.sends_cache_events = false;
  return hello;
}

}  // namespace roost::bench
