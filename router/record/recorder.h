// Records the shape of requests, so that simulations can replay them: lengths, hashes and names of API
// keys, never text, tokens or clients' other names. One JSON object per line, in the form that
// deploy/roostctl/workload/recording.h describes.
//
//   any thread ── TryRecord ─▶ bounded queue ─▶ writer thread: hashes the answer's blocks, writes a line
//
// A full queue drops records and counts them; no request waits for the disk. So does a file that takes no more: what
// did not reach it whole is cut off again, and once the disk has room it goes on.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/bounded_queue.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

// A request that has ended.
struct RequestRecord {
  double arrival_seconds = 0;  // since the recording began
  std::string model;
  std::uint32_t block_tokens = 0;
  std::uint32_t input_token_count = 0;
  std::uint32_t output_token_count = 0;
  std::vector<std::uint64_t> prompt_blocks;  // low halves of the hashes of the prompt's full blocks
  BlockHash last_hash;                       // of the last full block; the root if there is none
  std::vector<TokenId> open_tokens;          // after that block: the prompt's last tokens, then the answer's
  std::string key;                           // its name; empty: none
  std::uint64_t tenant_hash = 0;             // 0: none
  std::uint64_t session_hash = 0;            // 0: none
};

// The record's line, without the line feed. Computes a hash per block of the answer.
[[nodiscard]] std::string LineOf(const RequestRecord& record);

// By which a recording knows a tenant. A name has the same hash in every run, and can only be found from it by
// guessing; 0: no name.
[[nodiscard]] std::uint64_t RecordedHashOf(std::string_view name);

enum class RecordOutcome : std::uint8_t {
  kWritten,
  kDropped,  // the queue was full, or the file could not be written
};

struct RecorderOptions {
  std::filesystem::path path;
  std::size_t queue_capacity = 1024;                   // requests
  std::function<void(RecordOutcome)> on_outcome = {};  // called once for each request, on any thread
};

// Thread-safe.
class Recorder {
 public:
  // Creates the file, or truncates it; it is for its user alone. kInvalidArgument names it when it can not be written.
  [[nodiscard]] static Result<std::unique_ptr<Recorder>> Open(RecorderOptions options);
  // Writes the queued records and logs the counts.
  ~Recorder();

  // Never waits.
  void TryRecord(RequestRecord record);

  [[nodiscard]] std::uint64_t written_count() const { return written_; }
  [[nodiscard]] std::uint64_t dropped_count() const { return dropped_; }

 private:
  Recorder(RecorderOptions options, int file);
  void Run();
  // Writes the lines that wait.
  void Flush();
  // 0, or the error.
  [[nodiscard]] int Write();
  void Count(RecordOutcome outcome);

  const RecorderOptions options_;
  const int file_;
  // Used by the writer's thread.
  std::string lines_;  // that wait to be written
  std::uint64_t line_count_ = 0;
  std::uint64_t size_ = 0;  // of the file
  bool fails_ = false;
  BoundedQueue<RequestRecord> queue_;
  std::atomic<std::uint64_t> written_ = 0;
  std::atomic<std::uint64_t> dropped_ = 0;
  std::atomic<bool> closing_ = false;
  std::thread writer_;
};

// Records each accepted request when it ends, with the first choice as its answer: so neither the fleet nor the HTTP
// side depends on recording. Arrivals are counted from now on. `clock` outlives the hook; `recorder` also outlives
// every request that was submitted with it.
[[nodiscard]] SubmitHook RecordTo(Recorder& recorder, const Clock& clock);

}  // namespace roost::router
