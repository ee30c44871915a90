// The cost of constraints: the time between tokens of 32 requests with a JSON schema against 32 without, alternating;
// and what a request adds whose schema is cached, alone and as the difference of two first tokens, which is mostly the
// noise of two steps. Uses a model of a known shape with random weights and a made vocabulary of 151,936 tokens.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/rng.h"
#include "tests/bench/bench.h"
#include "tests/grammar/made_vocabulary.h"
#include "worker/engine/engine.h"
#include "worker/grammar/grammar_pool.h"
#include "worker/model/load_model.h"

namespace roost::bench {
namespace {

constexpr std::uint32_t kRequests = 32;
constexpr TokenId kStop = 0;  // of the made vocabulary
// Much free text with structure around it; long enough for all tokens that are drawn.
constexpr const char* kAnswerSchema =
    R"({"type":"array","minItems":400,"items":{"type":"object","properties":{"name":{"type":"string"},)"
    R"("age":{"type":"integer","minimum":0,"maximum":150},"tags":{"type":"array","items":{"type":"string","maxLength":8}},)"
    R"("kind":{"enum":["a","b","c"]}},"required":["name","age","tags","kind"]}})";

enum class Form : std::uint8_t { kFree, kSchema };

wire::Generate RequestOf(std::uint64_t number, std::uint32_t output_tokens, Form form) {
  wire::Generate request;
  request.request_id = RequestId(number);
  request.root = BlockHash{1, 1};
  Rng rng(number);
  while (request.prompt.size() < 20) request.prompt.push_back(static_cast<TokenId>(1 + rng.Below(300)));
  request.block_hashes = HashBlocks(request.root, request.prompt, kBlockTokens);
  request.sampling = {.temperature = 1, .seed = number};
  request.max_output_tokens = output_tokens;
  request.ignore_eos = true;
  if (form == Form::kSchema) {
    request.constraint =
        wire::Constraint{.kind = wire::ConstraintKind::kJsonSchema, .text = kAnswerSchema, .field = "f"};
  }
  return request;
}

class Bench {
 public:
  Bench(worker::Model& model, worker::GrammarPool& pool)
      : engine_(model, clock_, {.max_batch_tokens = 1024, .stop_tokens = {kStop}, .constrainer = &pool}) {}

  // Seconds of a step that decodes all of them.
  double StepSeconds(std::uint32_t output_tokens, Form form) {
    for (std::uint32_t i = 0; i < kRequests; ++i) Submit(output_tokens, form);
    std::vector<double> seconds;
    while (engine_.HasWork()) {
      const worker::StepReport report = engine_.Step();
      if (report.load.step_decode_tokens == kRequests) seconds.push_back(report.load.step_seconds);
    }
    ROOST_CHECK(!seconds.empty());
    return MedianOf(seconds);
  }

  double FirstTokenSeconds(Form form) {
    const Instant begin = clock_.Now();
    Submit(1, form);
    while (engine_.HasWork()) (void)engine_.Step();
    return ToSeconds(clock_.Now() - begin);
  }

  void WarmUp() {
    Submit(4, Form::kSchema);
    for (bool is_done = false; !is_done;) {  // its schema is compiled meanwhile
      if (!engine_.HasWork()) continue;
      for (const worker::RequestEvent& event : engine_.Step().tokens) {
        ROOST_CHECK(!event.event.error, "{}", event.event.error->ToString());
        is_done = is_done || event.event.finish.has_value();
      }
    }
  }

  static double MedianOf(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }

 private:
  void Submit(std::uint32_t output_tokens, Form form) {
    const Result<void> taken = engine_.Submit(worker::LinkId(1), RequestOf(++number_, output_tokens, form));
    ROOST_CHECK(taken.ok(), "{}", taken.error().ToString());
  }

  const SteadyClock clock_;
  worker::Engine engine_;
  std::uint64_t number_ = 0;
};

// The time that a request adds if its schema is compiled already: its automaton, and the first mask.
double CachedStartSeconds(const worker::GrammarLibrary& library, std::uint32_t vocab_size, Effort effort) {
  const wire::Constraint constraint{.kind = wire::ConstraintKind::kJsonSchema, .text = kAnswerSchema, .field = "f"};
  const auto grammar = library.Compile(constraint).value();
  std::vector<std::uint32_t> mask(worker::MaskWords(vocab_size));
  return MedianSeconds(effort, [&] { grammar->Start()->FillMask(mask); });
}

}  // namespace

void BenchGrammar(Effort effort) {
  const bool is_quick = effort == Effort::kQuick;
  if (!worker::HasGrammarLibrary()) return;
  const worker::LoadedModel loaded =
      worker::LoadModel({is_quick ? "synthetic:tiny" : "synthetic:qwen3-0.6b"},
                        {.thread_count = 2, .block_tokens = kBlockTokens, .block_count = 512})
          .value();
  const SteadyClock clock;
  auto library = worker::OpenGrammarLibrary(testing_support::MadeVocabulary(loaded.model->shape().vocab_size));
  ROOST_CHECK(library != nullptr);
  const double cached_start = CachedStartSeconds(*library, loaded.model->shape().vocab_size, effort);
  Figure("grammar_cached_start_us", cached_start * 1e6, "us");
  worker::GrammarPool pool(std::move(library), {}, clock, [] {});
  Bench bench(*loaded.model, pool);
  bench.WarmUp();
  const std::uint32_t tokens = is_quick ? 8 : 48;
  std::vector<double> ratios;
  for (int turn = 0; turn < (is_quick ? 1 : 5); ++turn) {
    const double free = bench.StepSeconds(tokens, Form::kFree);
    ratios.push_back(bench.StepSeconds(tokens, Form::kSchema) / free);
  }
  Figure("grammar_inter_token_ratio_32", Bench::MedianOf(ratios), "x");
  std::vector<double> differences;
  for (int turn = 0; turn < (is_quick ? 3 : 31); ++turn) {
    const double free = bench.FirstTokenSeconds(Form::kFree);
    differences.push_back(bench.FirstTokenSeconds(Form::kSchema) - free);
  }
  Figure("grammar_first_token_ms", Bench::MedianOf(differences) * 1e3, "ms");
}

}  // namespace roost::bench
