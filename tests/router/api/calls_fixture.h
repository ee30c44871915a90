// A model whose template has the markers of a family, asked with tools, and what it writes.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/router/api/api_fixture.h"

namespace roost::router {

inline constexpr std::string_view kTool =
    R"({"type":"function","function":{"name":"add","parameters":{"type":"object","properties":{"a":{"type":"integer"}},)"
    R"("required":["a"]}}})";

class CallsTest : public ApiTest {
 protected:
  CallsTest() { ServeTemplate("<tool_call> <think>"); }

  // A template that contains the markers of a family.
  void ServeTemplate(std::string_view signs) {
    ServedModel model = ByteModel();
    const std::string source =
        fmt::format("{{%- for m in messages -%}}{{{{ m.content }}}}{{%- endfor -%}}{{# {} #}}", signs);
    model.chat_template = std::move(ChatTemplate::Parse(source, "test template").value());
    Serve(std::move(model));
  }
  std::shared_ptr<FakeResponder> Ask(std::string_view members, std::string_view tool = kTool) {
    auto responder = Chat(fmt::format(
        R"({{"model":"bytes","messages":[{{"role":"user","content":"hi"}}],"tools":[{}],{}}})", tool, members));
    if (!dispatcher_.specs.empty()) dispatcher_.Dispatch(0);
    return responder;
  }
  void Write(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); i += 5) dispatcher_.Produce(Bytes(text.substr(i, 5)));
  }
  // One field of each chunk; chunks without it are left out.
  static std::vector<std::string> Parts(const FakeResponder& responder, std::string_view pointer) {
    std::vector<std::string> parts;
    for (const std::string& event : Events(responder)) {
      if (std::string part = At(event, pointer); !part.empty() && part != "null" && part != "\"\"")
        parts.push_back(std::move(part));
    }
    return parts;
  }
  static std::string Joined(const std::vector<std::string>& json_strings) {
    std::string text;
    for (const std::string& each : json_strings) text += each.substr(1, each.size() - 2);
    return text;
  }
};

}  // namespace roost::router
