# The wire between router and worker. One message per ZeroMQ frame, unpacked, in Cap'n Proto's stream framing.
#
# This file is the manual of the protocol; common/wire/messages.h has the same names as plain values. Fields are only
# ever added; a number is never used again. A receiver ignores members of the two unions that it does not know (and
# counts them), so a newer peer can speak to an older one of the same major version.
#
#   ROUTER socket (router, binds)                                  DEALER socket (worker, connects)
#     │                                  hello(epoch 7)                     each second until welcomed
#     │ ◄───────────────────────────────────────────────────────────────── │
#     │   welcome(instance, epoch 7)                                        wantTokenizer too, when it has not got it
#     │ ─────────────────────────────────────────────────────────────────► │
#     │                                  snapshot 1, 2, …, n (last)         all ready blocks at one instant
#     │ ◄───────────────────────────────────────────────────────────────── │
#     │   generate, cancel, pin, ping    step n+1, n+2, …                   one per engine step, and every 250 ms
#     │ ◄─────────────────────────────────────────────────────────────────►│
#     │   pin, wantPrefixes              pinAnswer, prefixes                to a worker that answers (Hello.answers)
#     │ ◄─────────────────────────────────────────────────────────────────►│
#
# Epoch: one life of the link. It begins with a hello; what either side held of an earlier one is void then: the router
# forgets the worker's blocks and has lost the requests it had sent, the worker ends those requests without a word.
# Sequence: snapshots and steps of one epoch share the numbers 1, 2, 3, …. A gap means that tokens or events are lost:
# the router answers wantHello, and the worker begins a new epoch. The other way each ping carries a digest of the
# generates before it: a worker that got others begins a new epoch too, so that the router sends them again.
# Silence: a router that hears nothing for two seconds (by default) takes the worker for dead; a worker that hears
# nothing (the router pings each second) for three connects anew and says hello again under a new epoch. A worker whose
# engine makes no progress (Load.progress) although it has work counts as lost too, while its link still answers.
# Identity: ZeroMQ gives each connection a random identity, which means nothing; one that a peer chooses is void. Who a
# worker is stands in its hello alone, and all later messages of that connection are this worker's. On a link with keys
# (CURVE) its key must allow the hello's workerId and model; else the answer is refused.
#
# Bounds (common/wire/codec.h has the numbers): bytes per frame, nesting, traversal, lengths of lists and texts. A
# message over a bound is malformed. The receiver of a malformed message counts it; it drops the link, never the process.
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
  # What kind of failure, from the list that both daemons share. A code that the receiver does not know is `internal`.

  message @1 :Text;
  # A clause for people. Never holds text of a prompt.

  field @2 :Text;
  # The part of the request that it is about; may be empty.
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
}

enum FinishReason {
  stop @0;
  # A stop token was drawn; it is not among the tokens sent, but see TokenEvent.stopToken.

  length @1;
  # maxOutputTokens, or the end of the context.

  cancelled @2;
  # The router asked. Ends the request with all its choices.

  error @3;
  # See TokenEvent.error. Ends the request with all its choices.
}

enum ConstraintKind {
  # What Constraint.text is.

  json @0;
  # Nothing: the output is any JSON object.

  jsonSchema @1;
  # A JSON schema: the output is JSON that is valid by it.

  regex @2;
  # A regular expression: the whole output matches it.

  choice @3;
  # A JSON array of strings: the output is one of them.

  grammar @4;
  # A grammar in EBNF (GBNF's notation) with a rule `root`.

  structuralTag @5;
  # A structural tag in JSON, as xgrammar has them: free text in which what follows certain tags is constrained.
}

struct Constraint {
  # What the whole output of each choice must be. The worker takes no token that leaves it, and a stop token only where
  # the output may end; ignoreEos does not keep an output from ending where nothing else can follow. The prompt's last
  # firstOutputIndex tokens are output that was written under the constraint already.

  kind @0 :ConstraintKind;
  text @1 :Text;
  # At most 262,144 bytes. Judged by the worker as well: what it can not hold to is refused with invalidArgument.

