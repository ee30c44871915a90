#include "router/fleet/bundle_reader.h"

#include <chrono>
#include <utility>

namespace roost::router {

namespace {

// A closed queue wakes its consumers, so this bounds nothing that anybody waits for.
constexpr std::chrono::hours kUntilClosed{1};

}  // namespace

BundleReader::BundleReader(Read read, Done done)
    : read_(std::move(read)), done_(std::move(done)), thread_([this] { Run(); }) {}

BundleReader::~BundleReader() {
  stopping_ = true;
  queue_.Close();
  thread_.join();
}

void BundleReader::Run() {
  while (!stopping_) {
    const std::optional<wire::Tokenizer> bundle = queue_.PopFor(kUntilClosed);
    if (stopping_ || !bundle.has_value()) continue;
    done_(bundle->digest, read_(*bundle));
  }
}

}  // namespace roost::router
