// Small verbs for tests of chat templates.
#pragma once

#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "common/text/chat_template.h"
#include "common/text/jinja/json.h"

namespace roost::testing_support {

// 2026-11-20 12:00, the date of every stored answer.
inline RenderOptions StoredDate() {
  RenderOptions options;
  options.now.tm_year = 126;
  options.now.tm_mon = 10;
  options.now.tm_mday = 20;
  options.now.tm_hour = 12;
  timegm(&options.now);  // fills in the days of week and year
  return options;
}

inline Result<std::string> RenderTemplate(std::string_view source, const jinja::Value& context,
                                          const RenderOptions& options = StoredDate()) {
  ROOST_ASSIGN_OR_RETURN(const auto parsed, ChatTemplate::Parse(source, "test"));
  return parsed->Render(context, options);
}

inline Result<std::string> RenderTemplate(std::string_view source, std::string_view context_json = "{}",
                                          const RenderOptions& options = StoredDate()) {
  ROOST_ASSIGN_OR_RETURN(const jinja::Value context, jinja::FromJson(context_json, "context"));
  return RenderTemplate(source, context, options);
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace roost::testing_support
