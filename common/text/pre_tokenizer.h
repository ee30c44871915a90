// The "pre_tokenizer" part of a tokenizer file: cuts text into the pieces ("words") within which the model merges.
// Supported: BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, Punctuation, Sequence,
// Split, Whitespace, WhitespaceSplit; not UnicodeScripts. Immutable, shared by threads.
//
// A step either cuts pieces further or rewrites every piece's text:
//
//   Sequence[Split, ByteLevel]   "it's  1é"
//     split                      [it]['s][ ][ 1][é]      same text, more pieces
//     rewrite                    [it]['s][Ġ][Ġ1][Ã©]     new text, as many pieces
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/json/json_node.h"
#include "common/text/regex/regex.h"
#include "common/text/word_scanner.h"

namespace roost::text {

// Pieces are disjoint, in order, not empty; the text between them was removed.
struct PreTokenized {
  std::string text;
  std::vector<TextRange> pieces;
  bool starts_text = false;  // the first piece begins where the whole input began

  // Makes `input` the only piece.
  void Assign(std::string_view input, bool at_start);
};

// The buffers of one run; reused from run to run to save allocations.
struct PreTokenizeScratch {
  struct Part {
    TextRange range;
    bool is_match;
  };

  PreTokenized now;
  PreTokenized next;
  std::string stand_in;
  std::vector<TextRange> matches;
  std::vector<Part> parts;
};

class PreTokenizerStep {
 public:
  virtual ~PreTokenizerStep() = default;
  // Replaces scratch.now by its result.
  virtual Result<void> Apply(PreTokenizeScratch& scratch, RegexScratch& regex) const = 0;
  // Does the result depend on PreTokenized::starts_text?
  [[nodiscard]] virtual bool NeedsStart() const { return false; }
  // Can it leave text out?
  [[nodiscard]] virtual bool MayDrop() const { return false; }
  // Does it write bytes in the alphabet of byte_level.h, and nothing else?
  [[nodiscard]] virtual bool IsByteLevel() const { return false; }
  // The scanner by which it cuts; null when it cuts by other means.
  [[nodiscard]] virtual const WordScanner* Words() const { return nullptr; }
};

class PreTokenizer {
 public:
  // Without a pre-tokenizer the text stays in one piece.
  static Result<PreTokenizer> FromJson(const std::optional<JsonNode>& node);

  // Linear, if the file's patterns are. The text has at most `limit` bytes, and the CPU budget of `regex` limits the
  // time; an error names the rule.
  Result<void> Apply(PreTokenizeScratch& scratch, std::size_t limit, RegexScratch& regex) const;
  [[nodiscard]] bool NeedsStart() const;
  // Can it leave text out? If not, the pieces together have at least as many bytes as the text.
  [[nodiscard]] bool MayDrop() const;
  [[nodiscard]] bool IsByteLevel() const;
  // The scanner, if its only steps are to cut words by a scanner and to write them in the byte-level alphabet; else
  // null.
  [[nodiscard]] const WordScanner* ByteLevelWords() const;

 private:
  struct Rule {
    std::string path;  // its place in the file: "pre_tokenizer.pretokenizers[1]"
    std::unique_ptr<const PreTokenizerStep> step;
  };
  Result<void> Append(const JsonNode& node);

  std::vector<Rule> rules_;
};

}  // namespace roost::text
