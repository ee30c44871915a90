# The wire between router and worker. One message per ZeroMQ frame, unpacked, in Cap'n Proto's stream framing. What two
# workers say to each other stands at the end: PeerMessage.
#
# This file is the manual of the protocol, and the only description of a message: schema/generator makes from it the
# plain values with these comments (common/wire/messages.h), their encoder and decoder, and the random messages of the
# tests. annotations.capnp says what the words behind $ mean. Fields are only ever added; a number is never used again.
#
# Versions: hello and welcome tell each side's version. Peers of one major version understand each other; what a newer
# worker can do more is told by the features in its hello, and a router uses no more than that. A receiver tolerates
# what it does not know, and no such value costs the link:
#
#   another major version in a hello or welcome   refused, with both versions in the log of each side
#   a field                                       ignored
#   a member of WorkerMessage or RouterMessage    ignored and counted
#   a member of CacheEvent                        ignored; if it changed the blocks, the load's digest shows it, and a
#                                                 snapshot repairs the router's view
#   a member of TokenEvent.finish                 running
#   ErrorCode                                     internal
#   FinishReason                                  that request fails with `internal`
#   CacheMode                                     off
#   HoldPurpose                                   request
#   WorkerRole                                    both
#   RequestPart                                   whole
#   PromptMiss                                    none
#   HoldOutcome                                   broken
#   HoldCause                                     none
#   RefusalCause                                  other
#   FetchRefusal                                  handshake
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
#     │   pin, wantPrefixes              pinAnswer, prefixes                if it `answers` (Hello.features)
#     │   evict                          evictAnswer                        if it `evicts`
#     │   hold                           holdAnswer                         if it `holds`
#     │   cordon                         step with Load.cordoned            if it `cordons`
#     │                                  adapters                           when they are others than before
#     │   wantPrefixes, handedOver       prefixes                           while it drains
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
# Limits: bytes per frame, nesting, traversal, lengths of lists and texts, ranges of numbers. A message over a limit is
# malformed. The receiver counts a malformed message and drops the link, but never ends the process.
@0x8995c1aacb79d859;

using Cxx = import "/capnp/c++.capnp";
using import "annotations.capnp".above;
using import "annotations.capnp".check;
using import "annotations.capnp".choice;
using import "annotations.capnp".cut;
using import "annotations.capnp".cxx;
using import "annotations.capnp".enoughIf;
using import "annotations.capnp".form;
using import "annotations.capnp".least;
using import "annotations.capnp".local;
using import "annotations.capnp".most;
using import "annotations.capnp".mostEntries;
using import "annotations.capnp".named;
using import "annotations.capnp".needs;
using import "annotations.capnp".omitEmpty;
using import "annotations.capnp".optional;
using import "annotations.capnp".presentIf;
using import "annotations.capnp".shown;
using import "annotations.capnp".text;
using import "annotations.capnp".unknown;
using import "annotations.capnp".valuesIn;
using import "annotations.capnp".valuesInclude;
$Cxx.namespace("roost::schema");
$valuesIn("roost::wire");
$valuesInclude(["common/base/enum_set.h", "common/base/error.h", "common/base/ids.h", "common/prefix/block_hash.h",
                "common/wire/step_tokens.h", "common/wire/version.h"]);

# ---- limits ----

struct WireLimits {
  # The limits of a message. The sender keeps to them; the receiver refuses a message over a limit.

  const maxFrameBytes :UInt64 = 67108864;
  # 64 MiB: a Tokenizer.

  const maxPlainFrameBytes :UInt64 = 16777216;
  # 16 MiB: every other message.

  const maxTokenizerBytes :UInt64 = 67043328;
  # A frame less 64 KiB: each text of a Tokenizer.

  const maxTextBytes :UInt64 = 4096;
  # Names, digests, error messages.

  const maxWorkerIdBytes :UInt64 = 200;
  # ZeroMQ allows 255.

  const maxTenantBytes :UInt64 = 200;
  const maxAdapterBytes :UInt64 = 200;
  const maxAddressBytes :UInt64 = 64;
  # "[IPv6]:port" in digits has at most 47.

  const maxPromptTokens :UInt64 = 1048576;
  const maxPromptHashes :UInt64 = 262144;
  # All blocks of the longest prompt, if they have 4 tokens each.

  const maxStopTokens :UInt64 = 1024;
  const maxLogitBiases :UInt64 = 1024;
  const maxTokensPerEvent :UInt64 = 65536;
  const maxPromptLogprobsPerEvent :UInt64 = 4096;
  # Positions.

  const maxHeldHashes :UInt64 = 65536;
  # Blocks of a Hold, and of a PeerFetch.

  const maxPeerMessageBytes :UInt64 = 1052672;
  # 1 MiB and 4 KiB: a PeerFetch.

  const maxHashesPerRun :UInt64 = 65536;
  const maxSnapshotHashes :UInt64 = 4096;
  # Hashes in all runs of one snapshot chunk. A router applies a chunk in one go, so this limits how long others wait.

  const maxListItems :UInt64 = 65536;
  # Events of a step.

  const maxNesting :Int32 = 8;
  # Structs and lists within each other.

  const minStepSeconds :Float64 = 1e-7;
  const maxStepSeconds :Float64 = 1e6;
  const maxTokensPerSecond :Float64 = 1e9;
  # Limits of what a worker reports about itself. They are far above what a real engine reports.

  const maxTokensOfAWorker :UInt64 = 281474976710656;
  # Queued, or in running contexts: 2^48.
}

const maxTopLogprobs :UInt32 = 20;
# The likeliest tokens that a request may ask for at each position.

const minLogprob :Float32 = -9999;
# Stands for all smaller ones.

const maxAdapters :UInt64 = 1024;
# One worker serves no more.

const maxOtherPrompts :UInt64 = 1024;
# In one report.

const maxOtherHashes :UInt64 = 65536;
# All reported prompts together, at one time: 1 MiB.

const maxRouters :UInt32 = 1024;
# That one worker serves.

const maxUsedPrefixes :UInt32 = 1000;
# In one answer.

const maxUsedHashes :UInt64 = 262144;
# All prefixes of one answer together: 4 MiB.

const minRepetitionPenalty :Float32 = 0.01;
const maxRepetitionPenalty :Float32 = 100;
const maxPenalty :Float32 = 2;
# The penalties of presence and frequency, on both sides of 0.

const maxLogitBias :Float32 = 100;
# On both sides of 0.

const maxPriority :UInt32 = 100;
# The highest of requests and of blocks.

const maxSampleCount :UInt32 = 64;
const maxKeepMs :UInt64 = 31622400000;
# 366 days: adding it to any clock's time does not wrap around.

const maxLifetimes :UInt64 = 4;
# Of one prompt's parts.

const maxConstraintBytes :UInt64 = 262144;
const maxKvTransferBytes :UInt64 = 65536;
# 64 KiB: what an engine's connector says of where the KV blocks of a prompt lie.

const maxHoldMs :UInt64 = 600000;
# 10 minutes: the longest patience of a Hold.

const transferSecretBytes :UInt64 = 64;
const transferTicketBytes :UInt64 = 74;
# Digits of a transfer's secret and ticket.

const maxReleaseBytes :UInt64 = 64;
const maxHostBytes :UInt64 = 255;
const maxRoutes :UInt64 = 64;
const maxRouteBytes :UInt64 = 256;
const maxForwardBytes :UInt64 = 262144;
# 256 KiB: of a forwarded request or answer in one message.

const forwardCredit :UInt32 = 1048576;
# 1 MiB: so much of a forwarded request, and of its answer, may be sent before the receiver says that it takes more.

# ---- values ----

struct BlockHash $cxx(type = "BlockHash", existing = true) {
  # 128 bits that name a KV block: SHA-256 over the parent's hash and the block's tokens, cut to its first 16 bytes. See
  # common/prefix/block_hash.h. An all-zero hash is a valid value.

  high @0 :UInt64;
  # Bytes 0 to 7 of the digest, read as a big-endian number.

