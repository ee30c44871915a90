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

std::string ShortTextAt(json::Element object, std::string_view key) {
  return Shortened(json::At<std::string_view>(object, key).value_or(""));
}

int CodeAt(json::Element object, int fallback) {
  const std::uint32_t code = json::At<std::uint32_t>(object, "code").value_or(0);
  return code >= 400 && code < 600 ? static_cast<int>(code) : fallback;
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

std::optional<Complaint> ReadComplaint(json::Element document, int status) {
  if (json::At<json::Object>(document, "error")) {
    const json::Element error = document["error"];
    return Complaint{CodeAt(error, status), ShortTextAt(error, "message"), ShortTextAt(error, "param")};
  }
  const auto text = json::At<std::string_view>(document, "error");
  if (text) return Complaint{status, Shortened(*text), ""};
  if (json::At<std::string_view>(document, "object") == "error") {
    return Complaint{CodeAt(document, status), ShortTextAt(document, "message"), ShortTextAt(document, "param")};
  }
  return std::nullopt;
}

Complaint ReadRefusal(simdjson::dom::parser& parser, int status, std::string_view body) {
  json::Element document;
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
