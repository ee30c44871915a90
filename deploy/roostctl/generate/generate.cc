#include "deploy/roostctl/generate/generate.h"

#include <fmt/format.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/json_writer.h"
#include "common/base/log.h"
#include "deploy/roostctl/generate/offline_run.h"
#include "deploy/roostctl/generate/prompt_file.h"
#include "worker/grammar/grammar_pool.h"

namespace roost::roostctl {
namespace {

// A person can not read faster updates of a line, and a log should not grow fast.
constexpr Duration kTerminalInterval = std::chrono::milliseconds(100);
constexpr Duration kLinesInterval = std::chrono::seconds(1);
// Moves to the line's start, and erases the line.
constexpr std::string_view kRewind = "\r\x1b[K";

}  // namespace

LiveLine::LiveLine(std::ostream& out, const Clock& clock, LiveOutput output)
    : out_(out), clock_(clock), output_(output), written_(clock.Now()) {}

void LiveLine::Update(const OfflineTotals& totals) {
  const Instant now = clock_.Now();
  if (now - written_ < (output_ == LiveOutput::kTerminal ? kTerminalInterval : kLinesInterval)) return;
  written_ = now;
  Write(totals);
  if (output_ == LiveOutput::kLines) out_ << '\n';
  out_.flush();
}

void LiveLine::End(const OfflineTotals& totals) {
  Write(totals);
  out_ << fmt::format(
      "\n{} prompts in {:.2f} s: prefill {} tokens in {:.2f} s, decode {} tokens in {:.2f} s, {:.0f} tok/s in all\n",
      totals.ended_count, totals.total_seconds, totals.prefill_tokens(), totals.prefill_seconds, totals.decode_tokens,
      totals.decode_seconds, totals.total_rate());
  out_.flush();
}

void LiveLine::Write(const OfflineTotals& totals) {
  if (output_ == LiveOutput::kTerminal) out_ << kRewind;
  out_ << fmt::format("Prefill: {:.0f} tok/s, Decode: {:.0f} tok/s, cached {:.0f}%, {} of {} prompts",
                      totals.prefill_rate(), totals.decode_rate(), totals.cached_share() * 100, totals.ended_count,
                      totals.request_count);
}

namespace {

constexpr float kMaxTemperature = 2;
constexpr int kSomeFailed = 1;

OfflineScheduler SchedulerOf(std::string_view name) {
  const auto found = std::find_if(kOfflineSchedulers.begin(), kOfflineSchedulers.end(),
                                  [name](const auto& entry) { return entry.first == name; });
  ROOST_CHECK(found != kOfflineSchedulers.end(), "the parser takes no scheduler '{}'", name);
  return found->second;
}

Result<std::optional<float>> ParseTemperature(std::string_view value) {
  if (value == "auto") return std::optional<float>();
  float number = 0;
  const auto [parsed_to, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || parsed_to != value.data() + value.size() || !(number >= 0 && number <= kMaxTemperature)) {
    return InvalidArgument("temperature", "'{}' is not auto or a number from 0 to {}", value, kMaxTemperature);
  }
  return std::optional<float>(number);
}

std::int64_t UnixSecondsNow() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

Result<PromptDefaults> DefaultsOf(const GenerateOptions& options) {
  PromptDefaults defaults{.max_tokens = options.max_tokens,
                          .seed = options.seed,
                          .ignore_eos = options.ignore_eos,
                          .unix_seconds = UnixSecondsNow()};
  ROOST_ASSIGN_OR_RETURN(defaults.temperature, ParseTemperature(options.temperature));
  return defaults;
}

std::string FailureLine(const OfflineAnswer& answer) {
  JsonWriter json;
  json.BeginObject().Key("index").Number(std::uint64_t{answer.index});
  json.Key("prompt_tokens").Number(answer.prompt_token_count);
  json.Key("error").String(answer.error->ToString()).EndObject();
  return json.Take();
}

std::string ChoiceLine(const OfflineAnswer& answer, std::size_t number) {
  const OfflineChoice& choice = answer.choices[number];
  JsonWriter json;
  json.BeginObject().Key("index").Number(std::uint64_t{answer.index}).Key("choice").Number(std::uint64_t{number});
  json.Key("prompt_tokens").Number(answer.prompt_token_count);
  json.Key("cached_tokens").Number(answer.cached_token_count);
  json.Key("output_tokens").Number(std::uint64_t{choice.tokens.size()});
  json.Key("finish_reason").String(choice.finish == wire::FinishReason::kStop ? "stop" : "length");
  json.Key("text").String(choice.text).Key("tokens").BeginArray();
  for (const TokenId token : choice.tokens) json.Number(token);
  json.EndArray().EndObject();
  return json.Take();
}

// Writes answers to `out`, each line at once, because another program may read them.
class Printer final : public OfflineSink {
 public:
  Printer(std::ostream& out, LiveLine& live) : out_(out), live_(live) {}

  void OnAnswer(const OfflineAnswer& answer) override {
    if (answer.error) out_ << FailureLine(answer) << '\n';
    for (std::size_t i = 0; i < answer.choices.size(); ++i) out_ << ChoiceLine(answer, i) << '\n';
    out_.flush();
  }
  void OnStep(const OfflineTotals& totals) override { live_.Update(totals); }

