// The seam of the codec that is made from the schema: the functions that it defines, ReadMessage and WriteMessage, and
// those that it calls, for rules between the fields of a message and for single values inside of it.
#pragma once

#include <capnp/blob.h>
#include <kj/string.h>

#include <cstddef>
#include <limits>
#include <optional>
#include <string>

#include "common/base/check.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "schema/roost.capnp.h"

namespace roost::wire {

// The parts of the codec that are made from the schema: whole messages in Cap'n Proto's readers and builders.

// Reads and checks a message; errors name the field. Nothing for a message of a kind that this version does not know.
// May throw kj::Exception, as any read of a malformed message.
[[nodiscard]] Result<std::optional<WorkerMessage>> ReadMessage(schema::WorkerMessage::Reader in);
[[nodiscard]] Result<std::optional<RouterMessage>> ReadMessage(schema::RouterMessage::Reader in);
[[nodiscard]] Result<std::optional<PeerMessage>> ReadMessage(schema::PeerMessage::Reader in);

// A list or text over its limit stops the program.
void WriteMessage(const WorkerMessage& in, schema::WorkerMessage::Builder out);
void WriteMessage(const RouterMessage& in, schema::RouterMessage::Builder out);
void WriteMessage(const PeerMessage& in, schema::PeerMessage::Builder out);

// The rules between the fields of a message, which no bound of one field tells: $check in schema/roost.capnp. The
// decoder calls them once the message is read. They also give a meaning to what a newer peer sent: `in` has the values
// that the plain message can not hold.

// A hello of another major version may mean anything by the fields behind its epoch.
[[nodiscard]] inline bool IsOfAnotherMajor(const Hello& hello) { return hello.version.major != kProtocolMajor; }

[[nodiscard]] Result<void> Check(schema::Hello::Reader in, const Hello& hello);
[[nodiscard]] Result<void> Check(schema::TokenEvent::Reader in, TokenEvent& event);
[[nodiscard]] Result<void> Check(schema::Load::Reader in, const Load& load);
[[nodiscard]] Result<void> Check(schema::Snapshot::Reader in, const Snapshot& snapshot);
[[nodiscard]] Result<void> Check(schema::UsedPrefix::Reader in, const UsedPrefix& prefix);
[[nodiscard]] Result<void> Check(schema::Prefixes::Reader in, const Prefixes& answer);
[[nodiscard]] Result<void> Check(schema::Generate::Reader in, Generate& generate);
[[nodiscard]] Result<void> Check(schema::Evict::What::Prompt::Reader in, const PromptToEvict& prompt);
[[nodiscard]] Result<void> Check(schema::Hold::Reader in, const Hold& hold);

// Reads and checks single values inside messages, for the decoder that is made from the schema. Errors name the field.
// May throw kj::Exception, as any read of a malformed message.

// The texts that a field may hold; schema/annotations.capnp.
enum class TextKind { kAny, kLine, kLabel };
struct TextRule {
  TextKind kind = TextKind::kAny;
  std::size_t most = 0;  // bytes
};
[[nodiscard]] Result<void> ReadText(capnp::Text::Reader text, TextRule rule, const char* field, std::string& out);

// At most `most` bytes, of any value.
[[nodiscard]] Result<void> ReadData(capnp::Data::Reader data, std::size_t most, const char* field, std::string& out);

struct CountRule {
  std::size_t least = 0;
  std::size_t most = 0;
};
[[nodiscard]] inline Result<void> CheckCount(std::size_t count, CountRule rule, const char* field) {
  if (count < rule.least) [[unlikely]]
    return DataLoss(field, "empty");
  if (count > rule.most) [[unlikely]]
    return DataLoss(field, "{} items, limit {}", count, rule.most);
  return {};
}

// These refuse NaN too: it is not between any bounds.
template <typename T>
[[nodiscard]] Result<void> CheckBetween(T value, T least, T most, const char* field) {
  if (!(value >= least && value <= most)) [[unlikely]]
    return DataLoss(field, "{} is not from {} to {}", value, least, most);
  return {};
}
template <typename T>
[[nodiscard]] Result<void> CheckAbove(T value, T above, T most, const char* field) {
  if (!(value > above && value <= most)) [[unlikely]]
    return DataLoss(field, "{} is not in ({}, {}]", value, above, most);
  return {};
}
template <typename T>
[[nodiscard]] Result<void> CheckAtMost(T value, T most, const char* field) {
  if (!(value <= most)) [[unlikely]]
    return DataLoss(field, "{}, limit {}", value, most);
  return {};
}
// Finite, too.
template <typename T>
[[nodiscard]] Result<void> CheckAtLeast(T value, T least, const char* field) {
  if (!(value >= least && value <= std::numeric_limits<T>::max())) [[unlikely]]
    return DataLoss(field, "{} is not a number from {} up", value, least);
  return {};
}

// Writes single values inside messages, for the encoder that is made from the schema. A value over its limit stops the
// program.

// The size of a list, at most `most`. Cap'n Proto counts lists in 32 bits; the limits are far below that.
[[nodiscard]] inline unsigned Count(std::size_t count, std::size_t most, const char* field) {
  ROOST_CHECK(count <= most, "{} {}, limit {}", count, field, most);
  return static_cast<unsigned>(count);
}

// At most `most` bytes. It points into `text`.
[[nodiscard]] inline kj::StringPtr Text(const std::string& text, std::size_t most, const char* field) {
  ROOST_CHECK(text.size() <= most, "{}: {} bytes, limit {}", field, text.size(), most);
  return {text.c_str(), text.size()};
}

[[nodiscard]] inline capnp::Data::Reader Data(const std::string& data, std::size_t most, const char* field) {
  ROOST_CHECK(data.size() <= most, "{}: {} bytes, limit {}", field, data.size(), most);
  return {reinterpret_cast<const kj::byte*>(data.data()), data.size()};
}

// Errors may quote long input. Only the front of a long text is sent, always as UTF-8.
[[nodiscard]] std::string BoundedText(const std::string& text);

}  // namespace roost::wire