  low @1 :UInt64;
  # Bytes 8 to 15. The router's index keys on this half.
}

struct Error $cxx(type = "Error", existing = true) $named("error") {
  code @0 :ErrorCode = internal;
  # The kind of failure, from the list that both daemons share. A receiver takes an unknown code as `internal`.

  message @1 :Text $cut $most(.WireLimits.maxTextBytes);
  # A clause for people. Never contains text of a prompt.

  field @2 :Text $cut $most(.WireLimits.maxTextBytes);
  # The part of the request that is wrong; may be empty.
}

enum ErrorCode $cxx(type = "ErrorCode", existing = true) {
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
  internal @13 $unknown;
  modelNotFound @14;
  unsupportedMediaType @15;
  permissionDenied @16;
  rateLimited @17;
}

enum FinishReason {
  # `stop` and `length` end one choice of a request; the request ends with its last choice.

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

enum WorkerRole {
  # The part of requests that a worker is meant for, where others of its model have other roles.

  both @0 $unknown;
  prefill @1;
  # Prompts and their first tokens.

  decode @2;
  # Answers, and prompts that are better computed beside them.
}

enum RequestPart {
  # What a worker computes of a request.

  whole @0 $unknown;
  prompt @1;
  # The prompt and the first token. Another worker continues the answer.

  answer @2;
  # The answer behind its first token: its prompt was computed, and counted, at another worker.
}

enum PromptMiss {
  # Why the first prompt token that a worker computed was not in its cache.

  none @0 $unknown;
  # All full blocks of the prompt were, or the worker does not tell.

  cold @1;
  # The block was never there, or so long ago that it is forgotten.

  evicted @2;
  inFlight @3;
  # Another request was computing the block, and it was not worth waiting for it.

  notArrived @4;
  # The block was to come from another worker, and did not, or came too slowly.

  disabled @5;
  # The request does not use the cache.
}

enum HoldPurpose {
  # The use of the blocks that a Hold brings.

  request @0 $unknown;
  # A request that follows needs them.

  copy @1;
  # They are for later requests; no client waits for them.
}

enum HoldOutcome {
  # The end of a Hold. Whatever it is, the blocks that arrived are in the cache, and the others can be computed.

  complete @0;
  # The worker holds all of the blocks now.

  missing @1;
  # The source does not hold the rest.

  busy @2;
  # The source, or this worker, has as many transfers as it takes.

  slow @3;
  # The patience was over.

  broken @4 $unknown;
  # The source could not be reached, or the connection to it ended or was silent.

  wrong @5;
  # A frame had a wrong sum, hash, parent or size, and nothing of it is used; or what had come from there before was found
  # to be computed wrong.

  noRoom @6;
  # Requests need the space of the blocks.

  cancelled @7;
  # Nobody waits for the blocks any more, or an Evict erased them.

  refused @8;
  # The worker takes no such Hold: it serves and fetches no blocks, or it has too many Holds already.
}

enum HoldCause {
  # Why a Hold ended as broken, wrong or busy, for operators.

  none @0 $unknown;
  # There is nothing to add to the outcome, or the worker does not tell.

  paused @1;
  # The source was not asked: it had failed shortly before.

  unreachable @2;
  # Nothing answers at the source's address, or this worker may not dial it.

  handshake @3;
  # The source ended the handshake of TLS: a ticket that is not valid there now, or no keys on one side.

  refused @4;
  # The source refused the fetch: another worker answers there, or blocks of another layout or other numerics.

  silent @5;
  # The source sent nothing for a while, or took nothing.

  closed @6;
  # The connection ended in mid transfer.

  malformed @7;
  # A message without the form of one, or a frame of another size or version.

  sum @8;
  # The bytes of a frame do not match its sum.

  otherBlock @9;
  # A whole frame with another block than the one asked for.

  computedWrong @10;
  # Computing again showed that what had come from the source was computed wrong.

  ownLimit @11;
  # The worker itself fetches from as many sources as it takes.
}

struct Constraint $named("constraint") {
  # The rule that the whole output of each choice must match. The worker draws no token that would violate it, and a
  # stop token only where the output may end. ignoreEos does not keep an output from ending where nothing else can
  # follow. The prompt's last firstOutputIndex tokens are output that was already generated under the constraint.

  kind @0 :ConstraintKind;
  text @1 :Text $most(.maxConstraintBytes);
  # At most 262,144 bytes. The worker checks it too, and refuses what it can not enforce with invalidArgument.

  field @2 :Text $text(line) $most(.WireLimits.maxTextBytes);
  # The part of the client's request that errors about the text name.
}

enum CacheMode {
  # A request's use of the worker's prefix cache.

  on @0;
  off @1 $unknown;
  # It neither uses cached blocks nor leaves any: its whole prompt is computed, and its blocks are freed when it ends.
  # Its own choices still share blocks.
}

struct Retention $named("retention") {
  # A hint how valuable a request's blocks are and for how long, in addition to what the eviction policy derives from
  # their use. The worker may limit it, and ignores it when the pool needs the blocks; a pin is stronger. A block of
  # several requests keeps the strongest of their hints. A block with children counts as at least as valuable as they
  # are.

  promptPriority @0 :UInt8 = 35 $most(.maxPriority);
  # Priority of the prompt's blocks: 0 is evicted first, 100 last. 35: the same as without a hint.

  promptDurationMs @1 :UInt64 = 0 $most(.maxKeepMs);
  # The time for which the priority holds after the request's end. 0: no hint for the prompt's blocks. At most 366 days.

  decodePriority @2 :UInt8 = 35 $most(.maxPriority);
  decodeDurationMs @3 :UInt64 = 0 $most(.maxKeepMs);
  # The same for the blocks that the output fills.
}

struct Lifetime $named("lifetimes") {
  # The least time for which the front of a prompt should stay in the cache. Unlike Retention it is renewed whenever a
  # request releases its blocks, and does not end when the session comes back. The worker limits it as it limits
  # Retention.

  endToken @0 :UInt32;
  # The blocks up to the one with the token before this have it. More than the prompt has: all of it.

  durationMs @1 :UInt64 = 0 $most(.maxKeepMs);
  # From the request's end, and from the end of each later request that uses the blocks. At most 366 days.
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
    holdAnswer @10 :HoldAnswer;
    forwarded @11 :Forwarded;
  }
}

struct Hello $check {
  # The worker's identity, and the model that it serves. Begins an epoch. A hello of another major version is read as
  # far as its epoch: enough to refuse it.

  version :group $cxx(type = "PeerVersion", existing = true) {
    major @0 :UInt32;
    # Now 2. Any other is refused. This field, workerId and epoch stay as they are in all major versions, so that the
    # refusal can name the worker and reach it.

    minor @28 :UInt32 = 0;
    # Now 12. Only for logs: the features of this message decide what a router may send. 0: a worker of before routers
    # told their version.

    release @29 :Text $text(line) $most(.maxReleaseBytes) $omitEmpty;
    # Version of the program, for logs: at most 64 bytes without control characters. May be empty.
  }

  workerId @1 :Text $text(label) $most(.WireLimits.maxWorkerIdBytes);
  # Stable name: 1 to 200 bytes of UTF-8 without control characters. Only one process at a time uses a name; see
  # processId.

  processId @21 :UInt64;
  # Random, different for each process. Not 0. A hello from the process that already has the name moves its link to the
  # new connection. Another process is refused until the earlier one has left, is lost, or was silent for two seconds.

  epoch @2 :UInt64 $least(1) $enoughIf("IsOfAnotherMajor");
  # Different from all earlier ones of this worker, across restarts too. Receivers only compare for equality. Not 0.

  model @3 :Text $text(label) $most(.WireLimits.maxTextBytes);
  # The name that clients ask for. Not empty.

  fingerprint @4 :Text $text(line) $most(.WireLimits.maxTextBytes);
  # Covers config, tokenizer and weights. Workers with one model name and different fingerprints are two revisions of
  # the model: they share no blocks, and do not continue each other's requests.

  kvDtype @5 :Text $text(line) $most(.WireLimits.maxTextBytes);
  # "f32" or "bf16": part of block identity.

