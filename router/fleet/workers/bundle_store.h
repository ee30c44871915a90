// The tokenizer bundles that workers bring, by digest: which worker to ask for a bundle, and whether it could be read.
//
//   not asked for ── Ask ──► asked ── the answer ──► being read ──► available
//        ▲                    │ no answer in time      │  ├──► unreadable: its bytes have the digest, so it stays so
//        └────────────────────┴────────────────────────┘  └──► wrong digest: the sender is not asked for some time
//                                 not read, for a passing reason
//
// Not thread-safe, no clock. Bounded: bundles that no worker uses are kept, for a worker that restarts, only while
// there are fewer than kMaxUnused bundles.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace roost {
class ChatTemplate;
class Tokenizer;
}  // namespace roost

namespace roost::router {

// The contents of a tokenizer bundle.
struct TextBundle {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // null when the model brings none
  std::string bos_token;
  std::string eos_token;
};

// The reason why a bundle was not read.
enum class BundleFault : std::uint8_t {
  kUnreadable,  // its contents are invalid; asking again would not help
  kNotAsTold,   // its bytes do not have the announced digest
  kPassing,     // no memory, or too many bundles are being read: ask again later
};
struct BundleError {
  BundleFault fault = BundleFault::kUnreadable;
  Error error;
};

class BundleStore {
 public:
  // After this time the answer counts as lost. It is long, because a bundle may be large and the network slow.
  static constexpr Duration kPatience = std::chrono::seconds(10);
  // The time for which a worker that sent a wrong bundle is not asked again: doubles from the first value up to the
  // second.
  static constexpr Duration kFirstDistrust = std::chrono::seconds(30);
  static constexpr Duration kLongestDistrust = std::chrono::minutes(30);
  static constexpr std::size_t kMaxUnused = 8;

  // One epoch of a worker.
  struct Source {
    std::string worker_id;
    std::uint64_t epoch = 0;
    bool operator==(const Source&) const = default;
  };

  // True if the caller should ask `source` for the bundle of `digest` now; then it counts as asked. `is_here` tells
  // whether a source that was asked earlier is still connected.
  [[nodiscard]] bool Ask(const std::string& digest, const Source& source,
                         const std::function<bool(const Source&)>& is_here, Instant now);
  // True if this is the answer that `source` was asked for. If so, the bundle counts as being read until SetText or
  // SetFault.
  [[nodiscard]] bool TakeAnswer(std::string_view digest, const Source& source);

  void SetText(const std::string& digest, TextBundle text);
  void SetFault(const std::string& digest, BundleError error, Instant now);

  // Null unless it was read.
  [[nodiscard]] std::shared_ptr<const TextBundle> Find(std::string_view digest) const;
  // The error of a bundle that can never be read.
  [[nodiscard]] const Error* FindUnreadable(std::string_view digest) const;

  // Forgets bundles that no worker uses (not in `used`), if there are many.
  void DropUnused(const std::set<std::string_view>& used);

 private:
  struct Bundle {
    std::optional<Source> asked;
    Instant ask_again{};
    bool answered = false;  // it is being read
    std::shared_ptr<const TextBundle> text;
    std::optional<Error> unreadable;

    [[nodiscard]] bool is_open() const { return text == nullptr && !unreadable.has_value(); }
  };
  // For a worker whose bundle did not have the announced digest.
  struct Distrust {
    Duration time{};
    Instant until{};
  };
  static constexpr std::size_t kMaxDistrusted = 1024;

  [[nodiscard]] bool IsTrusted(const std::string& worker_id, Instant now) const;

  std::map<std::string, Bundle, std::less<>> bundles_;  // by digest
  std::map<std::string, Distrust> distrusted_;          // by worker
};

}  // namespace roost::router
