// Reads the events of one message by the names of their fields, for the decoders. vLLM and SGLang share the frame and
// most names:
//
//   message   [timestamp, [event …], rank]
//   event     {"type": "BlockStored", "block_hashes": …, …}     or, before, ["BlockStored", block_hashes, …]
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "worker/adapters/events/cache_change.h"
#include "worker/adapters/events/message_pack.h"

namespace roost::worker::adapters {

// The names of a kind of event in arrays, from the second item on. Empty: the engine sends no arrays.
using FieldNames = std::span<const std::string_view>;

struct EventLayout {
  FieldNames stored;
  FieldNames removed;
};

// One event. It refers to the value that it was made from.
class EventFields {
 public:
  // kDataLoss: neither an event of a known form.
  [[nodiscard]] static Result<EventFields> Of(const PackedValue& event, const EventLayout& layout);

  [[nodiscard]] std::string_view type() const { return type_; }
  // Null when it is missing or nil. O(fields).
  [[nodiscard]] const PackedValue* Find(std::string_view name) const;

 private:
  std::string_view type_;
  const PackedValue* event_ = nullptr;
  FieldNames names_;
};

// The value of a field that may be missing. kDataLoss: it has another type.
[[nodiscard]] Result<std::optional<std::uint32_t>> OptionalU32(const EventFields& fields, std::string_view name);
[[nodiscard]] Result<std::optional<std::string>> OptionalText(const EventFields& fields, std::string_view name);
[[nodiscard]] Result<std::optional<std::string>> OptionalHash(const EventFields& fields, std::string_view name);
// kDataLoss also when it is missing.
[[nodiscard]] Result<std::vector<std::string>> Hashes(const EventFields& fields, std::string_view name);

// Reads the fields that both engines tell the same way: hashes, parent, tokens, block size, adapter. The place is left
// to the caller.
[[nodiscard]] Result<Stored> ReadStored(const EventFields& fields);

// The text at `name` is among `known`, or missing?
[[nodiscard]] Result<bool> IsMissingOrOneOf(const EventFields& fields, std::string_view name,
                                            std::span<const std::string_view> known);

// Decodes one event of a message from this rank.
using OneEventDecoder = Result<CacheChange> (*)(const EventFields& fields, std::uint32_t rank);

// The events of a message in order.
[[nodiscard]] Result<std::vector<CacheChange>> DecodeMessage(std::span<const std::byte> payload,
                                                             const EventLayout& layout, OneEventDecoder decode);

}  // namespace roost::worker::adapters
