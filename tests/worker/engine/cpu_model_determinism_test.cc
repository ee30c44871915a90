// The determinism suite over the real transformer on the CPU, in both precisions.
#include <utility>

#include "tests/worker/engine/determinism_suite.h"
#include "worker/model/load_model.h"

namespace roost::testing_support {
namespace {

std::unique_ptr<worker::Model> MakeModel(BlockShape shape, worker::ComputeDType dtype, std::uint32_t threads,
                                         std::uint32_t ranks) {
  worker::ModelOptions options;
  options.thread_count = threads;
  options.compute_dtype = dtype;
  options.device_ordinals.assign(ranks, 0);
  options.block_tokens = shape.block_tokens;
  options.block_count = shape.block_count;
  return std::move(worker::LoadModel({"synthetic:tiny"}, options).value().model);
}

DeterminismSubject Subject(std::string name, worker::ComputeDType dtype, std::uint32_t threads,
                           std::uint32_t ranks = 1) {
  return {.name = std::move(name),
          .make = [=](BlockShape shape) { return MakeModel(shape, dtype, threads, ranks); },
          .vocab_size = 256,
          .request_count = 24,
          .max_prompt_tokens = 100,
          .max_output_tokens = 12};
}

DeterminismSubject Poisoned(DeterminismSubject subject) {
  subject.check_invariants = true;
  return subject;
}

DeterminismSubject PlannedAhead(DeterminismSubject subject) {
  subject.name += "PlannedAhead";
  subject.plan_ahead = true;
  return subject;
}

// kAuto is bf16.
INSTANTIATE_TEST_SUITE_P(CpuModel, DeterminismTest,
                         testing::Values(Subject("F32", worker::ComputeDType::kF32, 1),
                                         Subject("F32TwoThreads", worker::ComputeDType::kF32, 2),
                                         Subject("F32TwoRanks", worker::ComputeDType::kF32, 1, 2),
                                         Subject("Auto", worker::ComputeDType::kAuto, 1),
                                         Subject("AutoTwoThreads", worker::ComputeDType::kAuto, 2),
                                         Poisoned(Subject("AutoPoisoned", worker::ComputeDType::kAuto, 1)),
                                         PlannedAhead(Subject("F32", worker::ComputeDType::kF32, 1)),
                                         PlannedAhead(Subject("F32TwoRanks", worker::ComputeDType::kF32, 1, 2))),
                         SubjectName());

}  // namespace
}  // namespace roost::testing_support
