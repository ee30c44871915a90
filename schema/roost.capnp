# The wire between router and worker. One message per ZeroMQ frame, unpacked, in Cap'n Proto's stream framing.
#
# This file is the manual of the protocol; common/wire/messages.h has the same names as plain values. Fields are only
# ever added; a number is never used again.
#
# Versions: hello and welcome tell each side's version. Peers of one major version understand each other; what a newer
# worker can do more is told by flags of its hello, and a router uses no more than that. A receiver tolerates what it
# does not know, and no such value costs the link:
#
#   another major version in a hello or welcome   refused, with both versions in the log of each side
#   a field                                       ignored
#   a member of WorkerMessage or RouterMessage    ignored and counted
#   a member of CacheEvent                        ignored; if it changed the blocks, the load's digest shows it, and a
#                                                 snapshot repairs the router's view
#   a member of TokenEvent.state                  running
#   ErrorCode                                     internal
#   FinishReason                                  that request fails with `internal`
#   CacheMode                                     off
#   RefusalCause                                  other
#   ConstraintKind, a member of outputLogprobs    the worker refuses that request with invalidArgument
#   or promptLogprobs
#   a member of Evict.what                        ignored and counted, with its message
#   a member of any other union                   absent
#
#   ROUTER socket (router, binds)                                  DEALER socket (worker, connects)
#     │                                  hello(epoch 7)                     each second until welcomed
#     │ ◄───────────────────────────────────────────────────────────────── │
#     │   welcome(instance, epoch 7)                                        and wantTokenizer, if it lacks the bundle
#     │ ─────────────────────────────────────────────────────────────────► │
#     │                                  snapshot 1, 2, …, n (last)         all ready blocks at one instant
#     │ ◄───────────────────────────────────────────────────────────────── │
#     │   generate, cancel, pin, ping    step n+1, n+2, …                   one per engine step, and every 250 ms
#     │ ◄─────────────────────────────────────────────────────────────────►│
#     │   pin, wantPrefixes              pinAnswer, prefixes                to a worker that answers (Hello.answers)
#     │   evict                          evictAnswer                        to a worker that evicts (Hello.evicts)
#     │   cordon                         step with Load.cordoned            to a worker that knows it (Hello.cordons)
#     │                                  adapters                           when they are others than before
#     │ ◄─────────────────────────────────────────────────────────────────►│
#
# Epoch: one life of the link. It begins with a hello, and voids what both sides held of an earlier one: the router
# forgets the worker's blocks and has lost the requests it had sent; the worker ends those requests silently.
# Sequence: snapshots and steps of one epoch share the numbers 1, 2, 3, …. A gap means that tokens or events are lost:
# the router answers wantHello, and the worker begins a new epoch. In the other direction each ping carries a digest of
# the generates before it: a worker that received others also begins a new epoch, so that the router sends them again.
# Silence: a router that hears nothing for two seconds (by default) considers the worker dead. The router pings each
# second; a worker that hears nothing for three seconds reconnects and says hello under a new epoch. A worker that has
# work but whose engine makes no progress (Load.progress) also counts as lost, even if its link still answers.
# Identity: ZeroMQ gives each connection a random identity, which means nothing; an identity that a peer chooses is
# ignored. Only the hello says who a worker is; all later messages of that connection are this worker's. On a link with
# keys (CURVE) the key must allow the hello's workerId and model; otherwise the router answers refused.
#
# Limits (common/wire/codec.h has the numbers): bytes per frame, nesting, traversal, lengths of lists and texts. A
# message over a limit is malformed. The receiver counts a malformed message and drops the link, but never ends the
# process.
@0x8995c1aacb79d859;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("roost::schema");

# ---- values ----

struct BlockHash {
  # 128 bits that name a KV block: SHA-256 over the parent's hash and the block's tokens, cut to its first 16 bytes. See
  # common/prefix/block_hash.h. An all-zero hash is a valid value.

  high @0 :UInt64;
  # Bytes 0 to 7 of the digest, read as a big-endian number.

  low @1 :UInt64;
  # Bytes 8 to 15. The router's index keys on this half.
}

struct Error {
  code @0 :ErrorCode = internal;
  # The kind of failure, from the list that both daemons share. A receiver takes an unknown code as `internal`.

  message @1 :Text;
  # A clause for people. Never contains text of a prompt.

