// Byte-level vocabularies of small tokenizers for tests, as tokenizer.json writes them.
#pragma once

#include <fmt/format.h>

#include <string>

#include "common/base/json_writer.h"
#include "common/text/byte_level.h"

namespace roost::testing_support {

// The members of "vocab" for all bytes, each with itself as its id: "Ā":0, … "ÿ":255.
inline std::string ByteVocabularyJson() {
  std::string vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    std::string character;
    text::AppendByteLevel(std::string(1, static_cast<char>(byte)), character);
    if (byte > 0) vocabulary += ',';
    AppendJsonString(character, vocabulary);
    vocabulary += fmt::format(":{}", byte);
  }
  return vocabulary;
}

// A model of all bytes and some merges; its ids are below 260.
inline std::string ByteLevelModelJson() {
  return fmt::format(R"({{"type":"BPE","vocab":{{{},"ab":256,"abab":257,"Ġa":258,"ä½":259}},)"
                     R"("merges":["a b","ab ab","Ġ a","ä ½"]}})",
                     ByteVocabularyJson());
}

}  // namespace roost::testing_support
