#include "router/api/call_writer.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/rng.h"

namespace roost::router {
namespace {

// FNV-1a. Ids only need to be spread well.
std::uint64_t SpreadHash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

}  // namespace

std::string CallWriter::IdOf(std::uint32_t index) const {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  constexpr int kUsualSize = 24;
  constexpr int kNineSize = 9;
  Rng random(SpreadHash(fmt::format("{}/{}/{}", ids_.answer_id, ids_.choice, index)));
  const bool is_usual = ids_.form == CallIds::Form::kUsual;
  std::string id = is_usual ? "call_" : "";
  for (int i = 0; i < (is_usual ? kUsualSize : kNineSize); ++i) id += kLetters[random.Below(kLetters.size())];
  return id;
}

void CallWriter::Begin(std::string name, AnswerDelta& delta) {
  delta.tool_calls.push_back({.index = count_, .id = IdOf(count_), .name = std::move(name), .arguments = {}});
  ++count_;
}

void CallWriter::Arguments(std::string_view text, AnswerDelta& delta) {
  if (text.empty() || count_ == 0) return;
  const std::uint32_t index = count_ - 1;
  if (delta.tool_calls.empty() || delta.tool_calls.back().index != index) {
    delta.tool_calls.push_back({.index = index, .id = {}, .name = {}, .arguments = {}});
  }
  delta.tool_calls.back().arguments += text;
}

}  // namespace roost::router