  field @2 :Text;
  # The part of the request that is wrong; may be empty.
}

enum ErrorCode {
  # The rows of common/base/error.cc.

  invalidArgument @0;
  unauthenticated @1;
  notFound @2;
  methodNotAllowed @3;
  timeout @4;
  contextTooLong @5;
  bodyTooLarge @6;
  headerTooLarge @7;
  overloaded @8;
  unavailable @9;
  deadlineExceeded @10;
  cancelled @11;
  dataLoss @12;
  internal @13;
  modelNotFound @14;
  unsupportedMediaType @15;
  permissionDenied @16;
  rateLimited @17;
}

enum FinishReason {
  stop @0;
  # A stop token was drawn. It is not among the tokens sent; see TokenEvent.stopToken.

  length @1;
  # maxOutputTokens or the end of the context was reached.

  cancelled @2;
  # The router asked for it. Ends the request with all its choices.

  error @3;
  # See TokenEvent.error. Ends the request with all its choices.
}

enum ConstraintKind {
  # The meaning of Constraint.text.

  json @0;
  # Empty: the output is any JSON object.

  jsonSchema @1;
  # A JSON schema: the output is valid JSON under it.

  regex @2;
  # A regular expression: the whole output matches it.

  choice @3;
  # A JSON array of strings: the output is one of them.

  grammar @4;
  # A grammar in EBNF (GBNF's notation) with a rule `root`.

  structuralTag @5;
  # A structural tag in JSON, in xgrammar's form: free text in which certain tags start a constrained part.
}

struct Constraint {
  # The rule that the whole output of each choice must match. The worker draws no token that would violate it, and a
  # stop token only where the output may end. ignoreEos does not keep an output from ending where nothing else can
  # follow. The prompt's last firstOutputIndex tokens are output that was already generated under the constraint.

  kind @0 :ConstraintKind;
  text @1 :Text;
  # At most 262,144 bytes. The worker checks it too, and refuses what it can not enforce with invalidArgument.

  field @2 :Text;
  # The part of the client's request that errors about the text name.
}

enum CacheMode {
  # A request's use of the worker's prefix cache.

  on @0;
  off @1;
  # It neither uses cached blocks nor leaves any: its whole prompt is computed, and its blocks are freed when it ends.
  # Its own choices still share blocks.
}

struct Retention {
  # A hint how valuable a request's blocks are and for how long, in addition to what the eviction policy derives from
  # their use. The worker may limit it, and ignores it when the pool needs the blocks; a pin is stronger. A block of
  # several requests keeps the strongest of their hints. A block with children counts as at least as valuable as they
  # are.

  promptPriority @0 :UInt8 = 35;
  # Priority of the prompt's blocks: 0 is evicted first, 100 last. 35: the same as without a hint.

  promptDurationMs @1 :UInt64 = 0;
  # The time for which the priority holds after the request's end. 0: no hint for the prompt's blocks. At most 366 days.

  decodePriority @2 :UInt8 = 35;
  decodeDurationMs @3 :UInt64 = 0;
  # The same for the blocks that the output fills.
}

# ---- worker → router ----

struct WorkerMessage {
  union {
    none @0 :Void;
    # Never sent: an empty message is malformed.

    hello @1 :Hello;
    step @2 :Step;
    snapshot @3 :Snapshot;
    tokenizer @4 :Tokenizer;
    bye @5 :Bye;
    pinAnswer @6 :PinAnswer;
    prefixes @7 :Prefixes;
    evictAnswer @8 :EvictAnswer;
    adapters @9 :Adapters;
  }
}

struct Hello {
  # The worker's identity, and the model that it serves. Begins an epoch.

  protocolVersion @0 :UInt32;
  # Major version, now 2. Any other is refused. This field, workerId and epoch stay as they are in all major versions,
  # so that the refusal can name the worker and reach it.

  workerId @1 :Text;
  # Stable name: 1 to 200 bytes of UTF-8 without control characters. Only one process at a time uses a name; see
  # processId.

  epoch @2 :UInt64;
  # Different from all earlier ones of this worker, across restarts too. Receivers only compare for equality. Not 0.

  model @3 :Text;
  # The name that clients ask for. Not empty.

  fingerprint @4 :Text;
  # Covers config, tokenizer and weights. Workers with one model name and different fingerprints are two revisions of
  # the model: they share no blocks, and do not continue each other's requests.

