// Small tokenizer files for tests, built from parts or read from testdata/.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "common/text/tokenizer.h"
#include "tests/support/source_dir.h"

namespace roost::testing_support {

struct FileParts {
  std::string model = R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]})";
  std::string added_tokens = "[]";
  std::string normalizer = "null";
  std::string pre_tokenizer = "null";
  std::string post_processor = "null";
  std::string decoder = R"({"type":"Fuse"})";
};

inline std::string ToJson(const FileParts& parts) {
  return fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":{},"normalizer":{},"pre_tokenizer":{},)"
      R"("post_processor":{},"decoder":{},"model":{}}})",
      parts.added_tokens, parts.normalizer, parts.pre_tokenizer, parts.post_processor, parts.decoder, parts.model);
}

inline std::shared_ptr<const Tokenizer> Load(const FileParts& parts) {
  auto loaded = Tokenizer::FromJson(ToJson(parts), "tokenizer.json");
  return std::move(loaded).value();
}

// The error of a file that must not load, or "" when it does.
inline std::string LoadError(std::string_view json) {
  const auto loaded = Tokenizer::FromJson(json, "tokenizer.json");
  return loaded.ok() ? "" : loaded.error().ToString();
}

inline std::shared_ptr<const Tokenizer> LoadTestdata(std::string_view name) {
  auto loaded = Tokenizer::FromFile(std::filesystem::path(testing_support::SourceDir()) / "tests/common/text/testdata" /
                                    std::string(name));
  return std::move(loaded).value();
}

}  // namespace roost::testing_support