  blockTokens @6 :UInt32;
  # Tokens per block: a power of two from 4 to 256.

  engineBlockTokens @44 :UInt32 = 0;
  # Of a worker beside an engine whose blocks are larger: the tokens of one, a multiple of blockTokens. Hits are whole
  # blocks of the engine. 0: as blockTokens.

  blockCount @7 :UInt32 $least(1);
  # Blocks in the pool, at least 1.

  maxContextTokens @8 :UInt32 $least(1);
  # Prompt and output of one request together.

  maxRunningRequests @9 :UInt32;
  # The most sequences in one batch.

  tokenizerDigest @10 :Text $text(line) $most(.WireLimits.maxTextBytes);
  # SHA-256 of the tokenizer bundle in hexadecimal. A router without this bundle asks for it: wantTokenizer.

  sampling :group $cxx(type = "SamplingDefaults") {
    # The model's own sampling defaults (its generation_config.json), for requests that set none.

    temperature @11 :Float32 = 1 $least(0);
    topP @12 :Float32 = 1 $above(0) $most(1);
    topK @13 :UInt32 = 0;
    # 0: no limit.

    minP @17 :Float32 = 0 $least(0) $most(1);
    repetitionPenalty @18 :Float32 = 1 $least(.minRepetitionPenalty) $most(.maxRepetitionPenalty);
  }

  maxBatchTokens @14 :UInt32 = 0;
  # Token budget of one engine step: the size of the chunks of a prefill. 0: not reported.

  ageingTokens @20 :UInt32 = 0;
  # Waiting prompts of equal priority run in the order of their uncached tokens, fewest first; a second of waiting
  # counts as this many tokens less. 0: another order, or not reported; then a router assumes that everything that waits
  # runs first.

  maxSampleCount @15 :UInt32 = 1 $least(1);
  # The largest Generate.sampleCount that the worker supports. A router sends it no larger one. Not 0.

  features :group $form(set) $cxx(type = "Feature") {
    # The worker knows these beyond the first release. A router sends a request only to a worker that has every feature
    # which the request needs, because others would silently ignore a part of it; it sends no order to a worker that
    # does not know it, and says so.

    fullSampling @19 :Bool = false;
    # Generate.sampling.minP, the penalties and the bias.

    logprobs @24 :Bool = false;
    # Generate.outputLogprobs and promptLogprobs.

    minOutputTokens @25 :Bool = false;
    # Generate.minOutputTokens.

    constrainsOutput @26 :Bool = false;
    # Generate.constraint.

    answers @22 :Bool = false;
    # It answers a pin, an unpin and a wantPrefixes with an answerId. A router does not wait for answers of other
    # workers.

    evicts @27 :Bool = false;
    # Evict.

    cordons @30 :Bool = false;
    # Cordon.

    evictsBlocks @38 :Bool = false;
    # Evict.block.

    holds @39 :Bool = false;
    # Hold.

    follows @50 :Bool = false;
    # Hold.follow, as the worker that fetches and as the source.

    connector @52 :Bool = false;
    # Its engine has a KV connector of its own: Generate.kvTransfer and TokenEvent.kvTransfer, instead of a Hold.
  }

  sendsCacheEvents @16 :Bool = true;
  # False: steps have no cache events, and the worker never sends a snapshot. Its load still counts cached blocks. The
  # router then predicts the cache from what it sent to the worker itself.

  keepsPrefixes @23 :Bool = true;
  # False: the worker looks up no blocks and keeps none after a request. A router expects no cached tokens from it, and
  # chooses it only by its load. True without a tokenizerDigest: its engine keeps prefixes of requests that it gets unread,
  # so a router may assume that the texts it sent there are cached.

  adapters @31 :List(Text) $text(label) $most(.WireLimits.maxAdapterBytes) $mostEntries(.maxAdapters) $omitEmpty;
  # The LoRA adapters that the worker serves beside its model, by the names that clients ask for: at most 1,024, each of
  # 1 to 200 bytes of UTF-8 without control characters. A router sends Generate.adapter only to a worker that names it.

  aliases @45 :List(Text) $text(label) $most(.WireLimits.maxAdapterBytes) $mostEntries(.maxAdapters) $omitEmpty;
  # Other names that clients may ask for the model by, in the form of adapters. A name that a model or an adapter has means
  # that.

  routes @46 :List(Text) $text(line) $most(.maxRouteBytes) $mostEntries(.maxRoutes) $omitEmpty;
  # Paths of requests that the worker hands on to its engine unread, as "/v1/embeddings": at most 64, each of at most 256
  # bytes. A router sends a Forward only to a worker that names its path.

  checkpoints @47 :Bool = false;
  # A hit of this worker ends only behind a block that a `resumable` event named: it stands beside an engine whose model has
  # layers with windows or a recurrent state. To a router of before 2.10 its load says cacheUnknown.

  engine @48 :Text $text(line) $most(.maxHostBytes) $omitEmpty;
  # Program and version of the engine that the worker stands beside, for operators: "vllm 0.32.0". Empty: its own.

  role @51 :WorkerRole = both;

  cacheAbsence @49 :Text $text(line) $cut $most(.WireLimits.maxTextBytes) $omitEmpty;
  # Why it sends no cache events, and what would change that: a clause for operators. Empty where it sends them.

  host @32 :Text $text(line) $most(.maxHostBytes) $omitEmpty;
  # Name of the machine, container or pod that the worker runs in, for operators: at most 255 bytes without control
  # characters. May be empty.

  compute :group $cxx(type = "ComputeShare") {
    # The processors that a worker computes on. Zeros: not told.

    threads @34 :UInt32 = 0;
    # Threads that compute on the machine's processors. 0: it computes elsewhere, or not told.

    machine @33 :UInt64 = 0;
    # Equal for all workers of one machine, in whatever containers, and different for each start of each machine. 0: not
    # told.

    machineCores @35 :UInt32 = 0;
    # Processors of the machine. 0: not told.

    cpuGroup @36 :UInt64 = 0;
    cpuGroupCores @37 :UInt32 = 0;
    # Equal for workers of a machine that are limited to the same part of its processors, by one quota or one set of
    # processors, and how many these may use together. 0: no such limit, or not told.
  }

  transfer :group $cxx(type = "Transfer") {
    # How other workers fetch blocks from this one. Blocks travel only between workers whose `layout` and `numerics` are
    # equal.

    address @40 :Text $text(line) $most(.WireLimits.maxAddressBytes) $omitEmpty;
    # Numeric HOST:PORT that other workers dial; an IPv6 host stands in brackets. Empty: it serves no blocks.

    layout @41 :UInt64 = 0;
    # XXH3 of all that decides the bytes of a block: model fingerprint, KV dtype, layers, KV heads, head size, tokens of
    # a block, versions of the frame and of PeerMessage. 0: it serves and fetches no blocks.

    numerics @42 :UInt64 = 0;
    # Hash of the KV that the worker computes for a fixed block. Equal ones compute the same bits. Of a CUDA worker: hash
    # of its card, versions and dtype. Equal ones compute blocks that are equal up to rounding. 0: it exchanges blocks with
    # all others that tell 0, whatever bits they compute.

    secret @43 :Text $text(line) $most(.transferSecretBytes) $omitEmpty;
    # Of this process alone: with it routers make the tickets of those who may fetch from it, Hold.source.ticket. In the
    # form of common/wire/transfer_ticket.h. Empty: none; always so on a link without keys, where all on the way read it.
  }
}

struct TokenLogprobs {
  # Log probabilities at one position of a text: the log softmax in f32 of the model's logits, before biases, penalties,
  # temperature and all other steps of sampling. From -9999, which stands for all smaller values, to 0.

  logprob @0 :Float32 $least(.minLogprob) $most(0);
  # The log probability of the token at this position.

  rank @1 :UInt32 $least(1) $cxx(initial = "1");
  # Its place among all tokens: 1 is the likeliest. Among equally likely tokens the lower id comes first.