  kvDtype @5 :Text;
  # "f32" or "bf16": part of block identity.

  blockTokens @6 :UInt32;
  # Tokens per block: a power of two from 4 to 256.

  blockCount @7 :UInt32;
  # Blocks in the pool, at least 1.

  maxContextTokens @8 :UInt32;
  # Prompt and output of one request together.

  maxRunningRequests @9 :UInt32;
  # The most sequences in one batch.

  tokenizerDigest @10 :Text;
  # SHA-256 of the tokenizer bundle in hexadecimal. A router without this bundle asks for it: wantTokenizer.

  defaultTemperature @11 :Float32 = 1;
  defaultTopP @12 :Float32 = 1;
  defaultTopK @13 :UInt32 = 0;
  # The model's own sampling defaults, for requests that set none. topK 0: no limit.

  maxBatchTokens @14 :UInt32 = 0;
  # Token budget of one engine step: the size of the chunks of a prefill. 0: not reported.

  maxSampleCount @15 :UInt32 = 1;
  # The largest Generate.sampleCount that the worker supports. A router sends it no larger one. Not 0.

  sendsCacheEvents @16 :Bool = true;
  # False: steps have no cache events, and the worker never sends a snapshot. Its load still counts cached blocks. The
  # router then predicts the cache from what it sent to the worker itself.

  defaultMinP @17 :Float32 = 0;
  defaultRepetitionPenalty @18 :Float32 = 1;
  # More of the model's own sampling defaults.

  fullSampling @19 :Bool = false;
  # The worker knows Generate.minP, the penalties and the bias. A router sends a request with one of these only to such
  # a worker, because others would silently ignore it.

  ageingTokens @20 :UInt32 = 0;
  # Waiting prompts of equal priority run in the order of their uncached tokens, fewest first; a second of waiting
  # counts as this many tokens less. 0: another order, or not reported; then a router assumes that everything that waits
  # runs first.

  processId @21 :UInt64;
  # Random, different for each process. Not 0. A hello from the process that already has the name moves its link to the
  # new connection. Another process is refused until the earlier one has left, is lost, or was silent for two seconds.

  answers @22 :Bool = false;
  # The worker answers a pin, an unpin and a wantPrefixes with an answerId. A router does not wait for answers of other
  # workers.

  keepsPrefixes @23 :Bool = true;
  # False: the worker looks up no blocks and keeps none after a request. A router expects no cached tokens from it, and
  # chooses it only by its load.

  logprobs @24 :Bool = false;
  # The worker knows Generate.outputLogprobs and promptLogprobs. A router sends a request with one of these only to such
  # a worker.

  minOutputTokens @25 :Bool = false;
  # The same for Generate.minOutputTokens.

  constrainsOutput @26 :Bool = false;
  # The worker knows Generate.constraint. A router sends a request with a constraint only to such a worker, because
  # others would answer with any text.

  evicts @27 :Bool = false;
  # The worker knows Evict. A router sends none to a worker that does not, and says so.

  protocolMinor @28 :UInt32 = 0;
  # Minor version, now 4. Only for logs: the flags of this message decide what a router may send. 0: a worker of before
  # routers told their version.

  release @29 :Text;
  # Version of the program, for logs: at most 64 bytes without control characters. May be empty.

  cordons @30 :Bool = false;
  # The worker knows Cordon. A router sends none to a worker that does not, and says so.

  adapters @31 :List(Text);
  # The LoRA adapters that the worker serves beside its model, by the names that clients ask for: at most 1,024, each of
  # 1 to 200 bytes of UTF-8 without control characters. A router sends Generate.adapter only to a worker that names it.

  host @32 :Text;
  # Name of the machine, container or pod that the worker runs in, for operators: at most 255 bytes without control
  # characters. May be empty.

  machine @33 :UInt64 = 0;
  # Equal for all workers of one machine, in whatever containers, and different for each start of each machine. 0: not
  # told.

  computeThreads @34 :UInt32 = 0;
  # Threads that compute on the machine's processors. 0: it computes elsewhere, or not told.

  machineCores @35 :UInt32 = 0;
  # Processors of the machine. 0: not told.

  cpuGroup @36 :UInt64 = 0;
  cpuGroupCores @37 :UInt32 = 0;
  # Equal for workers of a machine that are limited to the same part of its processors, by one quota or one set of
  # processors, and how many these may use together. 0: no such limit, or not told.

