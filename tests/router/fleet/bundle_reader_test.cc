#include "router/fleet/workers/bundle_reader.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/wire/tokenizer_digest.h"
#include "tests/support/out_of_memory.h"

namespace roost::router {
namespace {

wire::Tokenizer Bundle() {
  wire::Tokenizer bundle{"", "{}", "{{ messages }}", "<s>", "</s>"};
  bundle.digest = wire::DigestOf(bundle);
  return bundle;
}

class BundleReaderTest : public ::testing::Test {
 protected:
  // The outcome of one bundle that `read` reads.
  BundleReader::Outcome Outcome(wire::Tokenizer bundle, BundleReader::Read read) {
    std::promise<BundleReader::Outcome> told;
    BundleReader reader(
        [&](const wire::Tokenizer& given) {
          ++read_count_;
          return read(given);
        },
        [&](const std::string&, BundleReader::Outcome outcome) { told.set_value(std::move(outcome)); });
    EXPECT_TRUE(reader.TryRead(std::move(bundle), {}));
    return told.get_future().get();
  }

  static Result<TextBundle> Text(const wire::Tokenizer&) { return TextBundle{}; }

  int read_count_ = 0;
};

TEST_F(BundleReaderTest, ABundleWithTheBytesOfItsDigestIsRead) {
  const auto outcome = Outcome(Bundle(), &Text);
  EXPECT_TRUE(outcome.text.has_value());
  EXPECT_EQ(read_count_, 1);
}

TEST_F(BundleReaderTest, ABundleOfOtherBytesThanItsDigestsIsNotEvenRead) {
  for (std::string wire::Tokenizer::*part : {&wire::Tokenizer::tokenizer_json, &wire::Tokenizer::chat_template,
                                             &wire::Tokenizer::bos_token, &wire::Tokenizer::eos_token}) {
    wire::Tokenizer lie = Bundle();
    lie.*part += ' ';
    const auto outcome = Outcome(std::move(lie), &Text);
    EXPECT_FALSE(outcome.text.has_value());
    EXPECT_EQ(outcome.error.fault, BundleFault::kNotAsTold);
  }
  EXPECT_EQ(read_count_, 0);
}

TEST_F(BundleReaderTest, WhatCanNotBeReadIsSaidToBeUnreadable) {
  const auto outcome =
      Outcome(Bundle(), [](const wire::Tokenizer&) -> Result<TextBundle> { return DataLoss("model", "is missing"); });
  EXPECT_EQ(outcome.error.fault, BundleFault::kUnreadable);
  EXPECT_EQ(outcome.error.error.field, "model");
}

TEST_F(BundleReaderTest, WhatFindsNoMemoryMayBeReadLater) {
  const auto outcome = Outcome(Bundle(), [](const wire::Tokenizer& bundle) -> Result<TextBundle> {
    testing_support::FailAllocation();
    return Text(bundle);
  });
  EXPECT_EQ(outcome.error.fault, BundleFault::kPassing);
}

TEST_F(BundleReaderTest, TooManyThatWaitAreNotTaken) {
  std::promise<void> go;
  const std::shared_future<void> gate = go.get_future().share();
  BundleReader reader(
      [&](const wire::Tokenizer& bundle) {
        gate.wait();
        return Text(bundle);
      },
      [](const std::string&, const BundleReader::Outcome&) {});
  int taken = 0;
  while (taken < 10 && reader.TryRead(Bundle(), {})) ++taken;
  EXPECT_LT(taken, 10);
  EXPECT_GT(taken, 0);
  go.set_value();
}

}  // namespace
}  // namespace roost::router
