// Sends sessions to one endpoint and collects what came of each request.
//
//   open loop     each session begins at its start time, whatever became of the others
//   closed loop   `concurrency` sessions at a time; the next one begins when one has ended
//
//   due: (time, session) ──► sent ──► ended ──► the session's next turn is due, or in a closed loop the next session
//
// In an open loop at most kMaxOpen requests are under way; more wait, and their waiting counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "deploy/roostctl/bench/request_sample.h"
#include "deploy/roostctl/bench/sessions.h"
#include "deploy/roostctl/remote/chat_stream.h"
#include "deploy/roostctl/remote/router_access.h"

namespace roost::roostctl {

enum class BenchApi { kChat, kCompletions };

// An endpoint, and how it is asked.
struct LoadTarget {
  std::string label = {};
  RouterAccess access = {};
  std::string model = {};
  BenchApi api = BenchApi::kChat;
  UseCache cache = UseCache::kYes;
  bool ignore_eos = false;
  double tokens_per_word = 1;
  double timeout_seconds = 600;
};

// The answers of sessions by session number and turn. If two endpoints get the same load, the one that answers a turn
// first writes its answer here, and both continue with it: so both get the same prompts.
using SharedAnswers = std::map<std::pair<std::size_t, std::size_t>, std::string>;

struct LoadProgress {
  std::size_t session_count = 0;  // of the load
  std::size_t ended_sessions = 0;
  std::size_t ended_requests = 0;
  std::size_t failed_requests = 0;
  std::size_t open_requests = 0;
};

struct LoadPlan {
  std::vector<BenchSession> sessions = {};                    // in an open loop by start time
  std::optional<std::uint32_t> concurrency = {};              // of a closed loop; none: open
  SharedAnswers* answers = nullptr;                           // none: each session goes on with its own answers
  std::function<void(const LoadProgress&)> on_progress = {};  // called several times a second
  std::function<bool()> stop_asked = {};                      // true: nothing more is sent, and open requests end
};

struct LoadResult {
  // In the order in which they ended; without those of warm-ups, and those that were stopped.
  std::vector<BenchSample> samples;
  double seconds = 0;  // from the time of the first of them to the end of the last one
  bool was_stopped = false;
};

inline constexpr std::size_t kMaxOpen = 4096;

// kInvalidArgument when the target's access can not be used.
[[nodiscard]] Result<LoadResult> RunLoad(const LoadTarget& target, const LoadPlan& plan);

}  // namespace roost::roostctl