  evictsBlocks @38 :Bool = false;
  # The worker knows Evict.block. A router sends it to no other worker, and says so.
}

struct TokenLogprobs {
  # Log probabilities at one position of a text: the log softmax in f32 of the model's logits, before biases, penalties,
  # temperature and all other steps of sampling. From -9999, which stands for all smaller values, to 0.

  logprob @0 :Float32;
  # The log probability of the token at this position.

  rank @1 :UInt32;
  # Its place among all tokens: 1 is the likeliest. Among equally likely tokens the lower id comes first.

  topTokens @2 :List(UInt32);
  topLogprobs @3 :List(Float32);
  # The likeliest tokens in that order, as many as the request asked for, at most 20.
}

struct TokenEvent {
  # The progress of one choice of a request in one step. A request has `sampleCount` choices.

  requestId @0 :UInt64;
  tokens @1 :List(UInt32);
  # In order of generation. May be empty in an event that only ends a choice or a request.

  cachedTokenCount :union {
    # Prompt tokens whose KV came from the cache. Set once: in the request's first event with tokens, or in its last
    # event if it has no tokens, or if an engine of another program tells it only at the end.
    absent @2 :Void;
    count @3 :UInt32;
  }

  queueWaitSeconds :union {
    # From receipt to the first step that computed part of the request. Set together with cachedTokenCount.
    absent @4 :Void;
    seconds @5 :Float64;
  }

  state :union {
    running @6 :Void;
    finished @7 :FinishReason;
    # The choice's last event; nothing follows for it. `stop` and `length` end only this choice; the request ends with
    # its last choice. `cancelled` and `error` end the request: they are sent once, for any one choice, and nothing
    # follows for this request.
  }

  error @8 :Error;
  # Only with finished = error.

  choice @9 :UInt32 = 0;
  # The number of the output within the request: 0 to sampleCount - 1.

  stopToken :union {
    # Only with finished = stop: the token that was drawn.
    absent @10 :Void;
    token @11 :UInt32;
  }

  logprobs @12 :List(TokenLogprobs);
  # One for each of the tokens, in their order, if the request has outputLogprobs. Empty otherwise.

  promptLogprobs @13 :List(TokenLogprobs);
  # If the request has promptLogprobs: of the prompt's tokens from the second on, in order, in pieces of at most 4,096
  # as they are computed. The last piece comes at the latest with the request's first token, or with the end of its
  # first choice. Only in events of choice 0, with or without tokens.
}

struct StoredRun {
  # Blocks that became ready, consecutive in one chain.

  firstPosition @0 :UInt32;
  # Position of hashes[0], counted in blocks from the chain's front. Its parent is already stored.

  hashes @1 :List(BlockHash);
}

struct CacheEvent {
  # Receivers apply events in the order sent, stored runs front to back, and removed lists in the order given. So in the
  # receiver's view, every block's parent is present at every instant.

  union {
    stored @0 :StoredRun;
    removed @1 :List(BlockHash);
    # Each is a leaf at the time it is removed.
  }
}

struct OtherPrompt {
  # A prompt that another router sent.

  uncachedTokens @0 :UInt32;
  # Still to be computed.

  waitedMs @1 :UInt32;
  # Since it reached the worker.

  id @2 :UInt64 = 0;
  # The worker's own id for this prompt, so that lists can be compared. 0: none.

  hashes @3 :List(BlockHash);
  # Hashes of its whole blocks, front to back, so that prompts with the same prefix can follow it to this worker while
  # it is computed. Sent once: they hold as long as every later list of this epoch has the id. Empty otherwise, and for
  # a prompt that leaves no blocks in the cache. At most 65,536 hashes hold at one time.
}

struct Load {
  # The worker's state as its engine saw it after its latest step. Covers the requests of all routers.

  waitingRequests @0 :UInt32;
  runningRequests @1 :UInt32;
  queuedPrefillTokens @2 :UInt64;
  # Prompt tokens still to be computed (not cached), of waiting and running requests. This and waitingRequests include
  # requests of other routers that the engine has not taken in yet. The receiver must add those that it has sent since.

  runningContextTokens @3 :UInt64;
  # Sum of the running requests' current lengths.

