#include "worker/own_engine.h"

#include <utility>

#include "common/wire/messages.h"

namespace roost::worker {

OwnEngine::OwnEngine(OwnEngineSetup setup, const EngineSurroundings& surroundings)
    : setup_(std::move(setup)),
      grammar_pool_(MakeGrammarPool(surroundings.clock)),
      engine_(*setup_.model, surroundings.clock, OptionsWithPool()),
      thread_(engine_, surroundings.clock, surroundings.waker) {}

OwnEngine::~OwnEngine() {
  thread_.Stop();
  grammar_pool_.reset();  // before the thread is destroyed: the pool wakes it
}

// No job is done before the engine has begun one, so the engine thread exists when the pool wakes it.
std::unique_ptr<GrammarPool> OwnEngine::MakeGrammarPool(const Clock& clock) {
  if (setup_.grammar_library == nullptr) return nullptr;
  return std::make_unique<GrammarPool>(std::move(setup_.grammar_library), setup_.grammar, clock,
                                       [this] { thread_.Nudge(); });
}

EngineOptions OwnEngine::OptionsWithPool() const {
  EngineOptions options = setup_.engine;
  options.constrainer = grammar_pool_.get();
  return options;
}

void OwnEngine::Describe(wire::Hello& hello) const {
  hello.block_tokens = setup_.model->block_tokens();
  hello.block_count = setup_.model->block_count();
  hello.max_context_tokens = engine_.max_context_tokens();
  hello.max_running_requests = setup_.engine.max_running_requests;
  hello.max_batch_tokens = setup_.engine.max_batch_tokens;
  hello.ageing_tokens = AgeingTokens(setup_.engine.schedule_policy);
  hello.max_sample_count = wire::kMaxSampleCount;
  using wire::Feature;
  hello.features = {Feature::kFullSampling, Feature::kMinOutputTokens, Feature::kAnswers, Feature::kEvicts,
                    Feature::kEvictsBlocks};
  if (TellsLogprobs(setup_.engine)) hello.features.insert(Feature::kLogprobs);
  if (grammar_pool_ != nullptr) hello.features.insert(Feature::kConstrainsOutput);
}

}  // namespace roost::worker
