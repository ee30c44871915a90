// Roost's own engine: the model, the engine with its thread, and the pool that makes automata for it.
//
//   OwnEngine ─ EngineThread ─ Engine ─ Model
//                    ▲            └─ GrammarPool
//                    └── Nudge ────────┘
#pragma once

#include <memory>
#include <vector>

#include "worker/engine/engine.h"
#include "worker/engine/engine_thread.h"
#include "worker/engine_api/worker_engine.h"
#include "worker/grammar/grammar_pool.h"
#include "worker/model/model.h"

namespace roost::worker {

struct OwnEngineSetup {
  std::unique_ptr<Model> model;
  EngineOptions engine;
  std::unique_ptr<const GrammarLibrary> grammar_library;  // null: requests under a constraint are refused
  GrammarPoolOptions grammar;
};

class OwnEngine final : public WorkerEngine {
 public:
  OwnEngine(OwnEngineSetup setup, const EngineSurroundings& surroundings);
  ~OwnEngine() override;

  [[nodiscard]] EngineHost& host() override { return thread_; }
  void Describe(wire::Hello& hello) const override;
  [[nodiscard]] std::vector<kernels::MemoryUse> DeviceMemory() const override { return setup_.model->DeviceMemory(); }

 private:
  std::unique_ptr<GrammarPool> MakeGrammarPool(const Clock& clock);
  [[nodiscard]] EngineOptions OptionsWithPool() const;

  OwnEngineSetup setup_;
  std::unique_ptr<GrammarPool> grammar_pool_;
  Engine engine_;
  EngineThread thread_;
};

}  // namespace roost::worker