  freeBlockCount @4 :UInt32;
  # Blocks that a new request could get at once: never used, or idle in the cache.

  cachedBlockCount @5 :UInt32;
  # Ready blocks.

  digest @6 :BlockHash;
  # Xor of the hashes of all ready blocks, after the events of the step that carries this. A receiver with a different
  # view asks for a snapshot. Compare only after the epoch's first snapshot is complete.

  stepPrefillTokens @7 :UInt32;
  stepDecodeTokens @8 :UInt32;
  stepSeconds @9 :Float64;
  # The tokens and the time of the step, for fitting rates. All zero in a message without a step.

  draining @10 :Bool = false;
  # The worker finishes its requests and takes no new ones: it answers a generate with `unavailable`.

  pinnedBlockCount @11 :UInt32 = 0;
  # Ready blocks that are pinned. The worker limits them to a share of its pool.

  otherPrompts @12 :List(OtherPrompt);
  # The prompts in queuedPrefillTokens that came from other routers than the receiver, so that all routers see one
  # queue. At most 1,024, those that run first (a worker of this version reports 64, and new arrivals). Empty when there
  # is only one router.

  progress @13 :UInt64 = 0;
  # Grows with each report of the engine, also with one without a step, and with each part of a step that is done, which
  # heartbeats tell (before minor version 4 they repeat the last report's value). So if the worker has work and this
  # stands still, its engine hangs.

  routerCount @14 :UInt32 = 1;
  # The routers that the worker's links are up with, the receiver included: 1 to 1,024. Routers share the limits of API
  # keys by it.

  cordoned @15 :Bool = false;
  # An operator's Cordon is in force. `draining` is then set too, so that routers that do not know this field send
  # nothing either.

  cacheUnknown @16 :Bool = false;
  # The worker has lost track of its cache: the engine is another program, and events of it were lost. Go by what was
  # sent to it until this is false again, and then ask for a snapshot. Its events and its digest go on meanwhile; they
  # are of a part of the cache.

  savedPrefillSeconds @17 :Float64 = 0;
  # Estimated time that computing the cached prompt tokens would have taken, since the process began: what the worker
  # counts as roost_worker_saved_prefill_seconds_total.

  stepUnderWaySeconds @18 :Float64 = 0;
  # From the begin of the step that the engine computes now to the last part of it that is done. 0: no step is under way,
  # no part of it is done, or not told. So a heartbeat tells a step that takes long from one that hangs.
}

struct Step {
  # Sent to every welcomed router after each engine step: that router's tokens, all cache events, the load. After 250 ms
  # without a step, only the load is repeated, so this is also the worker's heartbeat.

  epoch @0 :UInt64;
  sequence @1 :UInt64;
  tokens @2 :List(TokenEvent);
  events @3 :List(CacheEvent);
  # Empty until the epoch's first snapshot is complete.

  load @4 :Load;
}

struct Snapshot {
  # All ready blocks at one instant, in consecutive chunks; no other message comes between them. The first chunk empties
  # the receiver's view. Answers welcome and wantSnapshot. It does not begin a new epoch: requests go on.

  epoch @0 :UInt64;
  sequence @1 :UInt64;
  chunkIndex @2 :UInt32;
  # 0, 1, 2, …

  last @3 :Bool;
  # This chunk completes the view. For an empty cache, chunk 0 is also the last.

  runs @4 :List(StoredRun);
  # Parents before children, across chunks too. At most 4,096 hashes in all runs of one chunk.
}

struct Tokenizer {
  # The files and texts that a router needs to turn messages into token ids. The only large message: up to 64 MiB.

  digest @0 :Text;
  # The same as in the hello.

  tokenizerJson @1 :Text;
  # The whole tokenizer.json of the model.

  chatTemplate @2 :Text;
  # Jinja source; empty when the model has none.

  bosToken @3 :Text;
  eosToken @4 :Text;
  # As text, for the template. May be empty.
}

struct Adapters {
  # The worker serves other adapters than its last message said: an engine can load and unload them while it runs.
  # Requests that it has go on.

  epoch @0 :UInt64;
  names @1 :List(Text);
  # All of them, as in Hello.adapters.
}

struct Bye {
  # The worker leaves now. Its unfinished requests are lost; a worker that drains finishes them first.

  epoch @0 :UInt64;
}

