// Template text to tokens, with Jinja2's rules for white space under trim_blocks and lstrip_blocks, which is how
// Hugging Face renders chat templates:
//
//   the newline after a block or comment tag is dropped; the spaces before one at the start of a line are dropped
//   `-` at a tag drops all white space on its side; `+` keeps what would be dropped
//   one newline at the end of the template is dropped; all line ends become "\n"
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/text/jinja/value.h"

namespace roost::jinja {

enum class TokenKind {
  kText,  // outside tags
  kPrintBegin,
  kPrintEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,  // `value` is the decoded string
  kNumber,  // `value` is Int or Float
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  int line;
  std::string text;  // the name, the operator, or the content of kText
  Value value = {};
};

// The last token is kEnd. `source` is valid UTF-8. Errors begin with "line N: ".
Result<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace roost::jinja