  top :group $form(columns) $cxx(type = "TokenLogprob") {
    # The likeliest tokens in that order, as many as the request asked for, at most 20.

    topTokens @2 :List(UInt32) $most(.maxTopLogprobs) $omitEmpty $cxx(name = "token");
    topLogprobs @3 :List(Float32) $least(.minLogprob) $most(0) $omitEmpty $cxx(name = "logprob");
  }
}

struct TokenEvent $check {
  # The progress of one choice of a request in one step. A request has `sampleCount` choices.

  requestId @0 :UInt64 $cxx(type = "RequestId");
  choice @9 :UInt32 = 0 $most(63);
  # The number of the output within the request: 0 to sampleCount - 1.

  tokens @1 :List(UInt32) $most(.WireLimits.maxTokensPerEvent) $cxx(type = "StepTokens");
  # In order of generation. May be empty in an event that only ends a choice or a request.

  logprobs @12 :List(TokenLogprobs) $most(.WireLimits.maxTokensPerEvent) $omitEmpty;
  # One for each of the tokens, in their order, if the request has outputLogprobs. Empty otherwise.

  promptLogprobs @13 :List(TokenLogprobs) $most(.WireLimits.maxPromptLogprobsPerEvent) $omitEmpty;
  # If the request has promptLogprobs: of the prompt's tokens from the second on, in order, in pieces of at most 4,096
  # as they are computed. The last piece comes at the latest with the request's first token, or with the end of its
  # first choice. Only in events of choice 0, with or without tokens.

  cachedTokenCount :union {
    # Prompt tokens whose KV came from the cache. Set once: in the request's first event with tokens, or in its last
    # event if it has no tokens, or if an engine of another program tells it only at the end.
    absent @2 :Void;
    count @3 :UInt32;
  }

  writtenTokenCount @14 :UInt32 = 0;
  # Prompt tokens that were computed, and whose blocks this request added to the cache. Set together with
  # cachedTokenCount, and at most the prompt's tokens without those.

  miss @15 :PromptMiss = none;
  # Set together with cachedTokenCount.

  kvTransfer @16 :Text $most(.maxKvTransferBytes) $omitEmpty;
  # The last event of a request with `part` prompt, from a worker with features.connector: a JSON object for
  # Generate.kvTransfer of the request that continues. Empty: the engine named nothing.

  queueWaitSeconds :union {
    # From receipt to the first step that computed part of the request. Set together with cachedTokenCount.
    absent @4 :Void;
    seconds @5 :Float64 $least(0);
  }

  finish :union {
    # The choice's last event; nothing follows for it. `stop` and `length` end only this choice; the request ends with
    # its last choice. `cancelled` and `error` end the request: they are sent once, for any one choice, and nothing
    # follows for this request.
    running @6 :Void;
    finished @7 :FinishReason;
  }

  stopToken :union {
    # Only with finished = stop: the token that was drawn, if the worker reports it.
    absent @10 :Void;
    token @11 :UInt32;
  }

  error @8 :Error $optional;
  # Only with finished = error.
}

struct StoredRun $named("run") {
  # Blocks that became ready, consecutive in one chain.

  firstPosition @0 :UInt32;
  # Position of hashes[0], counted in blocks from the chain's front. Its parent is already stored.

  hashes @1 :List(BlockHash) $most(.WireLimits.maxHashesPerRun);
}

struct CacheEvent $form(kinds) {
  # Receivers apply events in the order sent, stored runs front to back, and removed lists in the order given. So in the
  # receiver's view, every block's parent is present at every instant.

  union {
    stored @0 :StoredRun;
    removed @1 :List(BlockHash) $most(.WireLimits.maxHashesPerRun);
    # Each is a leaf at the time it is removed.

    resumable @2 :List(BlockHash) $most(.WireLimits.maxHashesPerRun);
    # Blocks behind which a request can go on, each stored. Only from a worker with Hello.checkpoints.

    unresumable @3 :List(BlockHash) $most(.WireLimits.maxHashesPerRun);
    # No longer so. A removed block is not resumable any more without this.

    diskStored @4 :StoredRun;
    # Blocks that the worker's disk holds now, whatever its pool holds: a second set, with the same rules.

    diskRemoved @5 :List(BlockHash) $most(.WireLimits.maxHashesPerRun);
    # Of that set.
  }
}

struct OtherPrompt $named("otherPrompts") {
  # A prompt that another router sent.

  uncachedTokens @0 :UInt32;
  # Still to be computed.

  waitedMs @1 :UInt32;
  # Since it reached the worker.

  id @2 :UInt64 = 0;
  # The worker's own id for this prompt, so that lists can be compared. 0: none.

  hashes @3 :List(BlockHash) $most(.maxOtherHashes) $omitEmpty;
  # Hashes of its whole blocks, front to back, so that prompts with the same prefix can follow it to this worker while
  # it is computed. Sent once: they hold as long as every later list of this epoch has the id. Empty otherwise, and for
  # a prompt that leaves no blocks in the cache. At most 65,536 hashes hold at one time.
}

struct OwnPrompt $named("ownPrompts") {
  # A prompt that the receiver of the report sent.

  requestId @0 :UInt64 $cxx(type = "RequestId");
  uncachedTokens @1 :UInt32;
  # Still to be computed.
}

struct Load $check {
  # The worker's state as its engine saw it after its latest step. Covers the requests of all routers.

  waitingRequests @0 :UInt32 $shown("waiting_requests");
  runningRequests @1 :UInt32 $shown("running_requests");
  queuedPrefillTokens @2 :UInt64 $most(.WireLimits.maxTokensOfAWorker) $shown("queued_prefill_tokens");
  # Prompt tokens still to be computed (not cached), of waiting and running requests. This and waitingRequests include
  # requests of other routers that the engine has not taken in yet. The receiver must add those that it has sent since.

  runningContextTokens @3 :UInt64 $most(.WireLimits.maxTokensOfAWorker);
  # Sum of the running requests' current lengths.

  freeBlockCount @4 :UInt32 $shown("free_blocks");
  # Blocks that a new request could get at once: never used, or idle in the cache.

  cachedBlockCount @5 :UInt32 $shown("cached_blocks");
  # Ready blocks.

  digest @6 :BlockHash;
  # Xor of the hashes of all ready blocks, after the events of the step that carries this. A receiver with a different
  # view asks for a snapshot. Compare only after the epoch's first snapshot is complete.

  stepPrefillTokens @7 :UInt32;
  stepDecodeTokens @8 :UInt32;
  stepSeconds @9 :Float64 $least(0);
  # The tokens and the time of the step, for fitting rates. All zero in a message without a step.

  draining @10 :Bool = false;
  # The worker finishes its requests and takes no new ones: it answers a generate with `unavailable`.

  pinnedBlockCount @11 :UInt32 = 0 $shown("pinned_blocks");
  # Ready blocks that are pinned. The worker limits them to a share of its pool.

  otherPrompts @12 :List(OtherPrompt) $most(.maxOtherPrompts);
  # The prompts in queuedPrefillTokens that came from other routers than the receiver, so that all routers see one
  # queue. At most 1,024, those that run first (a worker of this version reports 64, and new arrivals). Where there is only
  # one router: what the engine still has of an earlier life of its link.

  progress @13 :UInt64 = 0;
  # Grows with each report of the engine, also with one without a step, and with each part of a step that is done, which
  # heartbeats tell.
  # So if the worker has work and this stands still, its engine hangs.

  routerCount @14 :UInt32 = 1 $least(1) $most(.maxRouters);
  # The routers that the worker's links are up with, the receiver included: 1 to 1,024. Routers share the limits of API
  # keys by it.

  cordoned @15 :Bool = false;
  # An operator's Cordon is in force. `draining` is then set too, so that routers that do not know this field send
  # nothing either.

  cacheUnknown @16 :Bool = false;
  # The worker has lost track of its cache: the engine is another program, and events of it were lost. Go by what was
  # sent to it until this is false again, and then ask for a snapshot. Its events and its digest go on meanwhile; they
  # are of a part of the cache.

