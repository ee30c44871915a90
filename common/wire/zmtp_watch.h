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
// Under CURVE a connection is to send commands alone (its HELLO and INITIATE) until ZeroMQ has let its key in, and then
// boxes of 33 bytes more than the messages in them. Identities and the parts of a message lie inside of the boxes,
// where they are not seen from here: such peers have proven who they are.
//
// ZMTP: rfc.zeromq.org/spec/23, CURVE: rfc.zeromq.org/spec/26.
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

// How peers prove who they are.
enum class Mechanism : std::uint8_t { kNull, kCurve };  // not at all; by a key

// What CURVE adds to a message: its name, a counter, an authenticator and flags.
inline constexpr std::size_t kCurveBoxBytes = 33;

class ZmtpWatch {
 public:
  // Of a command: the largest in use is a READY.
  static constexpr std::size_t kMaxCommandBytes = 4096;
  // A frame of at most so many bytes is passed without a charge.
  static constexpr std::size_t kFreeFrameBytes = std::size_t{128} << 10U;
  // For a large frame to arrive.
  static constexpr Duration kFrameTime = std::chrono::seconds(30);

  // `frames` is the budget that large frames are taken from; null: all fit.
  ZmtpWatch(std::size_t max_frame_bytes, std::shared_ptr<ByteBudget> frames, Mechanism mechanism = Mechanism::kNull)
      : mechanism_(mechanism),
        max_frame_bytes_(max_frame_bytes + (mechanism == Mechanism::kCurve ? kCurveBoxBytes : 0)),
        memory_(std::move(frames)) {}

  // What came next, to be passed on as it is left. An error means that the connection is to end: kOverloaded when its
  // frame does not fit now, kUnauthenticated when it has another mechanism, else kInvalidArgument.
  [[nodiscard]] Result<void> Take(std::span<char> bytes, Instant now);
  // Its key was let in: from now on it may send messages.
  void Admit() { is_through_ = true; }
  // Its handshake is over: under CURVE it was let in, without it has sent its READY.
  [[nodiscard]] bool is_through() const { return is_through_; }

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
  [[nodiscard]] bool IsOfMechanism() const;

  const Mechanism mechanism_;
  const std::size_t max_frame_bytes_;
  ByteBudget::Guard memory_;
  Part part_ = Part::kGreeting;
  bool is_through_ = false;
  std::size_t taken_ = 0;        // bytes of the greeting
  std::string named_mechanism_;  // by the greeting, as far as it was read
  unsigned char flags_ = 0;      // of the frame
  std::size_t length_left_ = 0;  // bytes of the length that are to come
  std::uint64_t length_ = 0;     // of the frame's body, as far as it was read
  std::uint64_t body_left_ = 0;  // bytes of the body that are to come
  std::string command_;          // as far as it was read
  Instant now_{};                // of the call
  Instant began_{};              // when the last large frame did
};

}  // namespace roost::wire
