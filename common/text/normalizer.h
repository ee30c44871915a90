// The "normalizer" part of a tokenizer file: text → text, before words are split. Supported: ByteLevel, Lowercase,
// NFC, NFD, NFKC, NFKD, Nmt, Prepend, Replace, Sequence, Strip. Not supported: Bert, Precompiled and StripAccents,
// because no library has their tables. Immutable, shared by threads.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/byte_range.h"
#include "common/base/result.h"
#include "common/json/json_node.h"
#include "common/text/prompt_text.h"
#include "common/text/regex/regex.h"

namespace roost::text {

// Marks the bytes of a text that were written (prompt_text.h), and follows them through the steps of a normalizer. Only
// for tokenizers that search special tokens in normalised text; hardly any model has one.

// One change by a step: these bytes of the text became `size` bytes.
struct Rewrite {
  ByteRange from;
  std::size_t size;
};
// In order, and disjoint; all bytes between are unchanged.
using Rewrites = std::vector<Rewrite>;

class WrittenMask {
 public:
  // The mask of one part of a text. Given spaces count as written: "▁</s>" takes the space at the end of a message with
  // it, and a space can not turn a client's text into a special token.
  WrittenMask(PromptText text, ByteRange part);

  // The bytes that replace others are written if all of those were. Inserted bytes are written.
  void Carry(const Rewrites& rewrites);
  // As in PromptText.
  [[nodiscard]] std::vector<ByteRange> Ranges() const;

 private:
  std::vector<char> written_;  // 1 or 0, one for each byte
};

class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  // Fails where the result would exceed `limit` bytes, and may then leave anything in `text`. Appends what it did to
  // `rewrites`, if not null.
  virtual Result<void> Apply(std::string& text, std::size_t limit, RegexScratch& scratch, Rewrites* rewrites) const = 0;
  // Can the result's first character come from another place than the text's beginning?
  [[nodiscard]] virtual bool MayDropFront() const { return false; }
  // The most bytes of text that can become one byte of the result; nothing: no limit.
  [[nodiscard]] virtual std::optional<std::size_t> MostShrinking() const { return std::nullopt; }
};

class Normalizer {
 public:
  // Without a normalizer the text stays as it is.
  static Result<Normalizer> FromJson(const std::optional<JsonNode>& node);

  // The result and every intermediate text have at most `limit` bytes; the CPU budget of `scratch` limits the time. An
  // error names the rule. Updates `written`, a mask of the text, to match.
  Result<void> Apply(std::string& text, std::size_t limit, RegexScratch& scratch, WrittenMask* written = nullptr) const;
  [[nodiscard]] bool is_identity() const { return rules_.empty(); }
  [[nodiscard]] bool MayDropFront() const;
  // For all steps together: at most kMaxShrinking, or nothing.
  [[nodiscard]] std::optional<std::size_t> MostShrinking() const;
  static constexpr std::size_t kMaxShrinking = 1024;

 private:
  struct Rule {
    std::string path;  // its place in the file: "normalizer.normalizers[1]"
    std::unique_ptr<const NormalizerStep> step;
  };
  Result<void> Append(const JsonNode& node);
  void Append(const JsonNode& node, std::unique_ptr<const NormalizerStep> step);
  Result<void> AppendStrip(const JsonNode& node);

  std::vector<Rule> rules_;
};

// Replaces every non-empty `pattern` in `text` by `content`, from left to right. Linear, as patterns are short. False,
// with `text` unchanged, when the result would exceed `limit` bytes.
bool ReplaceAll(std::string_view pattern, std::string_view content, std::size_t limit, std::string& text,
                Rewrites* rewrites = nullptr);

// The "pattern" member that several parts have: {"String": …} or {"Regex": …}.
struct Pattern {
  enum class Kind { kString, kRegex };
  static constexpr std::size_t kMaxStringBytes = 1024;  // of a string: limits the cost per byte of text

  Kind kind;
  std::string_view text;
  JsonNode node;

  static Result<Pattern> FromJson(const JsonNode& parent);
  // Compiles it as a regular expression; a string becomes one that matches itself.
  [[nodiscard]] Result<Regex> Compile() const;
};

}  // namespace roost::text