  savedPrefillSeconds @17 :Float64 = 0 $least(0) $shown("saved_prefill_seconds_total");
  # Estimated time that computing the cached prompt tokens would have taken, since the process began: what the worker
  # counts as roost_worker_saved_prefill_seconds_total.

  stepUnderWaySeconds @18 :Float64 = 0 $least(0);
  # From the begin of the step that the engine computes now to the last part of it that is done. 0: no step is under
  # way, no part of it is done, or not told. So a heartbeat tells a step that takes long from one that hangs.

  arrivingBytes @19 :UInt64 = 0 $shown("arriving_bytes");
  # Blocks that this worker has asked other workers for and that have not come yet, so that all routers see each
  # other's Holds.

  leavingBytes @20 :UInt64 = 0 $shown("leaving_bytes");
  # Blocks that other workers have asked this one for and that it has not sent yet.

  ownPrompts @21 :List(OwnPrompt) $most(.maxOtherPrompts);
  # The prompts in queuedPrefillTokens that the receiver sent and that the engine has taken in, so that it need not guess
  # which of them a step has computed. At most 1,024, those that run first (a worker of this version reports 64, with
  # those of other routers). A request of several choices may be there several times.

  engineAwayMs @22 :UInt64 = 0 $most(.maxKeepMs);
  # The engine that the worker stands beside has not been reached for so long; `draining` is set too. 0: it answers.

  engineAbsence @23 :Text $text(line) $cut $most(.WireLimits.maxTextBytes) $omitEmpty;
  # Why, for operators: a clause. Empty while the engine answers.

  resumableDigest @24 :BlockHash;
  # Xor of the hashes of all resumable blocks, as `digest` is of all ready ones.

  droppedTokens @25 :UInt32 = 0;
  # So many tokens at the end of a hit are computed again, a multiple of blockTokens: one block of an engine whose
  # speculative heads (EAGLE, MTP) read them. Learned from its answers, so it may change. 0: none.

  toldShare @26 :Float64 = 0 $least(0) $most(1) $shown("told_share");
  # While cacheUnknown: so much of what the last requests found in the engine's cache had been told of, 0 to 1. The cache
  # counts as known again once that is nearly all. 0: not told.

  tierCachedTokens @27 :UInt64 = 0 $shown("tier_cached_tokens_total");
  # Prompt tokens that the engine took from a tier behind its cache, since the process began. No event tells of these, so
  # no router expects them.

  computedPrefillSeconds @28 :Float64 = 0 $least(0) $shown("computed_prefill_seconds_total");
  # Estimated time that computing the prompt tokens that no cache had would have taken alone, since the process began: by
  # the same estimate as savedPrefillSeconds, so that both give a hit rate in time.

  diskBlockCount @29 :UInt32 = 0 $shown("disk_blocks");
  # Blocks on the worker's disk, whether or not its pool holds them too. 0: none, or no disk.

  diskDigest @30 :BlockHash;
  # Xor of the hashes of these, as `digest` is of those in the pool.

  diskBytesPerSecond @31 :Float64 = 0 $least(0) $shown("disk_bytes_per_second");
  # The learned rate of reading blocks back from the disk. 0: no disk, or it is off.

  blockBytes @32 :UInt64 = 0;
  # Of one block on the disk. Set where diskBytesPerSecond is.
}

struct Step {
  # Sent to every welcomed router after each engine step: that router's tokens, all cache events, the load. After 250 ms
  # without a step, only the load is repeated, so this is also the worker's heartbeat.

  epoch @0 :UInt64 $least(1);
  sequence @1 :UInt64 $least(1);
  tokens @2 :List(TokenEvent) $most(.WireLimits.maxListItems);
  events @3 :List(CacheEvent) $most(.WireLimits.maxListItems);
  # Empty until the epoch's first snapshot is complete.

  load @4 :Load;
}

struct Snapshot $check {
  # All ready blocks at one instant, in consecutive chunks; no other message comes between them. The first chunk empties
  # the receiver's view. Answers welcome and wantSnapshot. It does not begin a new epoch: requests go on.

  epoch @0 :UInt64 $least(1);
  sequence @1 :UInt64 $least(1);
  chunkIndex @2 :UInt32;
  # 0, 1, 2, …

  last @3 :Bool;
  # This chunk completes the view. For an empty cache, chunk 0 is also the last.

  runs @4 :List(StoredRun) $most(.WireLimits.maxSnapshotHashes);
  # Parents before children, across chunks too. At most 4,096 hashes in all runs of one chunk.

  resumable @5 :List(BlockHash) $most(.WireLimits.maxSnapshotHashes) $omitEmpty;
  # Of the blocks in this chunk and those before it, each once: those behind which a request can go on.

  diskRuns @6 :List(StoredRun) $most(.WireLimits.maxSnapshotHashes) $omitEmpty;
  # The blocks on the worker's disk, as `runs` are those of its pool: at most 4,096 hashes in the runs of both.
}

struct Tokenizer {
  # The files and texts that a router needs to turn messages into token ids. The only large message: up to 64 MiB.

  digest @0 :Text $text(label) $most(.WireLimits.maxTextBytes);
  # The same as in the hello.

  tokenizerJson @1 :Text $most(.WireLimits.maxTokenizerBytes);
  # The whole tokenizer.json of the model.

  chatTemplate @2 :Text $most(.WireLimits.maxTokenizerBytes);
  # Jinja source; empty when the model has none.

  bosToken @3 :Text $most(.WireLimits.maxTextBytes);
  eosToken @4 :Text $most(.WireLimits.maxTextBytes);
  # As text, for the template. May be empty.
}

struct Adapters {
  # The worker serves other adapters than its last message said: an engine can load and unload them while it runs.
  # Requests that it has go on.

  epoch @0 :UInt64 $least(1);
  names @1 :List(Text) $text(label) $most(.WireLimits.maxAdapterBytes) $mostEntries(.maxAdapters)
      $named("adapters");
  # All of them, as in Hello.adapters.
}

struct Bye {
  # The worker leaves now. Its unfinished requests are lost; a worker that drains finishes them first.

  epoch @0 :UInt64 $least(1);
}

struct PinAnswer {
  # The result of a Pin or an Unpin: every block in it counts once. Shows the state right after the order. An order that
  # was lost on its way gets no answer.

  answerId @0 :UInt64;
  # The id in the order.

  keptBlockCount @1 :UInt32;
  # In the cache, and pinned. After an Unpin: still pinned, because a pinned block lies behind them.

  awaitedBlockCount @2 :UInt32;
  # Not in the cache: pinned once a request has computed them.

  refusedBlockCount @3 :UInt32;
  # Not pinned, because the pins' share of the pool is full. After an Unpin: no longer pinned.
}

struct UsedPrefix $named("prefixes") $check {
  # A prefix in the cache, named by its last block: behind it, requests that used all of it diverged.

  hash @0 :BlockHash;
  # Hash of its last block.

  blockCount @1 :UInt32 $least(1);
  # At least 1.

  hits @2 :UInt64 $least(1);
  # Requests that found the last block in the cache since it was computed, with the Hold.hits that it came with. At least
  # 1.

  firstTokens @3 :List(UInt32) $most(256);
  lastTokens @4 :List(UInt32) $most(256);
  # Tokens of the first and of the last block, at most 256 each. Empty unless the request asked for tokens. firstTokens
  # is also empty for a prefix of one block, and where the front was too far away for the worker's search.

  hashes @5 :List(BlockHash) $most(.WireLimits.maxPromptHashes) $omitEmpty;
  # Hashes of all its blocks, front to back, if the request asked for hashes; the fields below have values only then. All
  # prefixes of an answer together have at most 262,144.

  root @6 :BlockHash;
  # Root hash of the scope of the blocks.

  own :group $cxx(type = "OwnScope", existing = true) $presentIf("firstBlock") {
    # As of a Generate.

    firstBlock @7 :UInt32 = 0;
    root @8 :BlockHash;
  }

  tenant @9 :Text $most(.WireLimits.maxTenantBytes) $omitEmpty;
  # The tenant that the last block belongs to, as in a Hold. Empty: none.