struct PinAnswer {
  # The result of a Pin or an Unpin: every block in it counts once. Shows the state right after the order. An order that
  # was lost on its way gets no answer.

  answerId @0 :UInt64;
  # The id in the order.

  keptBlocks @1 :UInt32;
  # In the cache, and pinned. After an Unpin: still pinned, because a pinned block lies behind them.

  awaitedBlocks @2 :UInt32;
  # Not in the cache: pinned once a request has computed them.

  refusedBlocks @3 :UInt32;
  # Not pinned, because the pins' share of the pool is full. After an Unpin: no longer pinned.
}

struct UsedPrefix {
  # A prefix in the cache, named by its last block: behind it, requests that used all of it diverged.

  hash @0 :BlockHash;
  # Hash of its last block.

  blockCount @1 :UInt32;
  # At least 1.

  hits @2 :UInt64;
  # Requests that found the last block in the cache since it was computed. At least 1.

  firstTokens @3 :List(UInt32);
  lastTokens @4 :List(UInt32);
  # Tokens of the first and of the last block, at most 256 each. Empty unless the request asked for tokens. firstTokens
  # is also empty for a prefix of one block, and where the front was too far away for the worker's search.
}

struct Prefixes {
  # Answers a WantPrefixes.

  answerId @0 :UInt64;
  prefixes @1 :List(UsedPrefix);
  # Most used first; at most 1,000.
}

struct EvictAnswer {
  # The result of an Evict, once it is complete: after the events that tell of the blocks.

  answerId @0 :UInt64;
  # The id of the order.

  evictedBlocks @1 :UInt32;
  # Left the cache, and were free at once. Partly filled blocks count too.

  busyBlocks @2 :UInt32;
  # Left the cache while requests used them: each is free when the last of these requests ends.

  refused @3 :Bool = false;
  # The worker has too many of these orders already, and did nothing.
}

# ---- router → worker ----

struct RouterMessage {
  union {
    none @0 :Void;
    # Never sent: an empty message is malformed.

    welcome @1 :Welcome;
    generate @2 :Generate;
    cancel @3 :Cancel;
    wantHello @4 :Void;
    # The router does not know the sender, or a sequence number is missing. The worker begins a new epoch.

    wantSnapshot @5 :Void;
    # The router's view disagrees with the worker's digest. The worker sends a snapshot within the running epoch.

    wantTokenizer @6 :Void;
    # The router does not have the bundle whose digest is in the hello.

    ping @7 :Ping;
    # Shows that the router is alive. Sent each second.

    pin @8 :Pin;
    unpin @9 :Unpin;
    refused @10 :Refused;
    wantPrefixes @11 :WantPrefixes;
    evict @12 :Evict;
    cordon @13 :Cordon;
  }
}

struct Welcome {
  routerInstance @0 :UInt64;
  # Random, different in every router process. When another instance than before welcomes a worker, the worker ends the
  # requests of the earlier one.

  epoch @1 :UInt64;
  # The epoch of the hello that this answers. A worker ignores a welcome to another epoch than its current one. Of one
  # more to the same epoch it takes the last three fields: they have changed.

  protocolVersion @2 :UInt32 = 2;
  # The router's major version. A worker of another one logs an error and stays away. This field and epoch stay as they
  # are in all major versions.

  protocolMinor @3 :UInt32 = 0;
  release @4 :Text;
  # As in Hello.

  crowdedWorkers @5 :UInt32 = 0;
  crowdedThreads @6 :UInt32 = 0;
  crowdedCores @7 :UInt32 = 0;
  # So many workers of the worker's host or machine, itself included, compute with more threads than there are
  # processors for them. All 0: they fit, or not told.
}

struct Refused {
  # Answers a hello that the router does not accept. The worker logs the reason, shows it at /ready, and keeps saying
  # hello.

  epoch @0 :UInt64;
  # The epoch of the hello that this answers.

  reason @1 :Text;
  # A clause for people. It may differ from one answer to the next.

  cause @2 :RefusalCause;
  # The kind of the reason.
}

enum RefusalCause {
  # The reason why a router does not accept a hello. By it the worker knows a refusal that it has logged, and counts.

  other @0;
  # Also what a router of before 2.2 means.

  version @1;
  # The major versions differ.

  nameTaken @2;
  # Another process serves under the worker's name.

  key @3;
  # The key of the connection may not have the worker's name or model.

