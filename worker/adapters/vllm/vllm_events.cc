// The KV events of vLLM 0.11 to 0.33, as cache changes. Fields by release:
//
//   0.11   arrays: ["BlockStored", block_hashes, parent_block_hash, token_ids, block_size, lora_id, medium],
//          ["BlockRemoved", block_hashes, medium], ["AllBlocksCleared"]
//   later  + lora_name (0.14) + extra_keys (0.17) + group_idx (0.20, in BlockRemoved too) + kv_cache_spec_kind and
//          kv_cache_spec_sliding_window (0.22)
//   0.24   maps with "type"
//   later  + locality (0.26) + ownership (0.29) + session_id (0.30) + lookahead_token_ids (0.33)
//
// Before 0.17 no event tells of a salt: blocks of salted requests look as if they had none.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "worker/adapters/events/cache_change.h"
#include "worker/adapters/events/event_fields.h"

namespace roost::worker::adapters {
namespace {

constexpr std::array<std::string_view, 11> kVllmStoredFields{"block_hashes",
                                                             "parent_block_hash",
                                                             "token_ids",
                                                             "block_size",
                                                             "lora_id",
                                                             "medium",
                                                             "lora_name",
                                                             "extra_keys",
                                                             "group_idx",
                                                             "kv_cache_spec_kind",
                                                             "kv_cache_spec_sliding_window"};
constexpr std::array<std::string_view, 3> kVllmRemovedFields{"block_hashes", "medium", "group_idx"};
constexpr EventLayout kVllmLayout{kVllmStoredFields, kVllmRemovedFields};

constexpr std::array<std::string_view, 1> kVllmDevice{"GPU"};
constexpr std::array<std::string_view, 1> kVllmLocal{"LOCAL"};
constexpr std::array<std::string_view, 3> kVllmFull{"full_attention", "mla_attention", "sink_full_attention"};
constexpr std::array<std::string_view, 2> kVllmWindow{"sliding_window", "sliding_window_mla"};
constexpr std::array<std::string_view, 1> kVllmRecurrent{"mamba"};

Result<CachePlace> VllmPlace(const EventFields& fields, std::uint32_t rank) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> group, OptionalU32(fields, "group_idx"));
  ROOST_ASSIGN_OR_RETURN(const bool on_device, IsMissingOrOneOf(fields, "medium", kVllmDevice));
  ROOST_ASSIGN_OR_RETURN(const bool is_local, IsMissingOrOneOf(fields, "locality", kVllmLocal));
  return CachePlace{.rank = rank, .group = group.value_or(0), .on_device = on_device && is_local};
}

// Fills in attention and window_tokens. Releases that tell no kind tell of full attention alone.
Result<void> ReadVllmLayout(const EventFields& fields, Stored& stored) {
  ROOST_ASSIGN_OR_RETURN(const bool is_full, IsMissingOrOneOf(fields, "kv_cache_spec_kind", kVllmFull));
  ROOST_ASSIGN_OR_RETURN(const bool is_window, IsMissingOrOneOf(fields, "kv_cache_spec_kind", kVllmWindow));
  ROOST_ASSIGN_OR_RETURN(const bool is_recurrent, IsMissingOrOneOf(fields, "kv_cache_spec_kind", kVllmRecurrent));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> window,
                         OptionalU32(fields, "kv_cache_spec_sliding_window"));
  stored.window_tokens = window.value_or(0);
  if (stored.window_tokens > 0) {
    stored.attention = is_window ? Attention::kWindow : Attention::kOther;
  } else if (is_full) {
    stored.attention = Attention::kFull;
  } else {
    stored.attention = is_recurrent ? Attention::kRecurrent : Attention::kOther;
  }
  return {};
}

// A block's keys without its adapter, which comes first.
std::span<const PackedValue> OtherKeys(const PackedValue::Array& keys, const Stored& stored) {
  const bool has_adapter =
      stored.adapter && !keys.empty() && keys.front().AsText() != nullptr && *keys.front().AsText() == *stored.adapter;
  return std::span(keys).subspan(has_adapter ? 1 : 0);
}

// An entry for each block: nil, or a list.
Result<void> ReadExtraKeys(const EventFields& fields, Stored& stored) {
  const PackedValue* field = fields.Find("extra_keys");
  if (field == nullptr) return {};
  const PackedValue::Array* entries = field->AsArray();
  if (entries == nullptr) return DataLoss("extra_keys", "is no list");
  for (const PackedValue& entry : *entries) {
    const PackedValue::Array* list = entry.AsArray();
    if (list == nullptr) {
      stored.extra_keys.push_back(entry.is_nil() ? ExtraKeys::kNone : ExtraKeys::kOther);
      continue;
    }
    const std::span<const PackedValue> keys = OtherKeys(*list, stored);
    if (keys.empty()) {
      stored.extra_keys.push_back(ExtraKeys::kNone);
    } else if (keys.size() == 1 && keys.front().AsText() != nullptr) {
      stored.extra_keys.push_back(ExtraKeys::kSalt);
      if (stored.extra_keys.size() == 1) stored.salt = *keys.front().AsText();
    } else {
      stored.extra_keys.push_back(ExtraKeys::kOther);
    }
  }
  return {};
}

// Is there any token in it, at whatever depth?
bool HoldsTokens(const PackedValue& value) {
  const PackedValue::Array* list = value.AsArray();
  if (list == nullptr) return !value.is_nil();
  return std::any_of(list->begin(), list->end(), HoldsTokens);
}

Result<CacheChange> VllmStored(const EventFields& fields, std::uint32_t rank) {
  ROOST_ASSIGN_OR_RETURN(Stored stored, ReadStored(fields));
  ROOST_ASSIGN_OR_RETURN(stored.place, VllmPlace(fields, rank));
  ROOST_RETURN_IF_ERROR(ReadVllmLayout(fields, stored));
  ROOST_RETURN_IF_ERROR(ReadExtraKeys(fields, stored));
  const PackedValue* lookahead = fields.Find("lookahead_token_ids");
  const bool looks_ahead = lookahead != nullptr && HoldsTokens(*lookahead);
  if (looks_ahead && stored.token_form == TokenForm::kPlain) stored.token_form = TokenForm::kLookahead;
  return CacheChange(std::move(stored));
}

Result<CacheChange> VllmEvent(const EventFields& fields, std::uint32_t rank) {
  if (fields.type() == "BlockStored") return VllmStored(fields, rank);
  if (fields.type() == "AllBlocksCleared") return CacheChange(Cleared{rank});
  if (fields.type() != "BlockRemoved") return CacheChange(UnknownEvent());
  Removed removed;
  ROOST_ASSIGN_OR_RETURN(removed.place, VllmPlace(fields, rank));
  ROOST_ASSIGN_OR_RETURN(removed.hashes, Hashes(fields, "block_hashes"));
  return CacheChange(std::move(removed));
}

}  // namespace

Result<std::vector<CacheChange>> DecodeVllmEvents(std::span<const std::byte> payload) {
  return DecodeMessage(payload, kVllmLayout, VllmEvent);
}

}  // namespace roost::worker::adapters
