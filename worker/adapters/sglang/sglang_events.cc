// The KV events of SGLang 0.5.23, as cache changes: maps with "type", as vLLM's, and these differences:
//
//   hashes      signed 64-bit integers
//   medium      GPU, CPU_PINNED, DISK or EXTERNAL
//   cache_salt  a text in the event, instead of extra keys
//
// Before issue 39991 was closed, blocks of an adapter may have the hashes of the base model's.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "worker/adapters/events/cache_change.h"
#include "worker/adapters/events/event_fields.h"

namespace roost::worker::adapters {
namespace {

constexpr EventLayout kSglangLayout{};
constexpr std::array<std::string_view, 1> kSglangDevice{"GPU"};

Result<CachePlace> SglangPlace(const EventFields& fields, std::uint32_t rank) {
  ROOST_ASSIGN_OR_RETURN(const bool on_device, IsMissingOrOneOf(fields, "medium", kSglangDevice));
  return CachePlace{.rank = rank, .group = 0, .on_device = on_device};
}

Result<CacheChange> SglangStored(const EventFields& fields, std::uint32_t rank) {
  ROOST_ASSIGN_OR_RETURN(Stored stored, ReadStored(fields));
  ROOST_ASSIGN_OR_RETURN(stored.place, SglangPlace(fields, rank));
  ROOST_ASSIGN_OR_RETURN(std::optional<std::string> salt, OptionalText(fields, "cache_salt"));
  if (salt && !salt->empty() && !stored.parent) {  // a later event repeats it; there it follows from the parent
    stored.salt = *std::move(salt);
    stored.extra_keys = {ExtraKeys::kSalt};
  }
  return CacheChange(std::move(stored));
}

Result<CacheChange> SglangEvent(const EventFields& fields, std::uint32_t rank) {
  if (fields.type() == "BlockStored") return SglangStored(fields, rank);
  if (fields.type() == "AllBlocksCleared") return CacheChange(Cleared{rank});
  if (fields.type() != "BlockRemoved") return CacheChange(UnknownEvent());
  Removed removed;
  ROOST_ASSIGN_OR_RETURN(removed.place, SglangPlace(fields, rank));
  ROOST_ASSIGN_OR_RETURN(removed.hashes, Hashes(fields, "block_hashes"));
  return CacheChange(std::move(removed));
}

}  // namespace

Result<std::vector<CacheChange>> DecodeSglangEvents(std::span<const std::byte> payload) {
  return DecodeMessage(payload, kSglangLayout, SglangEvent);
}

}  // namespace roost::worker::adapters
