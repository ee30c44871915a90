// Writes outputs under constraints, for constraint_outputs_test.py. Reads one JSON line for each constraint:
//
//   {"kind": "regex" | "choice" | "grammar" | "json_schema" | "json" | "structural_tag", "text": …, "count": …,
//   "probes": ["…"]}
//
// and writes one: {"compile_seconds": …, "outputs": […], "slowest_mask_seconds": …, "bytes": …, "open": …, "allowed":
// [for each probe, whether it is a whole text of the constraint]}, or {"refused": why}. `open` counts the outputs that
// did not end within kMaxTokens. Each token is drawn from all that may come next with equal chances.
//
//   constraint_outputs [VOCABULARY_SIZE [apart]]     apart: long compilations in a process of their own, as a worker
//   has
#include <simdjson.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/json_writer.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "tests/grammar/made_vocabulary.h"
#include "worker/grammar/grammar_library.h"

namespace roost::worker {
namespace {

constexpr std::size_t kUsualVocabulary = 1024;
constexpr int kMaxTokens = 2000;
constexpr int kSkip = 77;

wire::ConstraintKind KindOf(std::string_view name) {
  if (name == "json") return wire::ConstraintKind::kJson;
  if (name == "json_schema") return wire::ConstraintKind::kJsonSchema;
  if (name == "regex") return wire::ConstraintKind::kRegex;
  if (name == "choice") return wire::ConstraintKind::kChoice;
  if (name == "structural_tag") return wire::ConstraintKind::kStructuralTag;
  return wire::ConstraintKind::kGrammar;
}

class Outputs {
 public:
  Outputs(std::size_t vocab_size, std::unique_ptr<JobServer> compiler)
      : texts_(testing_support::MadeVocabulary(vocab_size)),
        library_(OpenGrammarLibrary(texts_, std::move(compiler))) {}

  std::string Answer(const simdjson::dom::element& line) {
    const auto text = [&line](const char* key) { return std::string(std::string_view(line[key])); };
    slowest_mask_ = {};
    const Instant begin = clock_.Now();
    const auto compiled =
        library_->Compile({.kind = KindOf(text("kind")), .text = text("text"), .field = "constraint"});
    JsonWriter json;
    json.BeginObject().Key("compile_seconds").Number(ToSeconds(clock_.Now() - begin));
    if (!compiled.ok()) {
      json.Key("refused").String(compiled.error().message).EndObject();
      return json.Take();
    }
    int open = 0;
    json.Key("outputs").BeginArray();
    for (std::int64_t left = line["count"]; left > 0; --left) {
      const std::optional<std::string> output = Output(**compiled);
      output ? void(json.String(*output)) : void(++open);
    }
    json.EndArray().Key("slowest_mask_seconds").Number(ToSeconds(slowest_mask_));
    json.Key("bytes").Number(std::uint64_t{(*compiled)->bytes()});
    json.Key("open").Number(open).Key("allowed").BeginArray();
    for (const simdjson::dom::element probe : simdjson::dom::array(line["probes"])) {
      json.Bool(Allows(**compiled, std::string_view(probe)));
    }
    json.EndArray().EndObject();
    return json.Take();
  }

 private:
  // Nothing if it does not end.
  std::optional<std::string> Output(const CompiledGrammar& grammar) {
    const std::unique_ptr<Automaton> automaton = grammar.Start();
    std::vector<std::uint32_t> mask(MaskWords(texts_.size()));
    std::string output;
    for (int step = 0; step < kMaxTokens; ++step) {
      if (automaton->MayEnd() && rng_.Below(8) == 0) return output;
      const Instant begin = clock_.Now();
      automaton->FillMask(mask);
      slowest_mask_ = std::max(slowest_mask_, clock_.Now() - begin);
      std::vector<TokenId> allowed;
      for (TokenId token = 0; token < texts_.size(); ++token) {
        if ((mask[token / 32] >> token % 32 & 1U) != 0) allowed.push_back(token);
      }
      if (allowed.empty()) return automaton->MayEnd() ? std::optional(output) : std::nullopt;
      const TokenId token = allowed[rng_.Below(allowed.size())];
      if (!automaton->Accept(token)) {
        std::fputs("a token of the mask is not accepted\n", stderr);
        std::exit(1);
      }
      output += texts_[token];
    }
    return std::nullopt;
  }

  // Token 1 + b is the byte b.
  static bool Allows(const CompiledGrammar& grammar, std::string_view text) {
    const std::unique_ptr<Automaton> automaton = grammar.Start();
    for (const char c : text) {
      if (!automaton->Accept(static_cast<TokenId>(static_cast<unsigned char>(c)) + 1)) return false;
    }
    return automaton->MayEnd();
  }

  const TokenTexts texts_;
  const std::unique_ptr<GrammarLibrary> library_;
  const SteadyClock clock_;
  Duration slowest_mask_{};
  Rng rng_{11};
};

int Run(int argc, char** argv) {
  if (!HasGrammarLibrary()) {
    std::fputs("skipped: built without xgrammar\n", stderr);
    return kSkip;
  }
  SetUpLogging(LogLevel::kError, LogFormat::kText);  // the answers alone go to stdout
  Outputs outputs(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : kUsualVocabulary,
                  argc > 2 ? StartCompiler() : nullptr);
  simdjson::dom::parser parser;
  for (std::string line; std::getline(std::cin, line);) {
    std::puts(outputs.Answer(parser.parse(line)).c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace roost::worker

int main(int argc, char** argv) { return roost::worker::Run(argc, argv); }