  field @2 :Text;
  # The part of the client's request that errors about the text name.
}

enum CacheMode {
  # What a request has to do with the worker's prefix cache.

  on @0;
  off @1;
  # It neither uses blocks that are there nor leaves any: its whole prompt is computed, and its blocks are freed at its
  # end. What it shares among its own choices it still shares.
}

struct Retention {
  # A hint of how dear a request's blocks are and how long they are wanted, beside what the worker's eviction policy
  # makes of their use. The worker may bound it, and gives way when the pool needs the blocks; a pin is the stronger
  # promise. A block that several requests use keeps the strongest of their hints, and one that others build on counts
  # as at least as dear as those.

  promptPriority @0 :UInt8 = 35;
  # Of the prompt's blocks: 0 goes first, 100 last. 35: as if nothing had been said.

  promptDurationMs @1 :UInt64 = 0;
  # How long the priority holds, from when the request ends. 0: no hint for the prompt's blocks. At most 366 days.

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
  }
}

struct Hello {
  # Who the worker is and what it serves. Begins an epoch.

  protocolVersion @0 :UInt32;
  # Major version, now 2. Another one is refused.

  workerId @1 :Text;
  # Stable name: 1 to 200 bytes of UTF-8 without control characters. A name belongs to one process at a time: see
  # processId.

  epoch @2 :UInt64;
  # Differs from all earlier ones of the same worker, across restarts too. Receivers compare for equality alone. Not 0.

  model @3 :Text;
  # The name that clients ask for. Not empty.

  fingerprint @4 :Text;
  # Covers config, tokenizer and the weights. Workers of one model name and different fingerprints share no blocks and
  # continue none of each other's requests: they are two revisions of the model.

  kvDtype @5 :Text;
  # "f32" or "bf16": part of block identity.

  blockTokens @6 :UInt32;
  # Tokens per block: a power of two from 4 to 256.

  blockCount @7 :UInt32;
  # Blocks of the pool, at least 1.

  maxContextTokens @8 :UInt32;
  # Prompt and output of one request together.

  maxRunningRequests @9 :UInt32;
  # Sequences in one batch.

  tokenizerDigest @10 :Text;
  # SHA-256 of the tokenizer bundle in hexadecimal. A router that has no bundle of this digest asks: wantTokenizer.

  defaultTemperature @11 :Float32 = 1;
  defaultTopP @12 :Float32 = 1;
  defaultTopK @13 :UInt32 = 0;
  # The model's own sampling defaults, for requests that do not say. topK 0: no limit.

  maxBatchTokens @14 :UInt32 = 0;
  # Token budget of one engine step: how large the pieces are that a prefill is cut into. 0: not told.

  maxSampleCount @15 :UInt32 = 1;
  # The largest Generate.sampleCount that the worker knows how to serve. A router sends it no larger one. Not 0.

  sendsCacheEvents @16 :Bool = true;
  # False: steps hold no cache events and no snapshot comes, whoever asks. The load tells of the cache all the same. The
  # router goes by what it sent the worker itself.

  defaultMinP @17 :Float32 = 0;
  defaultRepetitionPenalty @18 :Float32 = 1;
  # More of the model's own sampling defaults.

  fullSampling @19 :Bool = false;
  # The worker knows Generate.minP, the penalties and the bias. A router sends a request that asks for one of these to no
  # worker that does not: it would ignore them without a word.

  ageingTokens @20 :UInt32 = 0;
  # Waiting prompts of equal priority are taken by their uncached tokens, fewest first, so many tokens being worth a
  # second of waiting. 0: in another order, or not told; then a router takes what waits for what goes first.

  processId @21 :UInt64;
  # Random, another one for each process. Not 0. A hello of the process that has the name already takes its link over
  # to the new connection. Another process is refused until the earlier one has left, is lost, or was silent for two
  # seconds.

  answers @22 :Bool = false;
  # The worker answers a pin, an unpin and a wantPrefixes with an answerId. A router waits for no answer of another one.

