// Small tokenizers for tests of the prompt memo, with added tokens of every kind that affects where a text may be cut:
// tokens that begin or contain another one, match only as whole words, strip white space, or are found in normalised
// text.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/text/tokenizer.h"
#include "tests/support/byte_vocabulary.h"

namespace roost::testing_support {

inline std::string AddedTokensJson(int first_id) {
  struct Row {
    std::string_view content;
    std::string_view flags;  // the ones that are set of w(ord), l(eft), r(ight), n(ormalized), s(pecial)
  };
  constexpr Row kRows[] = {{"<e>", "s"},    {"<e>b", "s"},  {"x<e>y", "s"}, {"Ww", "w"},   {"<l>", "ls"},
                           {"<r>", "rs"},   {"<n>", "ns"},  {"<m>", "n"},   {"<t>", ""},   {"<lr>", "lr"},
                           {"<wl>", "wls"}, {"<nr>", "nr"}, {"<e><e>", ""}, {"<nw>", "nw"}};
  std::string json = "[";
  int id = first_id;
  for (const Row& row : kRows) {
    const auto has = [&](char flag) { return row.flags.find(flag) != std::string_view::npos; };
    if (json.size() > 1) json += ',';
    json += fmt::format(
        R"({{"id":{},"content":"{}","single_word":{},"lstrip":{},"rstrip":{},"normalized":{},"special":{}}})", id++,
        row.content, has('w'), has('l'), has('r'), has('n'), has('s'));
  }
  return json + "]";
}

inline std::string FallbackModelJson() {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) vocab += fmt::format(R"("<0x{:02X}>":{},)", byte, byte);
  vocab += R"("▁":256,"a":257,"▁a":258,"b":259,"ab":260)";
  return fmt::format(R"({{"type":"BPE","byte_fallback":true,"vocab":{{{}}},"merges":["▁ a","a b"]}})", vocab);
}

struct MemoTokenizerParts {
  std::string model;
  int token_count;  // tokens of the model
  std::string normalizer;
  std::string pre_tokenizer;
};

inline std::shared_ptr<const Tokenizer> MakeMemoTokenizer(const MemoTokenizerParts& parts) {
  constexpr std::string_view kFrame =
      R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<e>","type_id":0}},{"Sequence":{"id":"A",)"
      R"("type_id":0}},{"SpecialToken":{"id":"<l>","type_id":0}}],"pair":[],"special_tokens":{"<e>":{"id":"<e>",)"
      R"("ids":[260],"tokens":["<e>"]},"<l>":{"id":"<l>","ids":[261],"tokens":["<l>"]}}})";
  const std::string json = fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":{},"normalizer":{},"pre_tokenizer":{},)"
      R"("post_processor":{},"decoder":{{"type":"Fuse"}},"model":{}}})",
      AddedTokensJson(parts.token_count), parts.normalizer, parts.pre_tokenizer, kFrame, parts.model);
  return std::move(Tokenizer::FromJson(json, "memo")).value();
}

inline std::vector<std::shared_ptr<const Tokenizer>> MemoTokenizers() {
  constexpr std::string_view kByteLevel = R"({"type":"ByteLevel","add_prefix_space":false})";
  constexpr std::string_view kMetaspace = R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"first"})";
  constexpr std::string_view kPrepend =
      R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace",)"
      R"("pattern":{"String":" "},"content":"▁"}]})";
  constexpr std::string_view kStrip =
      R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Strip","strip_left":true,"strip_right":true}]})";
  return {MakeMemoTokenizer({ByteLevelModelJson(), 260, "null", std::string(kByteLevel)}),
          MakeMemoTokenizer({FallbackModelJson(), 261, "null", std::string(kMetaspace)}),
          MakeMemoTokenizer({FallbackModelJson(), 261, std::string(kPrepend), "null"}),
          MakeMemoTokenizer({ByteLevelModelJson(), 260, std::string(kStrip), std::string(kByteLevel)})};
}

}  // namespace roost::testing_support