  ageMs @10 :UInt64 = 0 $most(.maxKeepMs);
  # Time since the last block became ready.
}

struct Prefixes $check {
  # Answers a WantPrefixes.

  answerId @0 :UInt64;
  prefixes @1 :List(UsedPrefix) $most(.maxUsedPrefixes);
  # Most used first; at most 1,000.
}

struct Forwarded {
  # A part of the answer to a Forward: its head in the first one that has a status, then its bytes, in order.

  epoch @0 :UInt64 $least(1);
  requestId @1 :UInt64 $cxx(type = "RequestId");
  status @2 :UInt32 = 0 $most(999);
  # Of the engine's answer. 0: its head was told before, or has not come yet.

  contentType @3 :Text $text(line) $cut $most(.WireLimits.maxTextBytes) $omitEmpty;
  # With a status. Empty: none.

  body @4 :Data $most(.maxForwardBytes);
  credit @5 :UInt32 = 0;
  # So many more bytes of the request's body may be sent.

  last @6 :Bool = false;
  # Nothing follows for this request.

  error @7 :Error $optional;
  # With `last`: the answer is not whole. Before a status nothing of it was told.

  promptTokens @8 :UInt32 = 0;
  # With `last`: of the request, as the answer's usage tells. 0: not told.

  cachedTokens @9 :UInt32 = 0;
  # So many of them the engine had in its cache.
}

struct EvictAnswer {
  # The result of an Evict, once it is complete: after the events that tell of the blocks.

  answerId @0 :UInt64;
  # The id of the order.

  evictedBlockCount @1 :UInt32;
  # Left the cache, and were free at once. Partly filled blocks count too.

  busyBlockCount @2 :UInt32;
  # Left the cache while requests used them: each is free when the last of these requests ends.

  outcome @3 :Bool = false $choice(type = "EvictOutcome", no = "kDone", yes = "kRefused");
  # True: the worker has too many of these orders already, and did nothing; or something is left that it can not erase.

  diskBlockCount @4 :UInt32 = 0;
  # Of the blocks named, so many are gone from the worker's disk, too.
}

struct HoldAnswer {
  # The result of a Hold: after the events that tell of the blocks. The counts are of blocks of the Hold, each in one of
  # the three.

  answerId @0 :UInt64;
  # The id of the order.

  heldBlockCount @1 :UInt32;
  # In the cache before, from the front on.

  arrivedBlockCount @2 :UInt32;
  # Fetched from the source, and in the cache now.

  missingBlockCount @3 :UInt32;
  # Neither.

  bytes @4 :UInt64;
  # That arrived, as frames.

  firstFrameMicroseconds @5 :UInt64;
  # From receipt of the Hold to the first frame. 0: none came.

  microseconds @6 :UInt64;
  # From receipt of the Hold to its end.

  outcome @7 :HoldOutcome;

  cause @8 :HoldCause = none;
  # Why, where the outcome alone does not tell.
}

# ---- router → worker ----

struct RouterMessage {
  union {
    none @0 :Void;
    # Never sent: an empty message is malformed.

    welcome @1 :Welcome;
    refused @10 :Refused;
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
    wantPrefixes @11 :WantPrefixes;
    evict @12 :Evict;
    cordon @13 :Cordon;
    hold @14 :Hold;
    forward @15 :Forward;
    forwardBody @16 :ForwardBody;
    forwardCredit @17 :ForwardCredit;
    handedOver @18 :Void;
    # To a worker that reports `draining`: by this router's orders nothing more of its cache goes to other workers. From
    # 2.11 on a router sends it once for each time, at once where there is nothing to hand over. Until then the worker
    # stays for those who read its blocks, for as long as its operator allows.
  }
}

struct Welcome {
  routerInstance @0 :UInt64;
  # Random, different in every router process. When another instance than before welcomes a worker, the worker ends the
  # requests of the earlier one.

  epoch @1 :UInt64 $least(1);
  # The epoch of the hello that this answers. A worker ignores a welcome to another epoch than its current one. Of one
  # more to the same epoch it takes `crowding`: it has changed.

  version :group $cxx(type = "PeerVersion", existing = true) {
    major @2 :UInt32 = 2;
    # The router's. A worker of another one logs an error and stays away. This field and epoch stay as they are in all
    # major versions.

    minor @3 :UInt32 = 0;
    release @4 :Text $text(line) $most(.maxReleaseBytes) $omitEmpty;
    # As in Hello.
  }

  crowding :group $cxx(type = "Crowding") {
    # So many workers of the worker's host or machine, itself included, compute with more threads than there are
    # processors for them. All 0: they fit, or not told.

    workers @5 :UInt32 = 0;
    threads @6 :UInt32 = 0;
    # All these workers' together.

    cores @7 :UInt32 = 0;
    # That they share.
  }
}

struct Refused {
  # Answers a hello that the router does not accept. The worker logs the reason, shows it at /ready, and keeps saying
  # hello.

  epoch @0 :UInt64 $least(1);
  # The epoch of the hello that this answers.

  reason @1 :Text $text(line) $cut $most(.WireLimits.maxTextBytes);
  # A clause for people. It may differ from one answer to the next.

  cause @2 :RefusalCause;
  # The kind of the reason.
}

enum RefusalCause {
  # The reason why a router does not accept a hello. By it the worker knows a refusal that it has logged, and counts.

  other @0 $unknown;
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
  bias @1 :Float32 $least(-100) $most(100) $named("logitBias");
  # Added to the token's logit before anything else: -100 to 100.
}

