#include "worker/worker.h"

#include <openssl/evp.h>

#include <array>
#include <chrono>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/utf8.h"
#include "common/wire/codec.h"
#include "common/wire/endpoint.h"

namespace roost::worker {
namespace {

// Routers compare epochs for equality alone; the wall clock makes them differ across restarts.
std::uint64_t FirstEpoch() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count()) | 1U;
}

Result<void> CheckName(const std::string& name, const char* field, std::size_t max_bytes) {
  if (name.empty()) return InvalidArgument(field, "must not be empty");
  if (name.size() > max_bytes) return InvalidArgument(field, "{} bytes, at most {}", name.size(), max_bytes);
  if (!IsValidUtf8(name)) return InvalidArgument(field, "is not UTF-8");
  return {};
}

Result<void> CheckSetup(const WorkerSetup& setup) {
  ROOST_RETURN_IF_ERROR(CheckName(setup.hello.worker_id, "worker-id", wire::WireLimits::kMaxWorkerIdBytes));
  // ZeroMQ keeps names that begin with a zero byte for itself.
  if (setup.hello.worker_id[0] == '\0') return InvalidArgument("worker-id", "begins with a zero byte");
  ROOST_RETURN_IF_ERROR(CheckName(setup.hello.model, "served-model-name", wire::WireLimits::kMaxTextBytes));
  const wire::Tokenizer& bundle = setup.tokenizer;
  const std::size_t size = bundle.tokenizer_json.size() + bundle.chat_template.size();
  if (size > wire::WireLimits::kMaxTokenizerBytes) {
    return InvalidArgument("tokenizer.json", "{} bytes with the chat template, at most {}", size,
                           wire::WireLimits::kMaxTokenizerBytes);
  }
  if (setup.routers.empty()) return InvalidArgument("router", "at least one address is needed");
  return {};
}

Result<std::vector<wire::Endpoint>> ParseRouters(const std::vector<std::string>& routers) {
  std::vector<wire::Endpoint> endpoints;
  for (const std::string& router : routers) {
    Result<wire::Endpoint> endpoint = wire::ParseEndpoint(router);
    if (!endpoint.ok()) return InvalidArgument("router", "{}", endpoint.error().ToString());
    endpoints.push_back(std::move(endpoint).value());
  }
  return endpoints;
}

wire::Hello CompleteHello(const WorkerSetup& setup, const Engine& engine) {
  wire::Hello hello = setup.hello;
  hello.block_tokens = setup.model->block_tokens();
  hello.block_count = setup.model->block_count();
  hello.max_context_tokens = engine.max_context_tokens();
  hello.max_running_requests = setup.engine.max_running_requests;
  hello.max_batch_tokens = setup.engine.max_batch_tokens;
  hello.ageing_tokens = AgeingTokens(setup.engine.schedule_policy);
  hello.max_sample_count = wire::kMaxSampleCount;
  hello.full_sampling = true;
  hello.tokenizer_digest = setup.tokenizer.digest;
  return hello;
}

WorkerSetup WithDigest(WorkerSetup setup) {
  setup.tokenizer.digest = TokenizerDigest(setup.tokenizer);
  return setup;
}

}  // namespace

std::string TokenizerDigest(const wire::Tokenizer& tokenizer) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  ROOST_CHECK(context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1);
  for (const std::string& part :
       {tokenizer.tokenizer_json, tokenizer.chat_template, tokenizer.bos_token, tokenizer.eos_token}) {
    const std::uint64_t length = part.size();
    ROOST_CHECK(EVP_DigestUpdate(context.get(), &length, sizeof(length)) == 1);
    ROOST_CHECK(EVP_DigestUpdate(context.get(), part.data(), part.size()) == 1);
  }
  ROOST_CHECK(EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

Result<std::unique_ptr<Worker>> Worker::Start(WorkerSetup setup) {
  ROOST_RETURN_IF_ERROR(CheckSetup(setup));
  ROOST_ASSIGN_OR_RETURN(std::vector<wire::Endpoint> routers, ParseRouters(setup.routers));
  std::unique_ptr<Worker> worker(new Worker(WithDigest(std::move(setup))));
  ROOST_RETURN_IF_ERROR(worker->StartThreads(std::move(routers)));
  return worker;
}

Worker::Worker(WorkerSetup setup)
    : setup_(std::move(setup)),
      registry_({{"model", setup_.hello.model}}),
      metrics_(registry_),
      engine_(*setup_.model, clock_, setup_.engine),
      engine_thread_(engine_, waker_, setup_.compute_thread_count) {
  hello_ = CompleteHello(setup_, engine_);
}

Worker::~Worker() { Stop(); }

Result<void> Worker::StartThreads(std::vector<wire::Endpoint> routers) {
  if (!setup_.metrics_address.empty()) {
    ROOST_ASSIGN_OR_RETURN(metrics_server_,
                           MetricsServer::Start(setup_.metrics_address, setup_.insecure_bind, registry_));
  }
  LinkCore::Setup core{hello_, std::move(setup_.tokenizer), FirstEpoch(), {}};
  Resolver::Options names;
  names.names = std::move(routers);
  link_thread_ =
      std::make_unique<LinkThread>(std::move(core), std::move(names), clock_, waker_, engine_thread_, metrics_);
  engine_thread_.Start();
  link_thread_->Start();
  return {};
}

void Worker::Stop() {
  if (link_thread_) link_thread_->Stop();
  engine_thread_.Stop();
  metrics_server_.reset();
}

}  // namespace roost::worker
