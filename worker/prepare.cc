#include "worker/prepare.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/byte_size.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/cpu_limit.h"
#include "common/base/log.h"
#include "common/base/memory_limit.h"
#include "common/base/result.h"
#include "common/text/tokenizer.h"
#include "common/wire/gate.h"
#include "worker/adapters/host/adapter_host.h"
#include "worker/backend/choose_backend.h"
#include "worker/compute_threads.h"
#include "worker/model/load_model.h"
#include "worker/model/loading/fingerprint.h"
#include "worker/model/loading/generation_config.h"
#include "worker/model/loading/model_text.h"
#include "worker/options.h"
#include "worker/worker.h"
#include "worker/worker_name.h"

namespace roost::worker {
namespace {

void AddStopToken(std::optional<TokenId> token, std::string_view source, ModelText& text) {
  if (!token || *token >= text.vocab_size) return;
  if (std::find(text.stop_tokens.begin(), text.stop_tokens.end(), *token) != text.stop_tokens.end()) return;
  text.stop_tokens.push_back(*token);
  LogInfo("another token ends answers", {{"token", *token}, {"told_by", std::string(source)}});
}

}  // namespace

std::optional<TokenId> TurnEndOf(const ModelText& text, const Tokenizer& tokenizer, const ChatTemplate& chat_template) {
  if (chat_template.family().tools == ToolFamily::kHarmony) return std::nullopt;
  std::string behind = TextBehindAnswer(chat_template, text.bos_token, text.eos_token);
  behind.erase(0, behind.find_first_not_of(" \n"));
  if (behind.empty()) return std::nullopt;
  const Result<std::vector<TokenId>> tokens = tokenizer.Encode(behind, SpecialTokens::kOmit);
  if (!tokens.ok() || tokens->empty() || !tokenizer.IsAdded(tokens->front())) return std::nullopt;
  return tokens->front();
}

Result<std::shared_ptr<const Tokenizer>> CompleteText(ModelText& text, const std::string& model) {
  const std::filesystem::path folder(model);
  ROOST_ASSIGN_OR_RETURN(std::shared_ptr<const Tokenizer> tokenizer,
                         Tokenizer::FromJson(text.tokenizer_json, (folder / "tokenizer.json").string()));
  if (!text.eos_token.empty()) AddStopToken(tokenizer->IdOf(text.eos_token), "tokenizer_config.json", text);
  if (text.chat_template.empty()) return tokenizer;
  ROOST_ASSIGN_OR_RETURN(const std::shared_ptr<const ChatTemplate> chat_template,
                         ChatTemplate::Parse(text.chat_template, (folder / "chat_template").string()));
  AddStopToken(TurnEndOf(text, *tokenizer, *chat_template), "the chat template", text);
  for (const std::string& loss : LossesOf(chat_template->traits(), chat_template->family()))
    LogInfo("the chat template " + loss);
  return tokenizer;
}

namespace {

// Beside another engine it tells more.
std::string OwnCacheAbsence(const WorkerOptions& options) {
  if (options.cache_events == "off") return "cache events are off: start it with --cache-events on";
  if (options.prefix_cache == "off") return "its prefix cache is off: start it with --prefix-cache on";
  return "";
}

// The parser has checked the choices.
wire::WorkerRole RoleOf(std::string_view role) {
  const auto found = std::find(wire::kWorkerRoleNames.begin(), wire::kWorkerRoleNames.end(), role);
  return static_cast<wire::WorkerRole>(found - wire::kWorkerRoleNames.begin());
}

}  // namespace

void FillIn(const WorkerOptions& options, ModelText text, WorkerSetup& setup) {
  setup.hello.version.release = Version();
  setup.build = {.version = Version(), .revision = Revision()};
  setup.transfer_numerics = options.transfer_numerics;
  if (options.transfer_numerics == "any") setup.transfer_numerics += ": answers may differ in their bits";
  setup.hello.worker_id = options.worker_id;
  setup.hello.host = HostName();
  setup.hello.role = RoleOf(options.role);
  setup.hello.sends_cache_events = options.cache_events == "on";
  setup.hello.keeps_prefixes = options.prefix_cache == "on";
  setup.hello.cache_absence = OwnCacheAbsence(options);
  setup.hello.model = options.served_model_name;
  if (setup.hello.model.empty()) setup.hello.model = std::move(text.name);
  setup.hello.sampling = text.sampling;
  setup.tokenizer.tokenizer_json = std::move(text.tokenizer_json);
  setup.tokenizer.chat_template = std::move(text.chat_template);
  setup.tokenizer.bos_token = std::move(text.bos_token);
  setup.tokenizer.eos_token = std::move(text.eos_token);
  setup.routers = options.routers;
  if (!options.link_secret_key.empty()) {
    setup.link_keys = LinkKeyFiles{options.link_secret_key, options.link_peers};
  }
  setup.listener = ListenerOf(options);
  setup.otlp_endpoint = options.otlp_endpoint;
  setup.stall_timeout = FromSeconds(options.stall_timeout_seconds);
}

namespace {

// Prepares a worker that stands beside another program's engine.

// The time that another engine has to answer when its worker starts: it may have to load a large model. Kubernetes'
// probe in deploy/ gives the pod a minute more.
inline constexpr Duration kEngineStart = std::chrono::minutes(29);

Result<adapters::EngineAddress> AddressOf(const WorkerOptions& options) {
  adapters::EngineAddress address;
  address.http.base_url = options.engine_url;
  if (!options.engine_key_file.empty()) {
    ROOST_ASSIGN_OR_RETURN(address.http.bearer_key, adapters::ReadBearerKey(options.engine_key_file));
  }
  if (options.cache_events == "off") {
    address.events_absence = OwnCacheAbsence(options);
  } else if (options.engine_events.empty()) {
    address.events_absence =
        "no events of its cache are asked for: start the engine with events and give their address in --engine-events";
  } else {
    address.events_endpoint = options.engine_events;
    address.replay_endpoint = options.engine_replay;
  }
  return address;
}

adapters::AdapterOptions AdapterOptionsOf(const WorkerOptions& options) {
  adapters::AdapterOptions adapter;
  if (options.max_running_requests > 0) adapter.max_running_requests = options.max_running_requests;
  // Such servers run few at a time and do not tell: more wait there, while another has a place.
  constexpr std::uint32_t kFew = 4;
  const bool takes_tokens = adapters::EngineProtocolOf(options.engine)->takes_tokens();
  if (options.max_running_requests == 0 && !takes_tokens) adapter.max_running_requests = kFew;
  adapter.max_waiting_requests = options.max_waiting_requests;
  adapter.has_connector = options.role != "both";
  adapter.times.silence = FromSeconds(options.engine_timeout_seconds);
  return adapter;
}

std::string KvDTypeOf(const WorkerOptions& options) {
  return options.compute_dtype == "auto" ? "bf16" : options.compute_dtype;
}

// Clients that called the engine find the model under the names that it has there, and under its folder's, unless that
// names a snapshot.
void NameAsEngine(const adapters::EngineFacts& facts, wire::Hello& hello) {
  constexpr std::size_t kCommitDigits = 40;
  const std::string folder = std::exchange(hello.model, facts.model);
  hello.aliases.assign(facts.aliases.begin(), facts.aliases.end());
  const bool is_snapshot =
      folder.size() == kCommitDigits && folder.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (folder.empty() || is_snapshot || folder == facts.model || facts.aliases.contains(folder)) return;
  hello.aliases.push_back(folder);
}

// The model as routers are to know it. Beside an engine it need not be readable: what the engine serves is served.
struct AdapterModel {
  DescribedModel described;  // empty where it can not be read
  std::shared_ptr<const Tokenizer> tokenizer = nullptr;
  std::string absence = {};  // why
};

// The template that the engine renders with, where it tells and the user has not chosen one of the files'; else empty.
Result<std::string> TemplateOf(const WorkerOptions& options, const adapters::EngineFacts& facts) {
  if (!options.chat_template.empty() || facts.chat_template.empty()) return std::string();
  if (facts.chat_template.size() + facts.tool_template.size() > kMaxChatTemplateBytes) {
    return InvalidArgument("chat-template", "the server's has more than {} bytes", kMaxChatTemplateBytes);
  }
  if (facts.chat_template.find('{') == std::string::npos) {
    return InvalidArgument("chat-template", "the server renders with '{}', which it has built in", facts.chat_template);
  }
  std::vector<NamedTemplate> templates{{"default", facts.chat_template}};
  if (!facts.tool_template.empty()) templates.push_back({"tool_use", facts.tool_template});
  return CombineTemplates(templates, {});
}

Result<AdapterModel> ReadModel(const WorkerOptions& options, const adapters::EngineFacts& facts) {
  if (options.model.empty()) return InvalidArgument("model", "is not given");
  ROOST_ASSIGN_OR_RETURN(const std::filesystem::path folder, FindModelFolder(options.model));
  const auto covers = options.fingerprint == "weights" ? FingerprintOf::kWeights : FingerprintOf::kText;
  AdapterModel model;
  ROOST_ASSIGN_OR_RETURN(const std::string source, TemplateOf(options, facts));
  ROOST_ASSIGN_OR_RETURN(model.described,
                         DescribeModel(folder, covers, {.name = options.chat_template, .source = source}));
  ROOST_ASSIGN_OR_RETURN(model.tokenizer, CompleteText(model.described.text, folder.string()));
  return model;
}

// An error where a flag asks for what only the folder has.
Result<AdapterModel> ReadModelIfPossible(const adapters::EngineProtocol& protocol, const WorkerOptions& options,
                                         const adapters::EngineFacts& facts) {
  if (!protocol.takes_tokens()) {
    return AdapterModel{.described = {},
                        .absence =
                            "the server takes no tokens and tells nothing of its cache: routers go by the texts that "
                            "they sent there"};
  }
  Result<AdapterModel> model = ReadModel(options, facts);
  if (model.ok()) return model;
  if (options.fingerprint == "weights" || !options.chat_template.empty()) return model.error();
  return AdapterModel{.described = {},
                      .absence = fmt::format(
                          "prompts can not be read ({}): give --model the model's folder, with a tokenizer.json that "
                          "Roost reads",
                          model.error().ToString())};
}

// Servers with several models in common need not have all of them: one name makes a fleet of them.
std::string FingerprintOfUnread(const WorkerOptions& options, const adapters::ConnectedEngine& engine,
                                const std::string& model) {
  const adapters::EngineFacts& facts = engine.facts;
  if (!engine.protocol->takes_tokens()) return EngineFingerprint(options.engine, "", std::array{model});
  std::vector<std::string> names{facts.model};
  names.insert(names.end(), facts.aliases.begin(), facts.aliases.end());
  return EngineFingerprint(options.engine, facts.version, names);
}

// Held for this process. None where no slots are saved.
Result<std::optional<adapters::SlotDirectory>> TakeSlotDirectory(const WorkerOptions& options) {
  if (options.slot_directory.empty()) return std::optional<adapters::SlotDirectory>();
  Result<DiskFolder> folder = DiskFolder::Take(options.slot_directory, options.slot_bytes);
  if (!folder.ok()) {
    const bool is_about_bytes = folder.error().field.ends_with("-bytes");
    return Error{folder.error().code, folder.error().message, is_about_bytes ? "slot-bytes" : "slot-directory"};
  }
  return std::optional(adapters::SlotDirectory{.folder = options.slot_directory,
                                               .bytes = options.slot_bytes,
                                               .save_after = FromSeconds(options.slot_save_after),
                                               .model = {},
                                               .hold = std::make_shared<DiskFolder>(*std::move(folder))});
}

// The worker of a rank; of the only one it has the process's name.
WorkerSetup AdapterSetupOf(const WorkerOptions& options, const AdapterModel& model, adapters::ConnectedEngine engine) {
  WorkerSetup setup;
  setup.transfer_absence = options.transfer == "off" ? "off" : "off: blocks of another engine stay there";
  setup.hello.fingerprint = model.described.fingerprint;
  setup.hello.kv_dtype = KvDTypeOf(options);
  FillIn(options, model.described.text, setup);
  if (engine.facts.rank) setup.hello.worker_id += fmt::format("/{}", engine.facts.rank->number);
  if (options.served_model_name.empty()) NameAsEngine(engine.facts, setup.hello);
  if (!model.absence.empty()) setup.hello.fingerprint = FingerprintOfUnread(options, engine, setup.hello.model);
  // Made once; a std::function must be one that could be copied.
  const auto connected = std::make_shared<adapters::ConnectedEngine>(std::move(engine));
  setup.make_other = [connected](const EngineSurroundings& surroundings) {
    return std::make_unique<adapters::AdapterWorker>(std::move(*connected), surroundings);
  };
  return setup;
}

// For options.engine other than kOwnEngine: waits until the engine answers, at most for kEngineStart.
[[nodiscard]] Result<std::vector<WorkerSetup>> PrepareAdapters(const WorkerOptions& given) {
  WorkerOptions options = given;
  const adapters::EngineProtocol* const protocol = adapters::EngineProtocolOf(options.engine);
  ROOST_CHECK(protocol != nullptr, "--engine {}", options.engine);  // the parser has checked the choices
  ROOST_ASSIGN_OR_RETURN(adapters::EngineAddress address, AddressOf(options));
  ROOST_ASSIGN_OR_RETURN(std::optional<adapters::SlotDirectory> slots, TakeSlotDirectory(options));
  adapters::EngineFacts facts;
  if (protocol->takes_tokens() && (given.model.empty() || protocol->tells_template())) {
    ROOST_ASSIGN_OR_RETURN(facts, adapters::AwaitEngine(*protocol, address.http, SteadyClock(), kEngineStart));
    // A server on this host tells which file it has read.
    if (given.model.empty()) options.model = facts.model_file;
  }
  ROOST_ASSIGN_OR_RETURN(AdapterModel model, ReadModelIfPossible(*protocol, options, facts));
  if (!model.absence.empty() && !options.model.empty()) {
    // The engine may fetch the model itself: then it is there once the engine serves.
    LogInfo("the model can not be read yet", {{"reason", model.absence}});
    ROOST_RETURN_IF_ERROR(adapters::AwaitEngine(*protocol, address.http, SteadyClock(), kEngineStart));
    ROOST_ASSIGN_OR_RETURN(model, ReadModelIfPossible(*protocol, options, facts));
  }
  if (!model.absence.empty()) address = {.http = std::move(address.http), .prompts_absence = model.absence};
  if (slots) slots->model = options.model;
  address.slots = std::move(slots);
  PrefixScope scope;
  scope.fingerprint = model.described.fingerprint;
  scope.kv_dtype = KvDTypeOf(options);
  adapters::AdapterOptions adapter = AdapterOptionsOf(options);
  adapter.expects_groups = model.described.has_layer_groups;
  adapter.window = model.described.window;
  adapter.tokenizer = model.tokenizer;
  ROOST_ASSIGN_OR_RETURN(
      std::vector<adapters::ConnectedEngine> engines,
      adapters::ConnectEngine(*protocol, address, adapter, std::move(scope), SteadyClock(), kEngineStart));
  std::vector<WorkerSetup> setups;
  setups.reserve(engines.size());
  for (adapters::ConnectedEngine& engine : engines) {
    setups.push_back(AdapterSetupOf(options, model, std::move(engine)));
  }
  return setups;
}

// The memory of steps and recordings is counted before this share is taken. The rest is for larger steps.
constexpr double kDeviceKvShare = 0.9;
// On the CPU when memory is short: the weights and the rest of the process need the other half.
constexpr std::uint64_t kHostKvPart = 2;

// The program, its threads, a tokenizer, and the activations of a small model's steps.
constexpr std::uint64_t kProcessBytes = std::uint64_t{64} << 20U;

// Logs what was found and chosen before it reads the weights, which may take minutes.
Result<BackendChoice> TakeBackend(const WorkerOptions& options) {
  BackendRequest request{
      .device = options.device, .rank_count = options.tensor_parallel, .cuda_module = options.cuda_module};
  ROOST_ASSIGN_OR_RETURN(request.kind, ParseBackendKind(options.backend));
  ROOST_ASSIGN_OR_RETURN(BackendChoice choice, ChooseBackend(request));
  if (choice.cuda.empty()) {
    LogInfo("compute device", {{"device", choice.device}});
  } else {
    LogInfo("compute device", {{"device", choice.device}, {"gpus", choice.cuda}});
  }
  return choice;
}

DeviceKind KindOf(const kernels::OpTable& ops) {
  return &ops == &kernels::CpuOps() ? DeviceKind::kCpu : DeviceKind::kCuda;
}

Result<ModelOptions> ModelOptionsOf(const WorkerOptions& options) {
  ModelOptions model;
  ROOST_ASSIGN_OR_RETURN(const BackendChoice backend, TakeBackend(options));
  model.ops = backend.ops;
  model.device_ordinals = backend.ordinals;
  ROOST_ASSIGN_OR_RETURN(model.compute_dtype, ParseComputeDType(options.compute_dtype));
  model.thread_count = options.threads;
  model.chat_template_name = options.chat_template;
  model.block_tokens = options.block_tokens;
  if (options.kv_blocks > 0) model.block_count = options.kv_blocks;
  ROOST_ASSIGN_OR_RETURN(const KvMemory kv_memory, ParseKvMemory(options.kv_memory));
  model.kv_share = kv_memory.share;
  if (kv_memory.bytes) {
    model.kv_bytes = *kv_memory.bytes;
  } else if (!kv_memory.share && KindOf(*backend.ops) == DeviceKind::kCuda) {
    model.kv_share = kDeviceKvShare;
  }
  if (KindOf(*backend.ops) == DeviceKind::kCpu) {
    ROOST_ASSIGN_OR_RETURN(model.memory_limit_bytes, MemoryBesideProcess(AvailableMemoryBytes()));
    if (!kv_memory.bytes) model.kv_bytes = std::min(model.kv_bytes, *model.memory_limit_bytes / kHostKvPart);
  }
  if (options.max_context_tokens > 0) model.max_context_tokens = options.max_context_tokens;
  model.step_bounds = StepBoundsOf(options, KindOf(*backend.ops));
  return model;
}

void PrepareGrammar(const Tokenizer& tokenizer, const EngineOptions& engine, std::unique_ptr<JobServer> compiler,
                    WorkerSetup& setup) {
  if (!HasGrammarLibrary()) {
    LogInfo("output can not be constrained", {{"reason", "built without xgrammar"}});
  } else {
    setup.own.grammar_library =
        OpenGrammarLibrary(TokenTextsOf(tokenizer, setup.own.model->shape().vocab_size, engine.stop_tokens),
                           std::move(compiler), {.clock_time = setup.own.grammar.wait_limit});
  }
}

bool PlansAhead(const WorkerOptions& options, const kernels::OpTable& ops) {
  if (options.plan_ahead != "auto") return options.plan_ahead == "on";
  return KindOf(ops) == DeviceKind::kCuda && options.verify_hits == 0;
}

Result<EngineOptions> EngineOptionsOf(const WorkerOptions& options, const kernels::OpTable& ops) {
  EngineOptions engine;
  const StepBounds steps = StepBoundsOf(options, KindOf(ops));
  engine.max_batch_tokens = steps.token_count;
  engine.max_running_requests = steps.request_count;
  engine.max_waiting_requests = options.max_waiting_requests;
  engine.eviction = options.eviction;
  engine.pinned_share_limit = options.pin_limit;
  engine.min_hold = std::chrono::milliseconds(options.min_hold_ms);
  ROOST_ASSIGN_OR_RETURN(engine.tenant_shares, ParseTenantShares(options.tenant_share));
  engine.verify_hits_share = options.verify_hits;
  engine.check_invariants = options.check_invariants;
  engine.plan_ahead = PlansAhead(options, ops);
  ROOST_ASSIGN_OR_RETURN(engine.schedule_policy, ParseSchedulePolicy(options.schedule));
  engine.short_step_tokens = kDefaultShortStepTokens;
  if (options.first_token_target_ms > 0) {
    engine.first_token_target = std::chrono::milliseconds(options.first_token_target_ms);
  }
  if (options.max_queue_wait_ms > 0) engine.max_queue_wait = std::chrono::milliseconds(options.max_queue_wait_ms);
  return engine;
}

// Null where the CPU does not compute.
std::shared_ptr<ComputeThreads> ComputeThreadsOf(const WorkerOptions& options, ModelOptions& model) {
  if (KindOf(*model.ops) != DeviceKind::kCpu) return nullptr;
  auto threads = std::make_shared<ComputeThreads>(options.threads);
  if (options.threads_vary) {
    model.on_threads = [threads](std::uint32_t in_use) { threads->OnChange(in_use, SteadyClock().Now()); };
  }
  return threads;
}

// Without threads a device computes.
wire::ComputeShare ComputeShareOf(std::uint32_t threads) {
  const SharedCpus shared = ReadSharedCpus();
  return {.threads = threads,
          .machine = shared.machine,
          .machine_cores = shared.machine_cores,
          .cpu_group = shared.group,
          .cpu_group_cores = shared.group_cores};
}

// Why blocks stay at this worker; empty: they travel.
std::string TransferAbsence(const WorkerOptions& options) {
  if (options.transfer == "off") return "off";
  if (options.prefix_cache == "off") return "off: the prefix cache is off";
  if (options.cache_events == "off") return "off: cache events are off";
  if (options.transfer_pulls + options.transfer_readers == 0) return "off: neither pulls nor readers";
  return "";
}

TransferAccess TransferAccessOf(const WorkerOptions& options) {
  if (!options.link_secret_key.empty()) return TransferAccess::kTicketsOnly;
  return options.insecure_bind ? TransferAccess::kAnywhere : TransferAccess::kLoopback;
}

// Listens before the model is read: an address that can not be bound stops the start at once.
Result<TransferSetup> ListenForWorkers(const WorkerOptions& options) {
  TransferSetup transfer{.worker_id = options.worker_id,
                         .access = TransferAccessOf(options),
                         .pull_count = options.transfer_pulls,
                         .reader_count = options.transfer_readers};
  if (transfer.reader_count == 0) return transfer;
  ROOST_ASSIGN_OR_RETURN(TransferPlace place, PlaceOfTransfer(options));
  transfer.address = std::move(place.address);
  transfer.advertised = std::move(place.advertised);
  Result<wire::Descriptor> listener = wire::Listen(transfer.address);
  if (!listener.ok()) {
    const Error& error = listener.error();
    return Error{error.code, options.transfer_address + ": " + error.message, "transfer-address"};
  }
  transfer.listener = std::move(listener).value();
  return transfer;
}

// Has the memory for blocks on their way counted when the model is loaded: on the CPU beside weights and KV, on CUDA,
// where it is pinned, alone.
void CountTransferMemory(const WorkerOptions& options, TransferSetup& transfer, ModelOptions& model) {
  model.frames = [&, limit = model.memory_limit_bytes](std::uint64_t data_bytes) -> Result<FrameRoom> {
    const FrameSizes sizes{.block_tokens = options.block_tokens, .data_bytes = data_bytes};
    const std::uint64_t available = limit ? *limit : AvailableMemoryBytes();
    ROOST_ASSIGN_OR_RETURN(transfer.frame_count, FrameCountOf(sizes, options.transfer_bytes, available));
    const std::size_t disk_frames = options.disk_cache.empty() ? 0 : kDiskFrames + 1;
    const FrameRoom room{
        .count = FrameCountOf(transfer) + disk_frames, .head_bytes = sizes.data_offset(), .tail_bytes = kFrameSumBytes};
    const std::uint64_t bytes = room.count * sizes.frame_bytes();
    if (limit || bytes <= available) return room;
    return InvalidArgument("transfer-memory",
                           "{} bytes for {} blocks on their way ({}) are more than this process may use now ({})",
                           bytes, room.count, ByteSizeText(bytes), ByteSizeText(available));
  };
}

// Before the model is read: a folder that is taken stops the start at once. Null where no disk is asked for.
Result<std::unique_ptr<DiskFolder>> TakeDiskFolder(const WorkerOptions& options) {
  if (options.disk_cache.empty()) return std::unique_ptr<DiskFolder>();
  ROOST_ASSIGN_OR_RETURN(DiskFolder folder, DiskFolder::Take(options.disk_cache, options.disk_cache_bytes));
  return std::make_unique<DiskFolder>(std::move(folder));
}

// Reads what an earlier process has left there.
Result<DiskSetup> OpenDisk(const WorkerOptions& options, std::unique_ptr<DiskFolder> folder, const Model& model,
                           PeerLayout layout) {
  const Instant begin = SteadyClock().Now();
  const std::unique_ptr<BlockReader> reader = model.MakeBlockReader();
  const FrameSizes sizes{
      .block_tokens = model.block_tokens(), .data_bytes = reader->block_bytes(), .dtype = reader->dtype()};
  DiskSetup disk{.folder = std::move(folder),
                 .files = std::make_unique<DiskFiles>(),
                 .store = nullptr,
                 .write_rate = options.disk_write_rate};
  const DiskStoreOptions store{.shape = SegmentShape::Of(layout.layout, layout.numerics, sizes.frame_bytes()),
                               .sizes = sizes,
                               .bytes = options.disk_cache_bytes};
  ROOST_ASSIGN_OR_RETURN(disk.store, DiskStore::Open(*disk.folder, *disk.files, store));
  std::uint32_t block_count = 0;
  disk.store->Visit([&](const DiskIndex& index) { block_count = index.size(); });
  LogInfo("blocks on disk", {{"folder", options.disk_cache},
                             {"blocks", block_count},
                             {"orphans", disk.store->orphan_count()},
                             {"bytes", disk.store->used_bytes()},
                             {"seconds", ToSeconds(SteadyClock().Now() - begin)}});
  for (const std::string& other : disk.store->other_folders()) {
    LogInfo("blocks of another model or release are on disk", {{"folder", options.disk_cache + "/" + other}});
  }
  return disk;
}

// Lets blocks of the loaded model travel.
void AddTransfer(const WorkerOptions& options, const LoadedModel& loaded, TransferSetup transfer, WorkerSetup& setup) {
  Model& model = *setup.own.model;
  const StepBounds steps = StepBoundsOf(options, DeviceKind::kCpu);  // on CUDA nothing is computed for it
  transfer.layout.layout = LayoutHash(model, loaded.fingerprint, loaded.kv_dtype);
  // 0: equal to that of all others that take any.
  if (options.transfer_numerics == "same") transfer.layout.numerics = NumericsHash(model, steps.token_count);
  setup.own.transfer = std::move(transfer);
}

}  // namespace

Result<std::uint64_t> MemoryBesideProcess(std::uint64_t available) {
  if (available > kProcessBytes) return available - kProcessBytes;
  return InvalidArgument("memory", "{} may be used here, and a worker needs {} beside weights and KV",
                         ByteSizeText(available), ByteSizeText(kProcessBytes));
}

Result<std::vector<WorkerSetup>> PrepareWorkers(const WorkerOptions& given) {
  if (given.engine != kOwnEngine) return PrepareAdapters(given);
  std::vector<WorkerSetup> setups;
  ROOST_ASSIGN_OR_RETURN(setups.emplace_back(), PrepareWorker(given));
  return setups;
}

Result<WorkerSetup> PrepareWorker(const WorkerOptions& given) {
  WorkerOptions options = given;
  ROOST_ASSIGN_OR_RETURN(const std::filesystem::path folder, FindModelFolder(given.model));
  options.model = folder.string();
  // The folder of a snapshot has a number for its name.
  if (options.model != given.model && options.served_model_name.empty()) options.served_model_name = given.model;
  // Before there are weights, a device and threads.
  std::unique_ptr<JobServer> compiler = StartCompiler();
  ROOST_ASSIGN_OR_RETURN(ModelOptions model_options, ModelOptionsOf(options));
  std::shared_ptr<ComputeThreads> compute_threads = ComputeThreadsOf(options, model_options);
  std::shared_ptr<const Tokenizer> tokenizer;
  model_options.check_text = [&tokenizer, &options](ModelText& text) -> Result<void> {
    ROOST_ASSIGN_OR_RETURN(tokenizer, CompleteText(text, options.model));
    return {};
  };
  std::optional<TransferSetup> transfer;
  WorkerSetup setup;
  setup.transfer_absence = TransferAbsence(options);
  ROOST_ASSIGN_OR_RETURN(std::unique_ptr<DiskFolder> disk, TakeDiskFolder(options));
  if (setup.transfer_absence.empty()) {
    ROOST_ASSIGN_OR_RETURN(transfer, ListenForWorkers(options));
    if (options.transfer_readers == 0) setup.transfer_absence = "fetches only: no readers";
  } else if (options.role != "both") {
    return InvalidArgument("role", "{} is no use where no blocks travel: {}", options.role, setup.transfer_absence);
  }
  // The disk needs its readable blocks and its inbox.
  if (!transfer && disk) {
    transfer = TransferSetup{.worker_id = options.worker_id, .pull_count = 0, .reader_count = 0};
  }
  if (transfer) CountTransferMemory(options, *transfer, model_options);
  ROOST_ASSIGN_OR_RETURN(LoadedModel loaded, LoadModel({options.model}, model_options));
  setup.compute_threads = std::move(compute_threads);
  setup.own.model = std::move(loaded.model);
  if (transfer) AddTransfer(options, loaded, *std::move(transfer), setup);
  if (disk) {
    ROOST_ASSIGN_OR_RETURN(setup.own.disk,
                           OpenDisk(options, std::move(disk), *setup.own.model, setup.own.transfer->layout));
  }
  ROOST_ASSIGN_OR_RETURN(setup.own.engine, EngineOptionsOf(options, *model_options.ops));
  setup.own.engine.stop_tokens = std::move(loaded.text.stop_tokens);
  PrepareGrammar(*tokenizer, setup.own.engine, std::move(compiler), setup);
  setup.hello.fingerprint = std::move(loaded.fingerprint);
  setup.hello.kv_dtype = std::move(loaded.kv_dtype);
  FillIn(options, std::move(loaded.text), setup);
  if (options.transfer_numerics == "same") setup.transfer_numerics = NumericsPromise(*setup.own.model);
  // Workers of one machine fetch blocks over its loopback, whatever computes there.
  const bool computes_here = KindOf(*model_options.ops) == DeviceKind::kCpu;
  setup.hello.compute = ComputeShareOf(computes_here ? options.threads : 0);
  return setup;
}

}  // namespace roost::worker