struct Generate $check $local(type = "std::optional<Error>", name = "refusal",
    comment = "The worker's answer, if a newer router asks for what this version does not know. Never sent.") {
  # One generation from token ids.

  requestId @0 :UInt64 $cxx(type = "RequestId");
  # Unique during this router's lifetime. A second request with the id of a running one is ignored and counted.

  prompt @1 :List(UInt32) $least(1) $most(.WireLimits.maxPromptTokens);
  # At least one token.

  root @2 :BlockHash;
  # Root hash of the scope of the request's blocks.

  blockHashes @3 :List(BlockHash) $most(.WireLimits.maxPromptHashes);
  # Hashes of the prompt's full blocks, front to back. The worker still verifies every hit against the tokens.

  sampling :group $cxx(type = "Sampling") {
    # kernels/sample.h defines the order in which these apply, worker/sample/token_counts.h what the penalties count.

    temperature @4 :Float32 $least(0) $cxx(initial = "1.0F");
    # 0: greedy.

    topP @5 :Float32 = 1 $above(0) $most(1);
    # In (0, 1].

    topK @6 :UInt32 = 0;
    # 0: no limit.

    seed @7 :UInt64;
    # Token t of the output draws random number (seed, t), whatever happened in between. Choice i uses the seed `seed` +
    # i, modulo 2^64.

    minP @21 :Float32 = 0 $least(0) $most(1) $needs("fullSampling");
    # 0 to 1: keeps only tokens whose probability is at least this share of the likeliest one's. After temperature,
    # before topK and topP. 0: no limit.

    repetitionPenalty @22 :Float32 = 1 $least(.minRepetitionPenalty) $most(.maxRepetitionPenalty)
        $needs("fullSampling");
    # 0.01 to 100. For tokens that occur in prompt or output: a logit above 0 is divided by it, any other is multiplied
    # by it. 1: none.

    presencePenalty @23 :Float32 = 0 $least(-2) $most(.maxPenalty) $needs("fullSampling");
    frequencyPenalty @24 :Float32 = 0 $least(-2) $most(.maxPenalty) $needs("fullSampling");
    # -2 to 2. Subtracted from the logits of tokens that occur in the output: presencePenalty once, frequencyPenalty
    # once per occurrence. The prompt's last firstOutputIndex tokens count as output. 0: none.

    logitBias @25 :List(LogitBias) $most(.WireLimits.maxLogitBiases) $omitEmpty $needs("fullSampling");
    # By token, each once. At most 1024.
  }

  maxOutputTokens @8 :UInt32;
  firstOutputIndex @9 :UInt32 = 0;
  # The first token drawn is number firstOutputIndex of the output. So a continued request, whose earlier output is part
  # of `prompt`, draws the same tokens as without the interruption.

  stopTokens @10 :List(UInt32) $most(.WireLimits.maxStopTokens);
  # In addition to the model's own.

  ignoreEos @11 :Bool = false;
  # The model's own stop tokens do not stop it. stopTokens still do.

  expectedCachedTokens @12 :UInt32;
  # The prediction of the router's index, for comparison with cachedTokenCount.

  deadlineMs @13 :UInt64 = 0;
  # Milliseconds from receipt after which the answer is useless. 0: none.

  own :group $cxx(type = "OwnScope", existing = true) $presentIf("firstBlock") {
    # Blocks from firstBlock on belong to the tenant alone: the hash of that block is chained from this root, not from
    # the block before it. The blocks before it belong to a prefix that all tenants share, in the scope of the request's
    # `root`. firstBlock 0: all blocks are in the scope of that `root`.

    firstBlock @33 :UInt32 = 0;
    root @34 :BlockHash;
  }

  tenant @14 :Text $most(.WireLimits.maxTenantBytes) $omitEmpty;
  # The tenant that the request belongs to, for shares of the pool: at most 200 bytes. Empty: no tenant. `root`, not
  # this, decides whose blocks a request may use.

  cacheMode @15 :CacheMode = on;
  priority @16 :UInt8 = 50 $most(.maxPriority);
  # 0 to 100. Waiting requests with a higher number go first.

  retention @17 :Retention $optional;
  # Absent: no hint.

  lifetimes @37 :List(Lifetime) $most(.maxLifetimes) $omitEmpty;
  # In addition to `retention`, the longest part last. A block has the longest of those that cover it.

  sessionHash @18 :UInt64 = 0;
  # Names the conversation of this request, only to compare. Blocks that the worker retains for the conversation's
  # return are released when its next request comes. 0: none.

  expectReturnMs @19 :UInt64 = 0 $most(.maxKeepMs);
  # The conversation returns about this long after the request's end, so its blocks are useful until then. The worker
  # limits it. 0: unknown. At most 366 days.

  sampleCount @20 :UInt32 = 1 $least(1) $most(.maxSampleCount);
  # Outputs to sample from the one prompt, whose blocks they share: 1 to 64. maxOutputTokens and firstOutputIndex apply
  # to each.

  outputLogprobs :union $needs("logprobs") {
    # Report the log probabilities of the output's tokens, and of this many of the likeliest tokens at each position: 0
    # to 20.
    absent @26 :Void;
    topCount @27 :UInt8 $most(.maxTopLogprobs);
  }

  promptLogprobs :union $needs("logprobs") {
    # The same for the prompt's tokens from the second on. The whole prompt is computed: none of its blocks comes from
    # the cache, though they may stay there for others.
    absent @28 :Void;
    topCount @29 :UInt8 $most(.maxTopLogprobs);
  }

  minOutputTokens @30 :UInt32 = 0 $needs("minOutputTokens");
  # Neither the model's own stop tokens nor stopTokens can be drawn before the output has this many tokens, including
  # those before firstOutputIndex.

  constraint @31 :Constraint $optional $needs("constrainsOutput");
  # Absent: none.

  traceParent @32 :Text $most(55);
  # The trace of the request, in the form of the W3C's header traceparent; only for logs. May be empty. At most 55
  # bytes.

  adapter @35 :Text $text(line) $most(.WireLimits.maxAdapterBytes) $omitEmpty;
  # The LoRA adapter that the tokens are computed with, one of Hello.adapters. Empty: the model alone. `root` covers it.

  part @36 :RequestPart = whole;

  kvTransfer @38 :Text $most(.maxKvTransferBytes) $omitEmpty;
  # TokenEvent.kvTransfer of the attempt that computed this prompt: where the engine's connector finds its blocks. Only for
  # a worker with features.connector.
}

struct Cancel {
  requestId @0 :UInt64 $cxx(type = "RequestId");
  # Unknown ids are ignored, because the request may just have ended.
}

struct Ping {
  generateDigest :union {
    # For the generates that the router sent before this in the running epoch: the xor of their ids, each put through
    # the finaliser of SplitMix64, because consecutive ids would cancel out.
    absent @0 :Void;
    digest @1 :UInt64;
  }

  sole @2 :Bool;
  # No other worker of its revision takes requests at this router, so nobody can continue what it has begun: when it is
  # stopped it lets its answers end.
}

struct Pin {
  # Keeps a prefix: its blocks are not evicted while the pin holds. A block that is not ready yet is pinned when it
  # becomes ready. Pins belong to the worker, not to the link: they outlive the router that asked, and a second pin of a
  # block, by any router, replaces its end time. Over the worker's limit for pinned blocks, the end of the prefix stays
  # unpinned. Load.pinnedBlockCount is the total.

  root @0 :BlockHash;
  # Root hash of the scope of the blocks.

  hashes @1 :List(BlockHash) $least(1) $most(.WireLimits.maxPromptHashes);
  # Hashes of the prefix's full blocks, front to back. At least one.

  durationMs @2 :UInt64 = 0 $most(.maxKeepMs);
  # From receipt. 0: until unpinned. At most 366 days.

  answerId @3 :UInt64 = 0;
  # Not 0: the worker answers with a PinAnswer with this id.
}

struct Unpin {
  # Removes the pins of these blocks. The blocks stay in the cache until their space is needed. Blocks without a pin are
  # ignored.

  root @0 :BlockHash;
  hashes @1 :List(BlockHash) $least(1) $most(.WireLimits.maxPromptHashes);
  # At least one.

  answerId @2 :UInt64 = 0;
  # As in Pin.
}

struct WantPrefixes {
  # Asks which prefixes requests hit most often. The worker's engine scans all its blocks for the answer.

  answerId @0 :UInt64 $least(1);
  # Not 0.

  most @1 :UInt32 $least(1) $most(.maxUsedPrefixes);
  # The most prefixes in the answer: 1 to 1,000.

  tokens @2 :Bool = false $choice(type = "PrefixTokens", no = "kOmit", yes = "kTell");
  # True: with the tokens of their first and last blocks.

  withHashes @3 :Bool = false $choice(type = "PrefixHashes", no = "kOmit", yes = "kTell");
  # True: with the hashes of all their blocks and what else a Hold of them needs. Workers of before 2.11 tell none.
}

struct Evict {
  # Erase a prompt, a block, or all of a tenant, from the cache. It is stronger than pins: those of the erased blocks
  # end. Requests that the worker has at that time, running or waiting, go on but leave none of it in the cache, also
  # after a preemption. Requests that come later are cached as ever. The worker does it in parts, a bounded number of
  # blocks in each step, and answers when it is complete.

  what :union {
    prompt :group $cxx(type = "PromptToEvict") $check {
      # The prompt's last full block and all that continues it; then, towards the front, its earlier blocks as long as
      # nothing else in the cache continues them. If the last full block is not in the cache, the blocks that are there
      # go in the same way, with partly filled ones that hold nothing else. For a prompt without a full block, all that
      # begins with it.

      root @1 :BlockHash;
      tokens @2 :List(UInt32) $least(1) $most(.WireLimits.maxPromptTokens);
      # At least one.

      blockHashes @3 :List(BlockHash) $most(.WireLimits.maxPromptHashes);
      # Hashes of the prompt's full blocks, front to back.

      own :group $cxx(type = "OwnScope", existing = true) $presentIf("firstBlock") {
        # As of a Generate.

        firstBlock @5 :UInt32 = 0;
        root @6 :BlockHash;
      }
    }

    tenant :group $cxx(type = "TenantToEvict") {
      # All blocks that requests of this tenant (Generate.tenant) computed for it alone, with all that continues them.
      # At most 200 bytes.

      tenant @4 :Text $most(.WireLimits.maxTenantBytes);
    }

    block :group $cxx(type = "BlockToEvict") {
      # The full block with this hash and all that continues it; then, towards the front, the blocks before it as long
      # as nothing else in the cache continues them. Only to a worker with Hello.features.evictsBlocks.

      hash @7 :BlockHash;
    }
  }