  keepsPrefixes @23 :Bool = true;
  # False: the worker looks no block up and keeps none after its request. A router expects no cached token from it and
  # chooses it for its load alone.

  logprobs @24 :Bool = false;
  # The worker knows Generate.outputLogprobs and promptLogprobs. A router sends a request that asks for one of these to
  # no worker that does not.

  minOutputTokens @25 :Bool = false;
  # The same for Generate.minOutputTokens.

  constrainsOutput @26 :Bool = false;
  # The worker knows Generate.constraint. A router sends a request that has one to no worker that does not: it would
  # answer with any text at all.
}

struct TokenLogprobs {
  # Log probabilities at one position of a text: log softmax of the model's logits in f32, as they are before biases,
  # penalties, temperature and what else a draw does to them. From -9999, which stands for all below, to 0.

  logprob @0 :Float32;
  # Of the token that stands there.

  rank @1 :UInt32;
  # Its place among all tokens, the likeliest being 1; of equally likely ones the lower id comes first.

  topTokens @2 :List(UInt32);
  topLogprobs @3 :List(Float32);
  # The likeliest tokens in that order, as many as were asked for, at most 20.
}

struct TokenEvent {
  # What one choice of a request got in one step. A request has `sampleCount` choices.

  requestId @0 :UInt64;
  tokens @1 :List(UInt32);
  # In order of generation. May be empty in an event that only ends something.

  cachedTokenCount :union {
    # Prompt tokens whose KV came from the cache. Set once, in the request's first event with tokens, or in its end if it
    # has none.
    absent @2 :Void;
    count @3 :UInt32;
  }

  queueWaitSeconds :union {
    # From receipt to the first step that computed a part of it. Set together with cachedTokenCount.
    absent @4 :Void;
    seconds @5 :Float64;
  }

  state :union {
    running @6 :Void;
    finished @7 :FinishReason;
    # The choice's last event; nothing follows for it. `stop` and `length` end this choice alone, and the request ends
    # with its last one. `cancelled` and `error` end the request: they are sent once, for whichever choice, and nothing
    # follows under this id.
  }

  error @8 :Error;
  # With finished = error only. Absent otherwise.

  choice @9 :UInt32 = 0;
  # Which output of the request: 0 to sampleCount - 1.

  stopToken :union {
    # With finished = stop only: the token that was drawn.
    absent @10 :Void;
    token @11 :UInt32;
  }

  logprobs @12 :List(TokenLogprobs);
  # Of each of the tokens, in their order, if the request has outputLogprobs. Empty otherwise.

  promptLogprobs @13 :List(TokenLogprobs);
  # If the request has promptLogprobs: of the prompt's tokens from its second on, in order, in pieces of at most 4,096 as
  # they are computed. All have come with the request's first token, or the end of its first choice. In events of choice
  # 0, with or without tokens.
}

struct StoredRun {
  # Blocks that became ready and follow each other in one chain.

  firstPosition @0 :UInt32;
  # Position, counted in blocks from the chain's front, of hashes[0]. Its parent is stored already.

  hashes @1 :List(BlockHash);
}

struct CacheEvent {
  # Applied in the order sent; stored runs front to back, removed lists in the order given, so that the receiver's view
  # is prefix-closed at every instant.

  union {
    stored @0 :StoredRun;
    removed @1 :List(BlockHash);
    # Each is a leaf when its turn comes.
  }
}

struct OtherPrompt {
  # One that another router sent.

  uncachedTokens @0 :UInt32;
  # Still to be computed.

  waitedMs @1 :UInt32;
  # Since it came to the worker.

  id @2 :UInt64 = 0;
  # The worker's own for this prompt, so that lists can be compared. 0: it has none.

  hashes @3 :List(BlockHash);
  # Of its whole blocks, front to back, so that its siblings can follow it here while it is computed. Told once: they
  # hold for as long as each list of this epoch has the id. Empty otherwise, and for a prompt that leaves no blocks in
  # the cache. At most 65,536 hold at one time.
}

