#include "worker/grammar/job_server.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace roost::worker {
namespace {

// Answers "setup: request", and does what a request says.
std::string Do(const std::string& setup, std::string_view request) {
  if (request == "spin") {
    // The clock is read because the thread sanitizer runs handlers of signals only within calls that it knows.
    for (timespec now{};;) (void)clock_gettime(CLOCK_MONOTONIC, &now);
  }
  if (request == "wait") pause();
  if (request == "crash") abort();
  if (request == "pid") return std::to_string(getpid());
  if (request == "fill") {
    std::vector<std::string> all;
    while (true) all.emplace_back(std::size_t{1} << 20U, 'x');
  }
  return setup + ": " + std::string(request);
}

JobServer::Job Prepare(std::string_view setup) {
  return [setup = std::string(setup)](std::string_view request) { return Do(setup, request); };
}

class JobServerTest : public testing::Test {
 protected:
  void SetUp() override {
    server_ = JobServer::Start(&Prepare);
    ASSERT_NE(server_, nullptr);
    ASSERT_TRUE(server_->SetUp("vocabulary"));
  }
  static JobLimits Limits() {
    return {.processor_time = std::chrono::seconds(60),
            .clock_time = std::chrono::seconds(120),
            .bytes = std::size_t{256} << 20U};
  }
  std::optional<std::string> Run(std::string_view request) {
    JobResult result = server_->Run(request, Limits());
    if (result.end != JobResult::End::kAnswered) return std::nullopt;
    return std::move(result.answer);
  }
  JobResult::End EndOf(std::string_view request, const JobLimits& limits) { return server_->Run(request, limits).end; }
  std::unique_ptr<JobServer> server_;
};

TEST_F(JobServerTest, JobsAnswerWithWhatWasSetUp) {
  EXPECT_EQ(Run("a"), "vocabulary: a");
  const std::string large(3'000'000, 'b');
  EXPECT_EQ(Run(large), "vocabulary: " + large);
  EXPECT_EQ(Run(""), "vocabulary: ");
}

TEST_F(JobServerTest, AJobEndsWithItsProcessorTime) {
  JobLimits limits = Limits();
  limits.processor_time = std::chrono::milliseconds(20);
  EXPECT_EQ(EndOf("spin", limits), JobResult::End::kTooLong);
  EXPECT_EQ(Run("a"), "vocabulary: a");
}

// A machine that gives it no time is no fault of the job.
TEST_F(JobServerTest, AJobThatGetsNoTimeEndsByTheClock) {
  JobLimits limits = Limits();
  limits.processor_time = std::chrono::milliseconds(20);
  limits.clock_time = std::chrono::milliseconds(100);
  EXPECT_EQ(EndOf("wait", limits), JobResult::End::kNotInTime);
  EXPECT_EQ(Run("a"), "vocabulary: a");
}

TEST_F(JobServerTest, AJobThatTakesTooMuchMemoryOrCrashesEndsAlone) {
  EXPECT_EQ(EndOf("fill", Limits()), JobResult::End::kFailed);
  EXPECT_EQ(EndOf("crash", Limits()), JobResult::End::kFailed);
  EXPECT_EQ(Run("a"), "vocabulary: a");
}

TEST_F(JobServerTest, AnAnswerThatIsTooLongIsNone) {
  EXPECT_EQ(EndOf("abc", {.answer_bytes = 3}), JobResult::End::kFailed);
}

TEST_F(JobServerTest, JobsRunBesideOneAnother) {
  std::thread other([this] { EXPECT_EQ(Run("spin"), std::nullopt); });  // until Stop
  EXPECT_EQ(Run("a"), "vocabulary: a");
  server_->Stop();
  other.join();
  EXPECT_EQ(EndOf("a", Limits()), JobResult::End::kNotInTime);
}

TEST_F(JobServerTest, EachJobHasAProcessOfItsOwn) {
  const std::optional<std::string> first = Run("pid");
  const std::optional<std::string> second = Run("pid");
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first, *second);
  EXPECT_NE(*first, std::to_string(getpid()));
}

}  // namespace
}  // namespace roost::worker
