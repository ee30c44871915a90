// Questions to workers that wait for answers.
//
//   Begin ──► OnReply for each worker ──► done, with all answers
//                │ a worker is lost, or the deadline passes: its answer is empty
//                └────────────────────────► done
//
// Not thread-safe. These functions do not call `done`: they queue the call as an effect. Each is O(open inquiries ·
// workers) at most; kMaxOpen and Roster::kMaxWorkers bound both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "router/fleet/effects.h"
#include "router/fleet/worker_answer.h"

namespace roost::router {

class Inquiries {
 public:
  static constexpr std::size_t kMaxOpen = 64;

  // Ids count up from `first_id`, and are never 0.
  Inquiries(std::uint64_t first_id, EffectQueue& effects) : next_id_(first_id), effects_(effects) {}

  // One worker's part.
  struct Asked {
    std::string worker_id;
    WorkerReply known = {};  // the reply, if it is already known and so not awaited
    bool is_awaited = true;
  };

  // kOverloaded while kMaxOpen are open.
  [[nodiscard]] Result<void> CheckRoom() const;
  // The next inquiry's id, which all its messages carry.
  [[nodiscard]] std::uint64_t NextId();
  // An inquiry that waits for no worker ends at once.
  void Begin(std::uint64_t id, std::vector<Asked> asked, Instant deadline, AnswersDone done);

  // Ignores a second reply, the reply of a worker that was not asked, and a reply to an inquiry that has ended.
  void OnReply(std::uint64_t id, const std::string& worker_id, WorkerReply reply);
  // The worker is gone: no reply from it is awaited any more.
  void OnWorkerLost(const std::string& worker_id);
  // Ends the inquiries whose deadline has passed.
  void Expire(Instant now);
  void EndAll();

  [[nodiscard]] std::size_t size() const { return open_.size(); }

 private:
  struct Inquiry {
    std::vector<Asked> asked;
    Instant deadline;
    AnswersDone done;
  };
  using Open = std::map<std::uint64_t, Inquiry>;

  // Ends the inquiry if no reply is awaited; returns the next one.
  Open::iterator EndIfComplete(Open::iterator inquiry);
  Open::iterator End(Open::iterator inquiry);

  std::uint64_t next_id_;
  EffectQueue& effects_;
  Open open_;
};

}  // namespace roost::router