struct Load {
  # The worker as its engine saw itself after its latest step. Covers the work of all routers.

  waitingRequests @0 :UInt32;
  runningRequests @1 :UInt32;
  queuedPrefillTokens @2 :UInt64;
  # Prompt tokens still to be computed (not cached), of waiting and running requests. These and waitingRequests count what
  # other routers have sent and the engine has not taken in yet; what the receiver itself has sent since, it must add.

  runningContextTokens @3 :UInt64;
  # Sum of the running requests' lengths so far.

  freeBlockCount @4 :UInt32;
  # Blocks that a new request could have at once: never used, or idle in the cache.

  cachedBlockCount @5 :UInt32;
  # Ready blocks.

  digest @6 :BlockHash;
  # Exclusive or of the hashes of all ready blocks, after the events of the step that carries this. A receiver whose own
  # view differs asks for a snapshot. Compare only once the epoch's first snapshot is complete.

  stepPrefillTokens @7 :UInt32;
  stepDecodeTokens @8 :UInt32;
  stepSeconds @9 :Float64;
  # What the step computed and how long it took, for fitting rates. All zero in a message that reports no step.

  draining @10 :Bool = false;
  # The worker ends what it has and takes nothing new: a generate that arrives now is answered with `unavailable`.

  pinnedBlockCount @11 :UInt32 = 0;
  # Ready blocks that pins keep. The worker bounds them to a share of its pool.

  otherPrompts @12 :List(OtherPrompt);
  # The prompts of other routers than the receiver that queuedPrefillTokens counts, so that all routers see one queue; at
  # most 1,024, those that run first (a worker of this version tells 64, and what has just come). Empty where there is one
  # router.

  progress @13 :UInt64 = 0;
  # Grows with each report of the engine, also with one that tells of no step. A heartbeat repeats the last one. So a
  # worker that has work and whose progress stands still has an engine that hangs.
}

struct Step {
  # One per engine step, to every welcomed router: that router's tokens, all cache events, the load. Without a step for
  # 250 ms it repeats the load alone, so it is the worker's heartbeat too.

  epoch @0 :UInt64;
  sequence @1 :UInt64;
  tokens @2 :List(TokenEvent);
  events @3 :List(CacheEvent);
  # Empty until the epoch's first snapshot is complete.

  load @4 :Load;
}

struct Snapshot {
  # All ready blocks at one instant, in chunks that nothing comes between. The first chunk empties the receiver's view.
  # Answers welcome and wantSnapshot. It belongs to the running epoch: requests go on.

  epoch @0 :UInt64;
  sequence @1 :UInt64;
  chunkIndex @2 :UInt32;
  # 0, 1, 2, …

  last @3 :Bool;
  # The view is complete with this chunk. An empty cache sends one chunk, number 0 and last.

  runs @4 :List(StoredRun);
  # Parents before children, across chunks too. At most 4,096 hashes in all runs of a chunk.
}

struct Tokenizer {
  # What a router needs to turn messages into token ids. The one large message: up to 64 MiB.

  digest @0 :Text;
  # As in the hello.

  tokenizerJson @1 :Text;
  # The model's tokenizer.json, whole.

  chatTemplate @2 :Text;
  # Jinja source; empty when the model has none.

  bosToken @3 :Text;
  eosToken @4 :Text;
  # As text, for the template. May be empty.
}

struct Bye {
  # The worker leaves now. What it has not ended is lost; a worker that drains ends its requests first.

  epoch @0 :UInt64;
}

struct PinAnswer {
  # What came of a Pin or an Unpin: every block that it named counts once. The state right after the order was carried
  # out; the answer of an order that was lost on its way never comes.

  answerId @0 :UInt64;
  # Of the order.

  keptBlocks @1 :UInt32;
  # In the cache, and pinned. After an Unpin: pinned all the same, because a pinned block stands behind them.

  awaitedBlocks @2 :UInt32;
  # Not in the cache: pinned as soon as a request has computed them.