  answerId @0 :UInt64;
  # Not 0: the worker answers with an EvictAnswer of this id, once.
}

struct Cordon {
  # An operator takes the worker out of service, or puts it back. A cordoned worker answers a generate with
  # `unavailable`; what it has, running or waiting, it finishes, and its cache stays. This belongs to the worker, not to
  # the link: the worker tells every router in its load reports, at once and after each new hello, and it outlives the
  # router that asked. It ends with the worker's process. The report with the wanted Load.cordoned is the answer.

  inForce @0 :Bool = true;
  # False: the worker takes requests again, unless it drains because it is about to leave.
}

struct Hold $check {
  # The worker shall hold these blocks: it fetches from the source what it lacks, front to back, beginning as soon as it
  # reads this. A block is in the cache, and told in a stored event, once it has arrived and the blocks before it are
  # there. What does not arrive is computed by the request that needs it, as ever. A second Hold for the same blocks
  # joins the first. Only to a worker with Hello.features.holds.

  answerId @0 :UInt64 $least(1);
  # Not 0: the worker answers with a HoldAnswer of this id, once.

  root @1 :BlockHash;
  # Root hash of the scope of the blocks.

  parent @2 :BlockHash;
  # Hash of the block before the first of `hashes`, which the worker holds already. If firstPosition is 0: `root`.

  firstPosition @3 :UInt32;
  # Position of hashes[0] in the prompt, counted in blocks. With all hashes at most maxPromptHashes.

  hashes @4 :List(BlockHash) $least(1) $most(.WireLimits.maxHeldHashes);
  # Hashes of the blocks, front to back. At least one.

  own :group $cxx(type = "OwnScope", existing = true) $presentIf("firstBlock") {
    # As of a Generate: the hash of the block at position firstBlock is chained from this root, not from the block
    # before it.

    firstBlock @5 :UInt32 = 0;
    root @6 :BlockHash;
  }

  tenant @7 :Text $most(.WireLimits.maxTenantBytes) $omitEmpty;
  # The tenant that the blocks belong to, as in a Generate. Empty: none.

  purpose @8 :HoldPurpose = request;

  patienceMs @9 :UInt64 $least(1) $most(.maxHoldMs);
  # From receipt, at most 10 minutes. What has not arrived by then is missing.

  source :group $cxx(type = "HoldSource") {
    # The worker that holds the blocks.

    workerId @10 :Text $text(label) $most(.WireLimits.maxWorkerIdBytes);
    # The name that it must tell in the handshake.

    address @11 :Text $text(line) $most(.WireLimits.maxAddressBytes);
    # Its Hello.transfer.address.

    follow @14 :Bool = false;
    # It is computing the blocks: they come as they are done, within patienceMs. Such a Hold needs no request here until then.
    # Only between workers that both have Hello.features.follows.

    ticket @12 :Text $text(line) $most(.transferTicketBytes) $omitEmpty;
    # Shows the source that a router sends this worker, and is the key of what travels: made from the source's
    # Hello.transfer.secret, for this worker's name. In the form of common/wire/transfer_ticket.h. Empty: the source told
    # no secret, and blocks travel in the clear.
  }

  hits @13 :UInt32 = 0;
  # Requests in an hour that find the blocks where they are. Those that arrive count as found so often, so that they are
  # kept, and handed over again, like blocks that were computed here. 0: not told.
}

struct Forward {
  # A request that the worker hands on to its engine as it is. It is answered with Forwarded messages; a Cancel ends it. Its
  # body comes in this message and in ForwardBody messages. Only to a worker whose Hello.routes has its path.

  requestId @0 :UInt64 $cxx(type = "RequestId");
  # As of a Generate, and never the same as one's.

  path @1 :Text $text(line) $most(.maxRouteBytes);
  contentType @2 :Text $text(line) $most(.WireLimits.maxTextBytes);
  # The client's header. Empty: none.

  accept @3 :Text $text(line) $most(.WireLimits.maxTextBytes) $omitEmpty;
  # The same.

  bodyBytes @4 :UInt64;
  # Of the whole body.

  body @5 :Data $most(.maxForwardBytes);
  # Its first bytes.

  deadlineMs @6 :UInt64 = 0;
  # As of a Generate.

  traceParent @7 :Text $most(55);
  # As of a Generate.

  model @8 :Text $text(line) $most(.WireLimits.maxTextBytes) $omitEmpty;
  # The model's or the adapter's name, where the body names it. Empty: it names none.

  modelBegin @9 :UInt64 = 0;
  modelEnd @10 :UInt64 = 0;
  # Where the body names it, maybe by another name, without quotes: the worker puts there the name by which its engine knows
  # it.
}

struct ForwardBody {
  # The next bytes of a Forward's body. The router sends at most forwardCredit bytes, and what Forwarded.credit adds to them.

  requestId @0 :UInt64 $cxx(type = "RequestId");
  # Unknown ids are ignored, because the request may just have ended.

  body @1 :Data $most(.maxForwardBytes);
}

struct ForwardCredit {
  # The worker sends at most forwardCredit bytes of an answer, and what these add to them.

  requestId @0 :UInt64 $cxx(type = "RequestId");
  # As in ForwardBody.

  bytes @1 :UInt32;
  # More.
}

# ---- between two workers ----
#
#   consumer, which has dialled                    source
#     │ ── hello ──────────────────────────────────► │
#     │ ◄──────────────────── peerWelcome or refused │  refused: the connection ends
#     │ ── fetch ──────────────────────────────────► │
#     │ ◄─────────────────── a frame for each block │  worker/transfer/frame.h
#     │ ── peerCancel (at any time) ───────────────► │
#     │ ◄────────────────────────────────────── end │  then the next fetch
#
# On a TCP connection: worker/transfer/peer_messages.h. Anything else ends it.

const peerMessageVersion :UInt32 = 2;
# Of these messages. Workers of two versions tell different layouts, so that no router lets them meet.

struct PeerMessage {
  union {
    hello @0 :PeerHello;
    peerWelcome @1 :Void;
    # The source serves this consumer.

    refused @2 :PeerRefused;
    fetch @3 :PeerFetch;
    peerWaiting @4 :Void;
    # The next block of a followed fetch is not there yet; each half second until it is.

    end @5 :PeerEnd;
  }
}

struct PeerHello {
  version @0 :UInt32;
  # peerMessageVersion. Another one is refused.

  layout :group $cxx(type = "PeerLayout") {
    # As in the hellos to routers. Others than the source's are refused.

    layout @1 :UInt64;
    numerics @2 :UInt64;
  }

  source @3 :Text $text(label) $most(.WireLimits.maxWorkerIdBytes);
  # The worker that the consumer wants to reach. Another one refuses it.
}

struct PeerRefused {
  cause @0 :FetchRefusal;
}

enum FetchRefusal {
  # Why a source serves no consumer; a label of roost_worker_transfer_refused_total.

  busy @0;
  layout @1;
  numerics @2;
  handshake @3 $unknown;
  # No hello, one of another version, or for another worker.

  ticket @4;
  # Only counted: a consumer without a ticket is told nothing but that its handshake failed.
}

struct PeerFetch {
  tenant @0 :UInt64;
  # Whose blocks: TenantHash of worker/transfer/frame.h. 0: no tenant's.

  hashes @1 :List(BlockHash) $least(1) $most(.WireLimits.maxHeldHashes);
  # The blocks, front to back. They come in this order.

  followMs @2 :UInt64 = 0 $most(.maxHoldMs);
  # So long the source waits for blocks that it does not hold yet: it is computing them. 0: what it lacks is missing at once.
}

struct PeerEnd {
  outcome @0 :HoldOutcome;
  # complete: all blocks were sent. missing: the next one is not there. busy: the source serves as many fetches as it
  # can. cancelled: as the consumer wanted. Any other counts as broken.
}
