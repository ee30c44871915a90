// Reads along what one ZeroMQ peer sends, and finds what libzmq itself does not bound:
//
//   greeting (64 bytes)   of ZMTP 3 or later
//   command               of few bytes; the name that a READY gives its connection is made void, so that all have
//                         random ones
//   message               of one frame, within the limit; a large one has its bytes of the budget until it is whole,
//   and
//                         no longer than kFrameTime
//
// libzmq keeps the parts of a message until the last one is there, however many they are, and whatever a connection
// sends under an identity that another one has. A property of a READY that it does not know it ignores, so one letter
// of the property's name is changed on its way.
//
// ZMTP: rfc.zeromq.org/spec/23. With an encrypting mechanism the parts of a message are not to be seen from here; such
// peers have proven who they are.
//
// Not thread-safe, no socket, no clock. Constant time per call, and per frame.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "common/base/byte_budget.h"
#include "common/base/clock.h"
#include "common/base/result.h"

namespace roost::wire {

class ZmtpWatch {
 public:
  // Of a command: the largest in use is a READY.
  static constexpr std::size_t kMaxCommandBytes = 4096;
  // A frame of at most so many bytes is passed without a charge.
  static constexpr std::size_t kFreeFrameBytes = std::size_t{128} << 10U;
  // For a large frame to arrive.
  static constexpr Duration kFrameTime = std::chrono::seconds(30);

  // `frames` is the budget that large frames are taken from; null: all fit.
  ZmtpWatch(std::size_t max_frame_bytes, std::shared_ptr<ByteBudget> frames)
      : max_frame_bytes_(max_frame_bytes), memory_(std::move(frames)) {}

  // What came next, to be passed on as it is left. An error means that the connection is to end: kOverloaded when its
  // frame does not fit now, else kInvalidArgument.
  [[nodiscard]] Result<void> Take(std::span<char> bytes, Instant now);
  // A large frame takes too long: the connection is to end, too.
  [[nodiscard]] bool IsLate(Instant now) const { return memory_.bytes() > 0 && now - began_ > kFrameTime; }

 private:
  enum class Part : std::uint8_t { kGreeting, kFlags, kLength, kCommand, kMessage };

  // One byte of what is read bytewise: all but the bodies of messages.
  [[nodiscard]] Result<void> TakeByte(char& byte);
  [[nodiscard]] Result<void> TakeGreeting(unsigned char byte);
  [[nodiscard]] Result<void> TakeFlags(unsigned char flags);
  [[nodiscard]] Result<void> BeginBody();
  void TakeCommandByte(char& byte);

  const std::size_t max_frame_bytes_;
  ByteBudget::Guard memory_;
  Part part_ = Part::kGreeting;
  std::size_t taken_ = 0;        // bytes of the greeting
  unsigned char flags_ = 0;      // of the frame
  std::size_t length_left_ = 0;  // bytes of the length that are to come
  std::uint64_t length_ = 0;     // of the frame's body, as far as it was read
  std::uint64_t body_left_ = 0;  // bytes of the body that are to come
  std::string command_;          // as far as it was read
  Instant now_{};                // of the call
  Instant began_{};              // when the last large frame did
};

}  // namespace roost::wire
