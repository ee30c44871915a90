#include "tests/support/scripted_worker/script.h"

#include <simdjson.h>

#include <algorithm>
#include <utility>

namespace roost::testing_support {

Result<Script> Script::Parse(const std::string& json, const std::string& name) {
  simdjson::dom::parser parser;
  simdjson::dom::array rules;
  if (parser.parse(simdjson::padded_string(json)).get(rules) != simdjson::SUCCESS) {
    return InvalidArgument(name, "must be a JSON array of rules");
  }
  Script script;
  for (const simdjson::dom::element element : rules) {
    Rule rule;
    std::string_view answer;
    if (element["answer"].get(answer) != simdjson::SUCCESS) {
      return InvalidArgument(name, "rule {} has no answer", script.rules_.size());
    }
    rule.answer = answer;
    if (simdjson::dom::array texts; element["when"].get(texts) == simdjson::SUCCESS) {
      for (const simdjson::dom::element item : texts) {
        std::string_view text;
        if (item.get(text) != simdjson::SUCCESS) {
          return InvalidArgument(name, "rule {}: when must hold strings", script.rules_.size());
        }
        rule.when.emplace_back(text);
      }
    }
    script.rules_.push_back(std::move(rule));
  }
  return script;
}

std::string_view Script::AnswerTo(std::string_view prompt) const {
  const auto found = std::find_if(rules_.begin(), rules_.end(), [prompt](const Rule& rule) {
    return std::all_of(rule.when.begin(), rule.when.end(),
                       [prompt](const std::string& text) { return prompt.find(text) != std::string_view::npos; });
  });
  return found == rules_.end() ? std::string_view() : std::string_view(found->answer);
}

}  // namespace roost::testing_support