  refusedBlocks @3 :UInt32;
  # Not pinned: the pins' share of the pool is full. After an Unpin: not pinned any more.
}

struct UsedPrefix {
  # A prefix in the cache, named by its last block: where requests that used all of it went different ways.

  hash @0 :BlockHash;
  # Of its last block.

  blockCount @1 :UInt32;
  # At least 1.

  hits @2 :UInt64;
  # Requests that found the last block in the cache since it was computed. At least 1.

  firstTokens @3 :List(UInt32);
  lastTokens @4 :List(UInt32);
  # Of the first and of the last block, at most 256 each. Empty unless the question asked for tokens; firstTokens also
  # for a prefix of one block, and where the worker found it too long a way to the front.
}

struct Prefixes {
  # Answers a WantPrefixes.

  answerId @0 :UInt64;
  prefixes @1 :List(UsedPrefix);
  # The most used first; at most 1,000.
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
    # The router does not know the sender, or saw a gap in its sequence. The worker begins a new epoch.

    wantSnapshot @5 :Void;
    # The router's view disagrees with the worker's digest. The worker sends a snapshot in the running epoch.

    wantTokenizer @6 :Void;
    # The router has no bundle of the hello's digest.

    ping @7 :Ping;
    # The router lives. Each second.

    pin @8 :Pin;
    unpin @9 :Unpin;
    refused @10 :Refused;
    wantPrefixes @11 :WantPrefixes;
  }
}

struct Welcome {
  routerInstance @0 :UInt64;
  # Random, different in every router process. A worker that is welcomed by another instance than before ends the
  # earlier one's requests.

  epoch @1 :UInt64;
  # The hello that this answers. A welcome to another epoch than the worker's current one is ignored.
}

struct Refused {
  # Answers a hello that the router does not accept. The worker says it in its log and goes on asking.

  epoch @0 :UInt64;
  # The hello that this answers.

  reason @1 :Text;
  # A clause for people.
}

struct LogitBias {
  token @0 :UInt32;
  bias @1 :Float32;
  # Added to the token's logit before anything else: -100 to 100.
}

struct Generate {
  # One generation, from token ids.

  requestId @0 :UInt64;
  # Unique among this router's requests of its lifetime. A second one under a running id is ignored and counted.

  prompt @1 :List(UInt32);
  # At least one token.

  root @2 :BlockHash;
  # Hash of the scope that the request's blocks live in.

  blockHashes @3 :List(BlockHash);
  # Of the prompt's full blocks, front to back. The worker verifies every hit against the tokens all the same.

  temperature @4 :Float32;
  # 0: greedy.

  topP @5 :Float32 = 1;
  # In (0, 1].

  topK @6 :UInt32 = 0;
  # 0: no limit.

  seed @7 :UInt64;
  # Token t of the output draws random number (seed, t), whatever happened in between. Choice i has the seed `seed` + i,
  # modulo 2^64.

  maxOutputTokens @8 :UInt32;
  firstOutputIndex @9 :UInt32 = 0;
  # The first token drawn is number firstOutputIndex of the output. A continued request, whose earlier output is part of
  # `prompt`, so draws what it would have drawn.

  stopTokens @10 :List(UInt32);
  # Beside the model's own.

  ignoreEos @11 :Bool = false;
  # The model's own stop tokens do not stop it. stopTokens still do.

  expectedCachedTokens @12 :UInt32;
  # What the router's index promised, for comparison with cachedTokenCount.

  deadlineMs @13 :UInt64 = 0;
  # Milliseconds from receipt after which the answer is of no use. 0: none.

  tenant @14 :Text;
  # Whom the request belongs to, for shares of the pool: at most 200 bytes. Empty: nobody in particular. Who may use
  # whose blocks is in `root`, not here.

  cacheMode @15 :CacheMode = on;
  priority @16 :UInt8 = 50;
  # 0 to 100. Of the requests that wait, those with the higher number are taken first.

  retention @17 :Retention;
  # Absent: no hint.

