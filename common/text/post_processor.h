// The "post_processor" part of a tokenizer file: the special tokens that are put before and after every text.
// Supported: all kinds: TemplateProcessing, BertProcessing, RobertaProcessing, Sequence, and ByteLevel, which only
// moves offsets, and there are none here.
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
