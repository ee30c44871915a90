#include "tests/support/fake_model.h"
#include "tests/worker/engine/determinism_suite.h"

namespace roost::testing_support {
namespace {

std::unique_ptr<worker::Model> MakeFakeModel(BlockShape shape) {
  FakeModel::Options options;
  options.block_tokens = shape.block_tokens;
  options.block_count = shape.block_count;
  return std::make_unique<FakeModel>(options);
}

INSTANTIATE_TEST_SUITE_P(
    FakeModel, DeterminismTest,
    testing::Values(DeterminismSubject{.name = "Hashing", .make = MakeFakeModel, .vocab_size = 97},
                    DeterminismSubject{
                        .name = "HashingPoisoned", .make = MakeFakeModel, .vocab_size = 97, .check_invariants = true},
                    DeterminismSubject{
                        .name = "HashingPlannedAhead", .make = MakeFakeModel, .vocab_size = 97, .plan_ahead = true},
                    DeterminismSubject{.name = "HashingPoisonedPlannedAhead",
                                       .make = MakeFakeModel,
                                       .vocab_size = 97,
                                       .check_invariants = true,
                                       .plan_ahead = true}),
    SubjectName());

}  // namespace
}  // namespace roost::testing_support
