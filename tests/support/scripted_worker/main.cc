// roost-scripted-worker: a ScriptedWorker with the tokenizer and the chat template of a model folder. For tests.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/base/termination.h"
#include "common/config/config.h"
#include "common/json/json_node.h"
#include "tests/support/scripted_worker/scripted_worker.h"
#include "worker/model/load_model.h"
#include "worker/model/loading/generation_config.h"

namespace roost::testing_support {
namespace {

namespace fs = std::filesystem;

constexpr int kUsage = 64;
constexpr int kFailed = 1;

struct Options {
  std::string model;          // folder
  std::string chat_template;  // file; empty: the folder's
  std::string script;         // file
  std::string served_model_name;
  std::string router = "tcp://127.0.0.1:7001";
  std::string worker_id = "scripted";
  std::uint32_t context_tokens = ScriptedWorkerSetup().context_tokens;
  std::uint32_t step_ms = 0;
  std::uint64_t hold_until = ScriptedWorkerSetup().hold_until;
};

Result<std::string> ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (!file || !(content << file.rdbuf())) return Error{ErrorCode::kNotFound, "can not be read, or is empty", path};
  return content.str();
}

Result<ScriptedWorkerSetup> SetupOf(const Options& options) {
  const fs::path folder(options.model);
  ROOST_ASSIGN_OR_RETURN(const auto tokenizer, JsonFile::Load(folder / "tokenizer.json", worker::kMaxTokenizerBytes));
  ROOST_ASSIGN_OR_RETURN(worker::ChatFormat chat, worker::LoadChatFormat(folder));
  if (!options.chat_template.empty()) {
    ROOST_ASSIGN_OR_RETURN(chat.combined_template, ReadFile(options.chat_template));
  }
  ROOST_ASSIGN_OR_RETURN(const std::string script, ReadFile(options.script));
  ScriptedWorkerSetup setup;
  ROOST_ASSIGN_OR_RETURN(setup.script, Script::Parse(script, options.script));
  setup.worker_id = options.worker_id;
  setup.model = options.served_model_name;
  setup.router = options.router;
  setup.context_tokens = options.context_tokens;
  setup.hold_until = options.hold_until;
  setup.step_time = std::chrono::milliseconds(options.step_ms);
  setup.bundle.tokenizer_json = tokenizer.text();
  setup.bundle.chat_template = std::move(chat.combined_template);
  setup.bundle.bos_token = std::move(chat.bos_token);
  setup.bundle.eos_token = std::move(chat.eos_token);
  return setup;
}

int Fail(const Error& error, int code) {
  LogError("the scripted worker can not start", {{"reason", error.ToString()}});
  return code;
}

int Main(int argc, const char* const* argv) {
  Options options;
  ConfigParser parser("roost-scripted-worker", "Answers a router's requests from a script. For tests.");
  parser.Add("model", options.model, "Folder with tokenizer and chat template")
      .Require("model")
      .Add("chat-template", options.chat_template, "File with another chat template")
      .Add("script", options.script, "JSON file with the rules")
      .Require("script")
      .Add("served-model-name", options.served_model_name, "Name of the model")
      .Require("served-model-name")
      .Add("router", options.router, "tcp://HOST:PORT with a numeric address")
      .Add("worker-id", options.worker_id, "Name of the worker")
      .Add("context-tokens", options.context_tokens, "Tokens of the longest prompt with its answer", {1, 1e6})
      .Add("step-ms", options.step_ms, "Time of a step, which gives each request a token", {0, 10'000})
      .Add("hold-until", options.hold_until, "Requests that must have come before any is answered", {0, 1e6});
  const Result<ParseOutcome> outcome = parser.Parse(argc, argv);
  if (!outcome.ok()) return Fail(outcome.error(), kUsage);
  if (*outcome == ParseOutcome::kExit) return 0;
  SetUpLogging(LogLevel::kInfo, LogFormat::kJson);
  Result<ScriptedWorkerSetup> setup = SetupOf(options);
  if (!setup.ok()) return Fail(setup.error(), kUsage);
  Termination termination;
  const SteadyClock clock;
  Result<std::unique_ptr<ScriptedWorker>> worker = ScriptedWorker::Start(*std::move(setup), clock);
  if (!worker.ok()) return Fail(worker.error(), kFailed);
  termination.BeginServing();
  while (!termination.Wait(std::chrono::milliseconds(0), 1)) (*worker)->Round();
  return 0;
}

}  // namespace
}  // namespace roost::testing_support

int main(int argc, char** argv) { return roost::testing_support::Main(argc, argv); }
