#include "worker/adapters/engine_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace roost::worker::adapters {
namespace {

constexpr std::size_t kMaxMessageBytes = 1024;

// At most kMaxMessageBytes, and no half character at the end.
std::string Shortened(std::string_view text) {
  std::size_t size = std::min(text.size(), kMaxMessageBytes);
  while (size > 0 && size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) --size;
  return std::string(text.substr(0, size));
}

std::string ShortTextAt(const simdjson::dom::element& object, std::string_view key) {
  std::string_view text;
  return object[key].get(text) == simdjson::SUCCESS ? Shortened(text) : std::string();
}

int CodeAt(const simdjson::dom::element& object, int fallback) {
  std::int64_t code = 0;
  const bool is_status = object["code"].get(code) == simdjson::SUCCESS && code >= 400 && code < 600;
  return is_status ? static_cast<int>(code) : fallback;
}

ErrorCode CodeOf(int status) {
  switch (status) {
    case 400:
    case 413:
    case 422: return ErrorCode::kInvalidArgument;
    case 429:
    case 503: return ErrorCode::kOverloaded;
    default: return ErrorCode::kUnavailable;
  }
}

}  // namespace

std::optional<Complaint> ReadComplaint(const simdjson::dom::element& document, int status) {
  simdjson::dom::element error;
  std::string_view text;
  if (document["error"].get(error) == simdjson::SUCCESS && error.is_object()) {
    return Complaint{CodeAt(error, status), ShortTextAt(error, "message"), ShortTextAt(error, "param")};
  }
  if (document["error"].get(text) == simdjson::SUCCESS) return Complaint{status, Shortened(text), ""};
  if (document["object"].get(text) == simdjson::SUCCESS && text == "error") {
    return Complaint{CodeAt(document, status), ShortTextAt(document, "message"), ShortTextAt(document, "param")};
  }
  return std::nullopt;
}

Complaint ReadRefusal(simdjson::dom::parser& parser, int status, std::string_view body) {
  simdjson::dom::element document;
  if (parser.parse(body.data(), body.size()).get(document) == simdjson::SUCCESS) {
    if (std::optional<Complaint> complaint = ReadComplaint(document, status)) return *std::move(complaint);
  }
  return {status, Shortened(body), ""};
}

Error ErrorOf(const Complaint& complaint, std::string field) {
  const ErrorCode code = CodeOf(complaint.code);
  if (code == ErrorCode::kInvalidArgument && !complaint.message.empty()) {
    return {code, complaint.message, std::move(field)};
  }
  const std::string said = complaint.message.empty() ? "" : ": " + complaint.message;
  return {code, fmt::format("the engine answers with status {}{}", complaint.code, said), ""};
}

Error ErrorOf(const HttpEnd& end) {
  switch (end.how) {
    case CallEnd::kComplete: return Unavailable("the engine ended its answer too early");
    case CallEnd::kNotConnected: return Unavailable(fmt::format("the engine can not be reached ({})", end.why));
    case CallEnd::kTooSlow: return Unavailable("the engine does not answer in time");
    case CallEnd::kBroken: break;
  }
  return Unavailable(fmt::format("the connection to the engine was lost ({})", end.why));
}

Error Unavailable(std::string message) { return {ErrorCode::kUnavailable, std::move(message), ""}; }

}  // namespace roost::worker::adapters
