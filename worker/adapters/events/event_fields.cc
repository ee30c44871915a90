#include "worker/adapters/events/event_fields.h"

#include <algorithm>
#include <utility>

namespace roost::worker::adapters {
namespace {

constexpr std::size_t kMaxHashBytes = 64;

Error WrongType(std::string_view name) { return DataLoss(std::string(name), "has an unexpected type"); }

std::string BigEndian(std::uint64_t number) {
  std::string bytes(sizeof(number), '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>((number >> (56U - 8U * i)) & 0xFFU);
  return bytes;
}

// Nothing: not a hash.
std::optional<std::string> HashOf(const PackedValue& value) {
  if (const auto* number = std::get_if<std::uint64_t>(&value.value)) return BigEndian(*number);
  if (const auto* number = std::get_if<std::int64_t>(&value.value))
    return BigEndian(static_cast<std::uint64_t>(*number));
  const auto* bytes = std::get_if<PackedValue::Bytes>(&value.value);
  if (bytes == nullptr || bytes->bytes.empty() || bytes->bytes.size() > kMaxHashBytes) return std::nullopt;
  return bytes->bytes;
}

// Fills in token_ids and token_form.
Result<void> ReadTokens(const EventFields& fields, Stored& stored) {
  const PackedValue* field = fields.Find("token_ids");
  const PackedValue::Array* tokens = field == nullptr ? nullptr : field->AsArray();
  if (tokens == nullptr) return WrongType("token_ids");
  stored.token_ids.reserve(tokens->size());
  for (const PackedValue& token : *tokens) {
    if (const std::optional<std::uint32_t> id = token.AsU32()) {
      stored.token_ids.push_back(*id);
    } else if (token.AsArray() != nullptr) {
      stored.token_form = TokenForm::kOther;  // pairs of tokens
      stored.token_ids.clear();
      return {};
    } else {
      return WrongType("token_ids");
    }
  }
  return {};
}

// Older engines tell only a number, which means nothing to others.
Result<std::optional<std::string>> AdapterOf(const EventFields& fields) {
  ROOST_ASSIGN_OR_RETURN(std::optional<std::string> name, OptionalText(fields, "lora_name"));
  if (name && !name->empty()) return name;
  return fields.Find("lora_id") == nullptr ? std::nullopt : std::optional<std::string>("");
}

}  // namespace

Result<EventFields> EventFields::Of(const PackedValue& event, const EventLayout& layout) {
  EventFields fields;
  fields.event_ = &event;
  if (event.AsMap() != nullptr) {
    const PackedValue* type = fields.Find("type");
    if (type == nullptr || type->AsText() == nullptr) return WrongType("type");
    fields.type_ = *type->AsText();
    return fields;
  }
  const PackedValue::Array* items = event.AsArray();
  if (items == nullptr || items->empty() || items->front().AsText() == nullptr || layout.stored.empty()) {
    return WrongType("events");
  }
  fields.type_ = *items->front().AsText();
  fields.names_ = fields.type_ == "BlockStored" ? layout.stored : layout.removed;
  return fields;
}

const PackedValue* EventFields::Find(std::string_view name) const {
  const PackedValue* found = nullptr;
  if (const PackedValue::Map* map = event_->AsMap()) {
    const auto entry = std::find(map->names.begin(), map->names.end(), name);
    if (entry != map->names.end()) found = &map->values[static_cast<std::size_t>(entry - map->names.begin())];
  } else {
    const PackedValue::Array& items = *event_->AsArray();
    const auto index = static_cast<std::size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
    if (index < names_.size() && index + 1 < items.size()) found = &items[index + 1];
  }
  return found == nullptr || found->is_nil() ? nullptr : found;
}

Result<std::optional<std::uint32_t>> OptionalU32(const EventFields& fields, std::string_view name) {
  const PackedValue* field = fields.Find(name);
  if (field == nullptr) return std::optional<std::uint32_t>();
  const std::optional<std::uint32_t> number = field->AsU32();
  if (!number) return WrongType(name);
  return number;
}

Result<std::optional<std::string>> OptionalText(const EventFields& fields, std::string_view name) {
  const PackedValue* field = fields.Find(name);
  if (field == nullptr) return std::optional<std::string>();
  if (field->AsText() == nullptr) return WrongType(name);
  return std::optional<std::string>(*field->AsText());
}

Result<std::optional<std::string>> OptionalHash(const EventFields& fields, std::string_view name) {
  const PackedValue* field = fields.Find(name);
  if (field == nullptr) return std::optional<std::string>();
  std::optional<std::string> hash = HashOf(*field);
  if (!hash) return WrongType(name);
  return hash;
}

Result<std::vector<std::string>> Hashes(const EventFields& fields, std::string_view name) {
  const PackedValue* field = fields.Find(name);
  const PackedValue::Array* list = field == nullptr ? nullptr : field->AsArray();
  if (list == nullptr) return WrongType(name);
  std::vector<std::string> hashes;
  hashes.reserve(list->size());
  for (const PackedValue& item : *list) {
    std::optional<std::string> hash = HashOf(item);
    if (!hash) return WrongType(name);
    hashes.push_back(*std::move(hash));
  }
  return hashes;
}

Result<Stored> ReadStored(const EventFields& fields) {
  Stored stored;
  ROOST_ASSIGN_OR_RETURN(stored.hashes, Hashes(fields, "block_hashes"));
  ROOST_ASSIGN_OR_RETURN(stored.parent, OptionalHash(fields, "parent_block_hash"));
  ROOST_RETURN_IF_ERROR(ReadTokens(fields, stored));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> block_tokens, OptionalU32(fields, "block_size"));
  if (!block_tokens) return WrongType("block_size");
  stored.block_tokens = *block_tokens;
  ROOST_ASSIGN_OR_RETURN(stored.adapter, AdapterOf(fields));
  return stored;
}

Result<bool> IsMissingOrOneOf(const EventFields& fields, std::string_view name,
                              std::span<const std::string_view> known) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string> text, OptionalText(fields, name));
  return !text || std::find(known.begin(), known.end(), *text) != known.end();
}

Result<std::vector<CacheChange>> DecodeMessage(std::span<const std::byte> payload, const EventLayout& layout,
                                               OneEventDecoder decode) {
  ROOST_ASSIGN_OR_RETURN(const PackedValue message, ParseMessagePack(payload));
  const PackedValue::Array* items = message.AsArray();
  if (items == nullptr || items->size() < 2) return WrongType("events");
  const PackedValue::Array* events = (*items)[1].AsArray();
  if (events == nullptr) return WrongType("events");
  std::uint32_t rank = 0;
  if (items->size() > 2 && !(*items)[2].is_nil()) {
    const std::optional<std::uint32_t> told = (*items)[2].AsU32();
    if (!told) return WrongType("data_parallel_rank");
    rank = *told;
  }
  std::vector<CacheChange> changes;
  changes.reserve(events->size());
  for (const PackedValue& event : *events) {
    ROOST_ASSIGN_OR_RETURN(const EventFields fields, EventFields::Of(event, layout));
    ROOST_ASSIGN_OR_RETURN(CacheChange change, decode(fields, rank));
    changes.push_back(std::move(change));
  }
  return changes;
}

}  // namespace roost::worker::adapters