 private:
  std::ostream& out_;
  LiveLine& live_;
};

int Fail(std::ostream& err, const Error& error, int exit_code) {
  err << "roostctl generate: " << error.ToString() << '\n';
  return exit_code;
}

// Lets the engine's thread wait for the threads that compile grammars.
class GrammarSignal {
 public:
  void Wake() {
    const std::lock_guard lock(mutex_);
    is_woken_ = true;
    woken_.notify_one();
  }
  // Returns at the latest when a compilation may have taken too long, which wakes no thread.
  void Wait() {
    constexpr std::chrono::milliseconds kLook{100};
    std::unique_lock lock(mutex_);
    (void)woken_.wait_for(lock, kLook, [this] { return is_woken_; });
    is_woken_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable woken_;
  bool is_woken_ = false;  // guarded by mutex_
};

int Generate(const GenerateOptions& options, OfflineModel model, std::vector<OfflineRequest> requests,
             std::ostream& out, std::ostream& err) {
  const SteadyClock clock;
  LiveLine live(err, clock, options.live);
  Printer printer(out, live);
  const bool keeps_prefixes = model.setup.hello.keeps_prefixes;
  GrammarSignal signal;
  std::optional<worker::GrammarPool> grammars;
  worker::OwnEngineSetup& own = model.setup.own;
  if (own.grammar_library != nullptr) {
    grammars.emplace(std::move(own.grammar_library), own.grammar, clock, [&signal] { signal.Wake(); });
    own.engine.constrainer = &*grammars;
  }
  const OfflineTotals totals = RunOffline({.model = *own.model,
                                           .clock = clock,
                                           .engine = own.engine,
                                           .scheduler = SchedulerOf(options.scheduler),
                                           .cache = keeps_prefixes ? wire::CacheMode::kOn : wire::CacheMode::kOff,
                                           .await_grammar = [&signal] { signal.Wait(); }},
                                          std::move(requests), printer);
  live.End(totals);
  if (!out) err << "roostctl generate: the output could not be written whole\n";
  return out && totals.failed_count == 0 ? 0 : kSomeFailed;
}

int RunGenerateCommand(Arguments arguments, const Console& console) {
  GenerateOptions options;
  if (isatty(STDERR_FILENO) == 1) options.live = LiveOutput::kTerminal;
  ConfigParser parser("roostctl generate",
                      "Answers a list of prompts with the engine in this process, without router and worker, and "
                      "prints a line of JSON per answer.");
  Declare(options, parser);
  if (const auto code = Ended(parser, arguments, console)) return *code;
  SetUpLogging(LogLevel::kWarning, LogFormat::kText);
  return RunGenerate(options, console.in, console.out, console.err);
}

}  // namespace

const Command kGenerateCommand{"generate", "answer a list of prompts in this process", &RunGenerateCommand};

void Declare(GenerateOptions& options, ConfigParser& parser) {
  std::vector<std::string> schedulers;
  schedulers.reserve(kOfflineSchedulers.size());
  for (const auto& [name, scheduler] : kOfflineSchedulers) schedulers.emplace_back(name);
  parser.Section("Generation")
      .Add("prompts", options.prompts,
           "File with one prompt per line, or - for the standard input. A prompt is text, or the JSON body of a "
           "request to /v1/completions or /v1/chat/completions")
      .Require("prompts")
      .AddChoice(
          "scheduler", options.scheduler, schedulers,
          "naive: one prompt at a time; offline: in waves, as many as fit at once; online: each as soon as there "
          "is room")
      .Add("max-tokens", options.max_tokens,
           "Maximum tokens per answer if the prompt sets no limit; 0: as many as fit the context")
      .Add("temperature", options.temperature,
           "Temperature for prompts that set none: 0 takes the likeliest token, auto the model's own default")
      .Add("seed", options.seed,
           "Seed for prompts that set none: each prompt's seed is made of this one and its number in the list")
      .AddSwitch("ignore-eos", options.ignore_eos, "Do not end answers at the model's own stop tokens");
  worker::DeclareModel(options.worker, parser);
  parser.Require("model");
  worker::DeclareCache(options.worker, parser);
  worker::DeclareEngine(options.worker, parser);
}

// Checks what is quick to check before reading the model.
int RunGenerate(const GenerateOptions& given, std::istream& in, std::ostream& out, std::ostream& err) {
  GenerateOptions options = given;
  const Result<void> complete = worker::Complete(options.worker);
  if (!complete.ok()) return Fail(err, complete.error(), EX_USAGE);
  const Result<PromptDefaults> defaults = DefaultsOf(options);
  if (!defaults.ok()) return Fail(err, defaults.error(), EX_USAGE);
  const bool from_input = options.prompts == "-";
  std::ifstream file;
  if (!from_input) file.open(options.prompts, std::ios::binary);
  if (!file) return Fail(err, {ErrorCode::kNotFound, "can not be read", options.prompts}, EX_NOINPUT);
  Result<OfflineModel> model = LoadOfflineModel(options.worker);
  if (!model.ok()) return Fail(err, model.error(), worker::ExitCodeOf(model.error()));
  Result<std::vector<OfflineRequest>> requests =
      ReadPrompts(from_input ? in : file, from_input ? "standard input" : options.prompts, model->served, *defaults);
  if (!requests.ok()) return Fail(err, requests.error(), EX_DATAERR);
  return Generate(options, std::move(model).value(), std::move(requests).value(), out, err);
}

}  // namespace roost::roostctl
