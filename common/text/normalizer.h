// The "normalizer" part of a tokenizer file: text → text, before words are split. Supported: Prepend, Replace, NFC,
// NFD, NFKC, NFKD, Strip, Sequence. Immutable, shared by threads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/text/json_node.h"
#include "common/text/regex.h"

namespace roost::text {

class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  virtual Result<void> Apply(std::string& text, RegexScratch& scratch) const = 0;
  // May the first character of the result stem from another place than the text's beginning?
  [[nodiscard]] virtual bool MayDropFront() const { return false; }
};

class Normalizer {
 public:
  // Nothing (no normalizer) leaves text as it is.
  static Result<Normalizer> FromJson(const std::optional<JsonNode>& node);

  Result<void> Apply(std::string& text, RegexScratch& scratch) const;
  [[nodiscard]] bool is_identity() const { return steps_.empty(); }
  [[nodiscard]] bool MayDropFront() const;

 private:
  std::vector<std::unique_ptr<const NormalizerStep>> steps_;
};

// Replaces every `pattern`, which is not empty, in `text` by `content`; from left to right. Linear.
void ReplaceAll(std::string_view pattern, std::string_view content, std::string& text);

// The "pattern" member of several parts: {"String": …} or {"Regex": …}.
struct Pattern {
  enum class Kind { kString, kRegex };
  Kind kind;
  std::string_view text;
  JsonNode node;

  static Result<Pattern> FromJson(const JsonNode& parent);
  // Compiles it, as a regular expression; a string is one that matches itself.
  [[nodiscard]] Result<Regex> Compile() const;
};

}  // namespace roost::text
