// Code that the Metaspace pre-tokenizer and decoder share: a visible character replaces the space.
#pragma once

#include <string>

#include "common/base/result.h"
#include "common/json/json_node.h"

namespace roost::text {

enum class PrependScheme { kAlways, kFirst, kNever };

struct Metaspace {
  std::string replacement;  // one character
  PrependScheme scheme = PrependScheme::kAlways;

  static Result<Metaspace> FromJson(const JsonNode& node);
};

}  // namespace roost::text
