// The "post_processor" part of a tokenizer file: the special tokens before and after every text. Supports all kinds:
// TemplateProcessing, BertProcessing, RobertaProcessing, Sequence, and ByteLevel, which only moves offsets and so does
// nothing here.
#pragma once

#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/text/json_node.h"

namespace roost::text {

struct SpecialTokenFrame {
  std::vector<TokenId> before;
  std::vector<TokenId> after;

  static Result<SpecialTokenFrame> FromJson(const std::optional<JsonNode>& node);
};

}  // namespace roost::text