  sessionHash @18 :UInt64 = 0;
  # Names the conversation that this request is a turn of, for nothing but comparison. What the worker retains for a
  # turn's return ends when the conversation's next request comes. 0: none.

  expectReturnMs @19 :UInt64 = 0;
  # The conversation comes back about so long after this request's end, so its blocks are of use until then. The worker
  # bounds it. 0: not known. At most 366 days.

  sampleCount @20 :UInt32 = 1;
  # Outputs to sample from the one prompt, whose blocks they share: 1 to 64. Each is bounded by maxOutputTokens and
  # starts at firstOutputIndex.

  minP @21 :Float32 = 0;
  # 0 to 1: only tokens at least so likely, as a share of the likeliest one's probability. After temperature, before topK
  # and topP. 0: no limit.

  repetitionPenalty @22 :Float32 = 1;
  # 0.01 to 100. A logit above 0 is divided by it and another one multiplied, of the tokens that occur in prompt or
  # output. 1: none.

  presencePenalty @23 :Float32 = 0;
  frequencyPenalty @24 :Float32 = 0;
  # -2 to 2. Taken from the logits of the tokens that occur in the output: the first once, the second as often as they
  # occur. The prompt's last firstOutputIndex tokens count as output. 0: none.

  logitBias @25 :List(LogitBias);
  # By token, each once. At most 1024.

  outputLogprobs :union {
    # Log probabilities of the output's tokens are wanted, and of so many of the likeliest tokens beside each: 0 to 20.
    absent @26 :Void;
    topCount @27 :UInt8;
  }

  promptLogprobs :union {
    # The same of the prompt's tokens from its second on. Costs the whole prompt: none of its blocks is taken from the
    # cache, though they may stay there for others.
    absent @28 :Void;
    topCount @29 :UInt8;
  }

  minOutputTokens @30 :UInt32 = 0;
  # Neither the model's own stop tokens nor stopTokens can be drawn before the output has so many tokens, those before
  # firstOutputIndex included.

  constraint @31 :Constraint;
  # Absent: none.

  traceParent @32 :Text;
  # The trace that the request belongs to, as in the W3C's header of that name; for logs. May be empty. At most 55 bytes.
}

struct Cancel {
  requestId @0 :UInt64;
  # Unknown ids are ignored: the request may just have ended.
}

struct Ping {
  generateDigest :union {
    # Of the generates that the router sent before this in the running epoch: exclusive or of their ids, each put
    # through the finaliser of SplitMix64, since ids that follow each other cancel out.
    absent @0 :Void;
    digest @1 :UInt64;
  }
}

struct Pin {
  # Keep a prefix: its blocks are not evicted while the pin holds. A block that is not there yet is pinned when it becomes
  # ready. Pins are the worker's, not the link's: they outlive the router that asked, and a second pin of a block by
  # whichever router sets its end anew. Over the worker's limit for pinned blocks the tail of the prefix stays unpinned.
  # Load.pinnedBlockCount shows what is held in all.

  root @0 :BlockHash;
  # Hash of the scope that the blocks live in.

  hashes @1 :List(BlockHash);
  # The prefix's full blocks, front to back. At least one.

  durationMs @2 :UInt64 = 0;
  # From receipt. 0: until unpinned. At most 366 days.

  answerId @3 :UInt64 = 0;
  # Not 0: the worker answers with a PinAnswer of this id.
}

struct Unpin {
  # Takes back the pins of these blocks. They stay in the cache until something needs their place. Blocks that are not
  # pinned are ignored.

  root @0 :BlockHash;
  hashes @1 :List(BlockHash);
  # At least one.

  answerId @2 :UInt64 = 0;
  # As of a Pin.
}

struct WantPrefixes {
  # Which prefixes do requests find most often? Costs the worker's engine a look at all its blocks.

  answerId @0 :UInt64;
  # Not 0.

  most @1 :UInt32;
  # So many at most: 1 to 1,000.

  withTokens @2 :Bool = false;
}
