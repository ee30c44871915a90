#include "common/wire/zmtp_watch.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace roost::wire {
namespace {

constexpr std::size_t kGreetingBytes = 64;
constexpr std::size_t kMajorVersionAt = 10;
constexpr std::size_t kMechanismAt = 12;
constexpr std::size_t kMechanismBytes = 20;  // its name, and zeros
constexpr unsigned char kMore = 1;
constexpr unsigned char kLong = 2;
constexpr unsigned char kCommand = 4;

Error NotTaken(std::string why) { return {ErrorCode::kInvalidArgument, std::move(why), "peer"}; }

std::string_view NameOf(Mechanism mechanism) { return mechanism == Mechanism::kCurve ? "CURVE" : "NULL"; }

Error NotOfMechanism(Mechanism wanted) {
  return {ErrorCode::kUnauthenticated,
          wanted == Mechanism::kCurve ? "it has no key, and this router demands one"
                                      : "it has a key, and this router has none (--link-secret-key)",
          "peer"};
}

}  // namespace

Result<void> ZmtpWatch::Take(std::span<char> bytes, Instant now) {
  now_ = now;
  while (!bytes.empty()) {
    if (part_ != Part::kMessage) {
      ROOST_RETURN_IF_ERROR(TakeByte(bytes.front()));
      bytes = bytes.subspan(1);
      continue;
    }
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(body_left_, bytes.size()));
    bytes = bytes.subspan(size);
    body_left_ -= size;
    if (body_left_ > 0) continue;
    memory_.Shrink(memory_.bytes());
    part_ = Part::kFlags;
  }
  return {};
}

Result<void> ZmtpWatch::TakeByte(char& byte) {
  const auto value = static_cast<unsigned char>(byte);
  switch (part_) {
    case Part::kGreeting: return TakeGreeting(value);
    case Part::kFlags: return TakeFlags(value);
    case Part::kLength: length_ = length_ << 8U | value; return --length_left_ == 0 ? BeginBody() : Result<void>();
    case Part::kCommand: TakeCommandByte(byte); break;
    case Part::kMessage: break;  // Take skips bodies
  }
  return {};
}

// Changes the last letter of the property name `Identity` (behind its length byte) in a READY, so that libzmq ignores
// it.
void ZmtpWatch::TakeCommandByte(char& byte) {
  command_ += byte;
  if (mechanism_ == Mechanism::kNull && command_.starts_with("\x05READY") && command_.ends_with("\x08Identity"))
    byte = '_';
  if (--body_left_ > 0) return;
  part_ = Part::kFlags;
  if (mechanism_ == Mechanism::kNull) is_through_ = true;
}

bool ZmtpWatch::IsOfMechanism() const {
  const std::string_view name = NameOf(mechanism_);
  return named_mechanism_.starts_with(name) &&
         named_mechanism_.find_first_not_of('\0', name.size()) == std::string::npos;
}

Result<void> ZmtpWatch::TakeGreeting(unsigned char byte) {
  const std::size_t at = taken_++;
  if (at == 0 && byte != 0xFF) return NotTaken("it does not speak ZMTP");
  if (at == kMajorVersionAt && byte < 3) return NotTaken("it speaks a version of ZMTP before 3");
  if (at >= kMechanismAt && at < kMechanismAt + kMechanismBytes) named_mechanism_ += static_cast<char>(byte);
  if (taken_ == kMechanismAt + kMechanismBytes && !IsOfMechanism()) return NotOfMechanism(mechanism_);
  if (taken_ == kGreetingBytes) part_ = Part::kFlags;
  return {};
}

Result<void> ZmtpWatch::TakeFlags(unsigned char flags) {
  if ((flags & kMore) != 0) return NotTaken("its message has several parts");
  if (flags > (kMore | kLong | kCommand)) return NotTaken("a frame has unknown flags");
  flags_ = flags;
  length_ = 0;
  length_left_ = (flags & kLong) != 0 ? 8 : 1;
  part_ = Part::kLength;
  return {};
}

Result<void> ZmtpWatch::BeginBody() {
  const bool is_command = (flags_ & kCommand) != 0;
  if (!is_command && !is_through_ && mechanism_ == Mechanism::kCurve) {
    return NotTaken("it sends a message before its key is known");
  }
  if (length_ > (is_command ? kMaxCommandBytes : max_frame_bytes_)) return NotTaken("a frame is too long");
  if (length_ > kFreeFrameBytes && !memory_.TryGrow(length_)) {
    return Error{ErrorCode::kOverloaded, "there is no memory for its message now", "peer"};
  }
  began_ = now_;
  body_left_ = length_;
  command_.clear();
  part_ = length_ == 0 ? Part::kFlags : (is_command ? Part::kCommand : Part::kMessage);
  return {};
}

}  // namespace roost::wire
