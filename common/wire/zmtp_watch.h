// Parses what one ZeroMQ peer sends, and refuses what libzmq itself does not limit:
//
//   greeting (64 bytes)   must be ZMTP 3 or later
//   command               short; the property that names the connection in a READY is made invalid, so that ZeroMQ
//                         gives every connection a random name
//   message               one frame, within the limit; a large one takes its bytes from the budget until it is whole,
//                         at most kFrameTime
//
// libzmq keeps the parts of a message, however many, until the last one arrives. It also keeps whatever a connection
// sends under an identity that another one has. It ignores properties of a READY that it does not know; so one letter
// of the property's name is changed in transit.
//
// Under CURVE a connection may send commands only (its HELLO and INITIATE) until ZeroMQ has accepted its key. Then it
// sends boxes, each 33 bytes larger than the message in it. They hide identities and the parts of a message from the
// watch; but such peers have proven who they are.
//
// ZMTP: rfc.zeromq.org/spec/23. CURVE: rfc.zeromq.org/spec/26.
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

// A peer's way to prove who it is.
enum class Mechanism : std::uint8_t { kNull, kCurve };  // not at all; by a key

// The bytes that CURVE adds to a message: its name, a counter, an authenticator and flags.
inline constexpr std::size_t kCurveBoxBytes = 33;

class ZmtpWatch {
 public:
  // For commands: the largest in use is a READY.
  static constexpr std::size_t kMaxCommandBytes = 4096;
  // Frames up to this size are not charged to the budget.
  static constexpr std::size_t kFreeFrameBytes = std::size_t{128} << 10U;
  // The time in which a large frame must arrive.
  static constexpr Duration kFrameTime = std::chrono::seconds(30);

  // `frames` is the budget of large frames; null: no limit.
  ZmtpWatch(std::size_t max_frame_bytes, std::shared_ptr<ByteBudget> frames, Mechanism mechanism = Mechanism::kNull)
      : mechanism_(mechanism),
        max_frame_bytes_(max_frame_bytes + (mechanism == Mechanism::kCurve ? kCurveBoxBytes : 0)),
        memory_(std::move(frames)) {}

  // Takes the next bytes; forward them as they are afterwards. After an error, close the connection: kOverloaded when
  // the frame does not fit now, kUnauthenticated when the peer has another mechanism, else kInvalidArgument.
  [[nodiscard]] Result<void> Take(std::span<char> bytes, Instant now);
  // Its key was accepted: from now on it may send messages.
  void Admit() { is_through_ = true; }
  // True when the handshake is over: under CURVE after Admit, otherwise once the peer has sent its READY.
  [[nodiscard]] bool is_through() const { return is_through_; }

  // True while the peer has said that it speaks ZMTP and not yet how it authenticates.
  [[nodiscard]] bool is_in_greeting() const { return part_ == Part::kGreeting && taken_ >= kSignatureBytes; }

  // True when a large frame takes too long: close the connection.
  [[nodiscard]] bool IsLate(Instant now) const { return memory_.bytes() > 0 && now - began_ > kFrameTime; }

 private:
  static constexpr std::size_t kSignatureBytes = 10;
  enum class Part : std::uint8_t { kGreeting, kFlags, kLength, kCommand, kMessage };

  // Takes one byte of all but the bodies of messages, which are skipped.
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
  std::size_t taken_ = 0;        // bytes of the greeting so far
  std::string named_mechanism_;  // in the greeting, as far as it was read
  unsigned char flags_ = 0;      // of the current frame
  std::size_t length_left_ = 0;  // bytes of the length still to come
  std::uint64_t length_ = 0;     // of the frame's body, as far as it was read
  std::uint64_t body_left_ = 0;  // bytes of the body still to come
  std::string command_;          // as far as it was read
  Instant now_{};                // of the current call
  Instant began_{};              // when the last large frame began
};

}  // namespace roost::wire
