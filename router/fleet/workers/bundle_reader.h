// Verifies and reads tokenizer bundles on a thread of its own. That takes up to a second, and streams and decisions
// must not wait for it.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/base/bounded_queue.h"
#include "common/base/byte_budget.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "router/fleet/workers/bundle_store.h"

namespace roost::router {

class BundleReader {
 public:
  using Read = std::function<Result<TextBundle>(const wire::Tokenizer&)>;
  struct Outcome {
    std::optional<TextBundle> text;
    BundleError error;  // if there is no `text`
  };
  using Done = std::function<void(const std::string& digest, Outcome)>;

  // `done` is called on the reader's thread, once for each bundle that TryRead accepted, except those that the
  // destructor drops.
  BundleReader(Read read, Done done);
  // Drops the bundles that wait, and waits for the one that is being read.
  ~BundleReader();
  BundleReader(const BundleReader&) = delete;
  BundleReader& operator=(const BundleReader&) = delete;

  // May be called from any thread. False when too many bundles wait. `memory` is the bundle's charge on a byte budget,
  // held until the bundle is read.
  [[nodiscard]] bool TryRead(wire::Tokenizer bundle, ByteBudget::Guard memory) {
    return queue_.TryPush({std::move(bundle), std::move(memory)});
  }

 private:
  // A bundle holds up to 64 MiB; each model brings one.
  static constexpr std::size_t kMaxWaiting = 2;

  struct Job {
    wire::Tokenizer bundle;
    ByteBudget::Guard memory;
  };

  void Run();
  [[nodiscard]] Outcome Prove(const wire::Tokenizer& bundle) const;

  const Read read_;
  const Done done_;
  BoundedQueue<Job> queue_{kMaxWaiting};
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace roost::router