  hello @4;
  # A value of the hello is wrong, its block size for example.

  full @5;
  # The router has as many workers as it takes.
}

struct LogitBias {
  token @0 :UInt32;
  bias @1 :Float32;
  # Added to the token's logit before anything else: -100 to 100.
}

struct Generate {
  # One generation from token ids.

  requestId @0 :UInt64;
  # Unique during this router's lifetime. A second request with the id of a running one is ignored and counted.

  prompt @1 :List(UInt32);
  # At least one token.

  root @2 :BlockHash;
  # Root hash of the scope of the request's blocks.

  blockHashes @3 :List(BlockHash);
  # Hashes of the prompt's full blocks, front to back. The worker still verifies every hit against the tokens.

  temperature @4 :Float32;
  # 0: greedy.

  topP @5 :Float32 = 1;
  # In (0, 1].

  topK @6 :UInt32 = 0;
  # 0: no limit.

  seed @7 :UInt64;
  # Token t of the output draws random number (seed, t), whatever happened in between. Choice i uses the seed `seed` +
  # i, modulo 2^64.

  maxOutputTokens @8 :UInt32;
  firstOutputIndex @9 :UInt32 = 0;
  # The first token drawn is number firstOutputIndex of the output. So a continued request, whose earlier output is part
  # of `prompt`, draws the same tokens as without the interruption.

  stopTokens @10 :List(UInt32);
  # In addition to the model's own.

  ignoreEos @11 :Bool = false;
  # The model's own stop tokens do not stop it. stopTokens still do.

  expectedCachedTokens @12 :UInt32;
  # The prediction of the router's index, for comparison with cachedTokenCount.

  deadlineMs @13 :UInt64 = 0;
  # Milliseconds from receipt after which the answer is useless. 0: none.

  tenant @14 :Text;
  # The tenant that the request belongs to, for shares of the pool: at most 200 bytes. Empty: no tenant. `root`, not
  # this, decides whose blocks a request may use.

  cacheMode @15 :CacheMode = on;
  priority @16 :UInt8 = 50;
  # 0 to 100. Waiting requests with a higher number go first.

  retention @17 :Retention;
  # Absent: no hint.

  sessionHash @18 :UInt64 = 0;
  # Names the conversation of this request, only to compare. Blocks that the worker retains for the conversation's
  # return are released when its next request comes. 0: none.

  expectReturnMs @19 :UInt64 = 0;
  # The conversation returns about this long after the request's end, so its blocks are useful until then. The worker
  # limits it. 0: unknown. At most 366 days.

  sampleCount @20 :UInt32 = 1;
  # Outputs to sample from the one prompt, whose blocks they share: 1 to 64. maxOutputTokens and firstOutputIndex apply
  # to each.

  minP @21 :Float32 = 0;
  # 0 to 1: keeps only tokens whose probability is at least this share of the likeliest one's. After temperature, before
  # topK and topP. 0: no limit.

  repetitionPenalty @22 :Float32 = 1;
  # 0.01 to 100. For tokens that occur in prompt or output: a logit above 0 is divided by it, any other is multiplied by
  # it. 1: none.

  presencePenalty @23 :Float32 = 0;
  frequencyPenalty @24 :Float32 = 0;
  # -2 to 2. Subtracted from the logits of tokens that occur in the output: presencePenalty once, frequencyPenalty once
  # per occurrence. The prompt's last firstOutputIndex tokens count as output. 0: none.

  logitBias @25 :List(LogitBias);
  # Each token once. At most 1024.

  outputLogprobs :union {
    # Report the log probabilities of the output's tokens, and of this many of the likeliest tokens at each position: 0
    # to 20.
    absent @26 :Void;
    topCount @27 :UInt8;
  }

  promptLogprobs :union {
    # The same for the prompt's tokens from the second on. The whole prompt is computed: none of its blocks comes from
    # the cache, though they may stay there for others.
    absent @28 :Void;
    topCount @29 :UInt8;
  }

  minOutputTokens @30 :UInt32 = 0;
  # Neither the model's own stop tokens nor stopTokens can be drawn before the output has this many tokens, including
  # those before firstOutputIndex.

  constraint @31 :Constraint;
  # Absent: none.

  traceParent @32 :Text;
  # The trace of the request, in the form of the W3C's header traceparent; only for logs. May be empty. At most 55
  # bytes.

