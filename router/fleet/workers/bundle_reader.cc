#include "router/fleet/workers/bundle_reader.h"

#include <chrono>
#include <new>
#include <utility>

#include "common/base/thread_name.h"
#include "common/wire/tokenizer_digest.h"

namespace roost::router {

namespace {

// Closing the queue wakes the reader, so this timeout delays nothing.
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
  NameThisThread("tokenizers");
  while (!stopping_) {
    const std::optional<Job> job = queue_.PopFor(kUntilClosed);
    if (stopping_ || !job.has_value()) continue;
    done_(job->bundle.digest, Prove(job->bundle));
  }
}

BundleReader::Outcome BundleReader::Prove(const wire::Tokenizer& bundle) const {
  if (wire::DigestOf(bundle) != bundle.digest) {
    return {.text = {},
            .error = {BundleFault::kNotAsTold, DataLoss("digest", "does not match the files that came with it")}};
  }
  try {
    Result<TextBundle> text = read_(bundle);
    if (text.ok()) return {.text = std::move(text).value(), .error = {}};
    return {.text = {}, .error = {BundleFault::kUnreadable, std::move(text).error()}};
  } catch (const std::bad_alloc&) {
    return {.text = {},
            .error = {BundleFault::kPassing, {ErrorCode::kOverloaded, "there is not enough memory to read it", ""}}};
  }
}

}  // namespace roost::router
