// The "normalizer" part of a tokenizer file: text → text, before words are split. Supported: ByteLevel, Lowercase,
// NFC, NFD, NFKC, NFKD, Nmt, Prepend, Replace, Sequence, Strip; not Bert, Precompiled and StripAccents, whose tables no
// library has. Immutable, shared by threads.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/text/json_node.h"
#include "common/text/regex.h"
#include "common/text/written_mask.h"

namespace roost::text {

class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  // Fails, and may leave anything in `text`, where the result would be over `limit` bytes. Appends what it did to
  // `rewrites`, if there is one.
  virtual Result<void> Apply(std::string& text, std::size_t limit, RegexScratch& scratch, Rewrites* rewrites) const = 0;
  // May the first character of the result stem from another place than the text's beginning?
  [[nodiscard]] virtual bool MayDropFront() const { return false; }
  // How many bytes of text may become one byte of the result at most; nothing where there is no limit.
  [[nodiscard]] virtual std::optional<std::size_t> MostShrinking() const { return std::nullopt; }
};

class Normalizer {
 public:
  // Nothing (no normalizer) leaves text as it is.
  static Result<Normalizer> FromJson(const std::optional<JsonNode>& node);

  // Makes at most `limit` bytes, at no step more, within the CPU budget of `scratch`; an error names the rule.
  // Carries `written`, a mask of the text, along.
  Result<void> Apply(std::string& text, std::size_t limit, RegexScratch& scratch, WrittenMask* written = nullptr) const;
  [[nodiscard]] bool is_identity() const { return rules_.empty(); }
  [[nodiscard]] bool MayDropFront() const;
  // Of all steps together; at most kMaxShrinking, or nothing.
  [[nodiscard]] std::optional<std::size_t> MostShrinking() const;
  static constexpr std::size_t kMaxShrinking = 1024;

 private:
  struct Rule {
    std::string path;  // where it stands in the file: "normalizer.normalizers[1]"
    std::unique_ptr<const NormalizerStep> step;
  };
  Result<void> Append(const JsonNode& node);
  void Append(const JsonNode& node, std::unique_ptr<const NormalizerStep> step);
  Result<void> AppendStrip(const JsonNode& node);

  std::vector<Rule> rules_;
};

// Replaces every `pattern`, which is not empty, in `text` by `content`; from left to right. Linear, as patterns are
// short. False, and `text` as it was, when it would grow over `limit` bytes.
bool ReplaceAll(std::string_view pattern, std::string_view content, std::size_t limit, std::string& text,
                Rewrites* rewrites = nullptr);

// The "pattern" member of several parts: {"String": …} or {"Regex": …}.
struct Pattern {
  enum class Kind { kString, kRegex };
  static constexpr std::size_t kMaxStringBytes = 1024;  // of a string: bounds the cost per byte of text

  Kind kind;
  std::string_view text;
  JsonNode node;

  static Result<Pattern> FromJson(const JsonNode& parent);
  // Compiles it, as a regular expression; a string is one that matches itself.
  [[nodiscard]] Result<Regex> Compile() const;
};

}  // namespace roost::text