  ownFirstBlock @33 :UInt32 = 0;
  ownRoot @34 :BlockHash;
  # Blocks from ownFirstBlock on belong to the tenant alone: the hash of that block is chained from ownRoot, not from the
  # block before it. The blocks before it belong to a prefix that all tenants share, in the scope of `root`. 0: all
  # blocks are in the scope of `root`.

  adapter @35 :Text;
  # The LoRA adapter that the tokens are computed with, one of Hello.adapters. Empty: the model alone. `root` covers it.
}

struct Cancel {
  requestId @0 :UInt64;
  # Unknown ids are ignored, because the request may just have ended.
}

struct Ping {
  generateDigest :union {
    # For the generates that the router sent before this in the running epoch: the xor of their ids, each put through
    # the finaliser of SplitMix64, because consecutive ids would cancel out.
    absent @0 :Void;
    digest @1 :UInt64;
  }
}

struct Pin {
  # Keeps a prefix: its blocks are not evicted while the pin holds. A block that is not ready yet is pinned when it
  # becomes ready. Pins belong to the worker, not to the link: they outlive the router that asked, and a second pin of a
  # block, by any router, replaces its end time. Over the worker's limit for pinned blocks, the end of the prefix stays
  # unpinned. Load.pinnedBlockCount is the total.

  root @0 :BlockHash;
  # Root hash of the scope of the blocks.

  hashes @1 :List(BlockHash);
  # Hashes of the prefix's full blocks, front to back. At least one.

  durationMs @2 :UInt64 = 0;
  # From receipt. 0: until unpinned. At most 366 days.

  answerId @3 :UInt64 = 0;
  # Not 0: the worker answers with a PinAnswer with this id.
}

struct Unpin {
  # Removes the pins of these blocks. The blocks stay in the cache until their space is needed. Blocks without a pin are
  # ignored.

  root @0 :BlockHash;
  hashes @1 :List(BlockHash);
  # At least one.

  answerId @2 :UInt64 = 0;
  # As in Pin.
}

struct WantPrefixes {
  # Asks which prefixes requests hit most often. The worker's engine scans all its blocks for the answer.

  answerId @0 :UInt64;
  # Not 0.

  most @1 :UInt32;
  # The most prefixes in the answer: 1 to 1,000.

  withTokens @2 :Bool = false;
}

struct Evict {
  # Erase a prompt, a block, or all of a tenant, from the cache. It is stronger than pins: those of the erased blocks
  # end. Requests that the worker has at that time, running or waiting, go on but leave none of it in the cache, also
  # after a preemption. Requests that come later are cached as ever. The worker does it in parts, a bounded number of
  # blocks in each step, and answers when it is complete.

  answerId @0 :UInt64;
  # Not 0: the worker answers with an EvictAnswer of this id, once.

  what :union {
    prompt :group {
      # The prompt's last full block and all that continues it; then, towards the front, its earlier blocks as long as
      # nothing else in the cache continues them. If the last full block is not in the cache, the blocks that are there
      # go in the same way, with partly filled ones that hold nothing else. For a prompt without a full block, all that
      # begins with it.

      root @1 :BlockHash;
      tokens @2 :List(UInt32);
      # At least one.

      blockHashes @3 :List(BlockHash);
      # Hashes of the prompt's full blocks, front to back.

      ownFirstBlock @5 :UInt32 = 0;
      ownRoot @6 :BlockHash;
      # As of a Generate.
    }

    tenant @4 :Text;
    # All blocks that requests of this tenant (Generate.tenant) computed for it alone, with all that continues them. At
    # most 200 bytes.

    block @7 :BlockHash;
    # The full block with this hash and all that continues it; then, towards the front, the blocks before it as long as
    # nothing else in the cache continues them. Only to a worker that knows it (Hello.evictsBlocks).
  }
}

struct Cordon {
  # An operator takes the worker out of service, or puts it back. A cordoned worker answers a generate with
  # `unavailable`; what it has, running or waiting, it finishes, and its cache stays. This belongs to the worker, not to
  # the link: the worker tells every router in its load reports, at once and after each new hello, and it outlives the
  # router that asked. It ends with the worker's process. The report with the wanted Load.cordoned is the answer.

  inForce @0 :Bool = true;
  # False: the worker takes requests again, unless it drains because it is about to leave.
}
