#include "worker/adapters/events/message_pack.h"

#include <exception>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace roost::worker::adapters {
namespace {

using Json = nlohmann::json;

// Takes the parser's calls and builds the value. A call that returns false ends the parsing. The parser descends into
// itself, so the bound on depth bounds its stack, too.
class Builder {  // NOLINT(readability-identifier-naming): the parser asks for the names of the calls
 public:
  // NOLINTBEGIN(readability-identifier-naming)
  bool null() { return Add({}); }
  bool boolean(bool value) { return Add({value}); }
  bool number_integer(std::int64_t value) { return Add({value}); }
  bool number_unsigned(std::uint64_t value) { return Add({value}); }
  bool number_float(double value, const std::string&) { return Add({value}); }
  bool string(std::string& value) { return Add({std::move(value)}); }
  bool binary(Json::binary_t& value) { return Add({PackedValue::Bytes{std::string(value.begin(), value.end())}}); }
  bool start_object(std::size_t) { return Open({PackedValue::Map()}); }
  bool key(std::string& name) {
    key_ = std::move(name);
    return true;
  }
  bool end_object() { return Close(); }
  bool start_array(std::size_t) { return Open({PackedValue::Array()}); }
  bool end_array() { return Close(); }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) { return false; }
  // NOLINTEND(readability-identifier-naming)

  [[nodiscard]] PackedValue Take() && { return std::move(root_); }

 private:
  // Null: over a bound.
  PackedValue* Place(PackedValue value) {
    if (++count_ > kMaxPackedValues) return nullptr;
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    auto* array = std::get_if<PackedValue::Array>(&open_.back()->value);
    if (array == nullptr) {
      auto* map = std::get_if<PackedValue::Map>(&open_.back()->value);
      map->names.push_back(std::move(key_));
      array = &map->values;
    }
    return &array->emplace_back(std::move(value));
  }
  bool Add(PackedValue value) { return Place(std::move(value)) != nullptr; }
  bool Open(PackedValue value) {
    if (open_.size() == kMaxPackedDepth) return false;
    PackedValue* placed = Place(std::move(value));
    if (placed == nullptr) return false;
    open_.push_back(placed);
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  PackedValue root_;
  std::vector<PackedValue*> open_;  // the arrays and maps around the next value; a list grows only while it is the last
  std::string key_;                 // of the next value, in a map
  std::size_t count_ = 0;
};

}  // namespace

std::optional<std::uint32_t> PackedValue::AsU32() const {
  constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (const auto* number = std::get_if<std::uint64_t>(&value); number != nullptr && *number <= kMost) {
    return static_cast<std::uint32_t>(*number);
  }
  if (const auto* number = std::get_if<std::int64_t>(&value); number != nullptr && *number >= 0 && *number <= kMost) {
    return static_cast<std::uint32_t>(*number);
  }
  return std::nullopt;
}

Result<PackedValue> ParseMessagePack(std::span<const std::byte> message) {
  if (message.size() > kMaxPackedBytes) return DataLoss("events", "a message of {} bytes is too long", message.size());
  Builder builder;
  const auto* begin = reinterpret_cast<const char*>(message.data());
  bool parsed = false;
  try {
    parsed = Json::sax_parse(begin, begin + message.size(), &builder, Json::input_format_t::msgpack);
  } catch (const std::exception&) {
    parsed = false;  // out of memory
  }
  if (!parsed) return DataLoss("events", "a message of {} bytes is not MessagePack within bounds", message.size());
  return std::move(builder).Take();
}

}  // namespace roost::worker::adapters
