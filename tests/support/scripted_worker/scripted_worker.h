// A worker that speaks the wire protocol as roost-worker does, and answers from a script instead of a model. So tests
// with real clients see exactly the text that they need: tool calls, broken tool calls, reasoning.
//
// It has the tokenizer of a model folder, remembers the blocks of the prompts that it was sent, and gives each running
// request one token per step. A step takes its time, as an engine's does: what comes meanwhile waits for the next one.
// It ignores constraints, log probabilities and sampling.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "common/base/clock.h"
#include "common/prefix/block_hash.h"
#include "common/text/tokenizer.h"
#include "common/wire/socket.h"
#include "tests/support/scripted_worker/script.h"
#include "worker/link/link_core.h"

namespace roost::testing_support {

struct ScriptedWorkerSetup {
  std::string worker_id;
  std::string model;  // served name
  std::string router;
  wire::Tokenizer bundle;
  Script script;
  std::uint32_t context_tokens = 4096;
  // It begins to answer when it has received this many requests; until then they all wait. So they run at once.
  std::uint64_t hold_until = 0;
  // The time that a step takes: the time between tokens.
  std::chrono::milliseconds step_time{0};
};

// Runs on one thread.
class ScriptedWorker final : private worker::LinkEffects {
 public:
  // `clock` outlives it.
  [[nodiscard]] static Result<std::unique_ptr<ScriptedWorker>> Start(ScriptedWorkerSetup setup, const Clock& clock);

  // Receives, gives each request a token, sends, and waits for what comes next.
  void Round();
  [[nodiscard]] bool is_up() const { return core_.up_count() > 0; }

 private:
  static constexpr std::uint32_t kBlockTokens = 16;

  struct Running {
    std::vector<TokenId> answer;
    std::size_t given = 0;
    std::uint32_t choices = 1;
    std::uint32_t cached_tokens = 0;
    bool is_cut = false;  // cut by max_output_tokens
  };

  ScriptedWorker(ScriptedWorkerSetup setup, std::shared_ptr<const Tokenizer> tokenizer, const Clock& clock);

  wire::SendOutcome Send(worker::PeerId peer, const wire::WorkerMessage& message) override;
  void Redial(worker::PeerId peer) override;
  [[nodiscard]] bool Submit(worker::EngineCommand command) override;
  void Command(worker::EngineCommand command) override;

  void Receive();
  void Begin(const worker::SubmitCommand& submit);
  [[nodiscard]] std::uint32_t Remember(const wire::Generate& request);
  [[nodiscard]] worker::StepReport NewReport() const;
  // The time that is left of the step that runs.
  [[nodiscard]] std::chrono::milliseconds StepRest() const;
  void Step();
  void Hold();
  void GiveToken(worker::RequestKey key, Running& running, worker::StepReport& report);

  const ScriptedWorkerSetup setup_;
  const Clock& clock_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  wire::Context context_;
  wire::Waker waker_;
  std::optional<wire::DealerSocket> socket_;
  std::map<worker::RequestKey, Running> running_;
  std::unordered_set<BlockHash, BlockHashHasher> seen_;
  std::vector<worker::EngineOutput> outputs_;
  Instant step_ends_at_{};  // of the step that runs
  std::uint64_t step_count_ = 0;
  std::uint64_t submit_count_ = 0;
  std::uint64_t reported_submit_count_ = 0;  // while it holds
  worker::LinkCore core_;
};

}  // namespace roost::testing_support
