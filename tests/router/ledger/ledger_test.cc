#include "router/ledger/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "common/base/rng.h"
#include "deploy/roostctl/files/ledger_sum.h"

namespace roost::router {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::int64_t kHour = 3600;
constexpr std::int64_t kDay = 24 * kHour;
constexpr std::size_t kMaxRows = 64;
constexpr std::size_t kGrowthBytes = 8192;

class LedgerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = fs::path(testing::TempDir()) / ("ledger-" + name);
    fs::remove_all(folder_);
  }
  void TearDown() override {
    fs::remove_all(folder_);
    fs::remove_all(Copy());
  }
  [[nodiscard]] std::string Copy() const { return folder_.string() + "-copy"; }

  std::unique_ptr<Ledger> Open() {
    return Ledger::Open(
               {.folder = folder_,
                .unix_seconds = [this] { return now_; },
                .on_write = [this](LedgerWrite write) { ++(write == LedgerWrite::kWritten ? written_ : failed_); },
                .has_writer = false,
                .max_rows = kMaxRows,
                .growth_bytes = kGrowthBytes},
               next_)
        .value();
  }
  static void Count(Ledger& ledger, const std::string& key, std::uint32_t prompt, std::uint32_t cached) {
    ledger.OnGenerationEnd(
        {.model = "demo",
         .prompt_tokens = prompt,
         .completion_tokens = 7,
         .cached_tokens = cached,
         .key = key,
         .tenant = "acme",
         .written_tokens = prompt - cached,
         .savings = {.seconds = 0.5, .rotation_seconds = 0.125, .rotation_tokens = 4, .best_tokens = cached}});
  }
  [[nodiscard]] std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& file : fs::directory_iterator(folder_)) files.push_back(file.path());
    return files;
  }
  static std::string TextOf(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  // The sums that an operator gets, of all keys together.
  [[nodiscard]] LedgerCounts Sum(std::int64_t first_hour = 0) const {
    const Result<roostctl::LedgerSum> sum = roostctl::AddUpLedgers({folder_.string()}, first_hour);
    EXPECT_TRUE(sum.ok());
    EXPECT_TRUE(sum->damaged.empty());
    LedgerCounts all;
    for (const auto& [name, counts] : sum->totals) all += counts;
    return all;
  }

  fs::path folder_;
  std::int64_t now_ = 1'795'900'000;
  int written_ = 0;
  int failed_ = 0;
  NullApiObserver next_;
};

TEST_F(LedgerTest, ALineHasAllThatItsRowCountsAndReadsBackEqual) {
  const LedgerRow row{.hour = now_ / kHour,
                      .tenant = "acme \"north\"\n",
                      .key = "k",
                      .model = "demo",
                      .counts = {1, 2, 3, 4, 5, 6, 7, 0.1, 1e-9}};
  const std::string line = LineOf(row);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const json::Document document(line);
  EXPECT_EQ(LedgerRowIn(document.root()), row);
  EXPECT_THAT(line, HasSubstr(HourText(row.hour)));
  for (const char* wrong : {"{}", "[]", R"({"hour":"2026-11-29","tenant":"","key":"","model":""})"}) {
    EXPECT_FALSE(LedgerRowIn(json::Document(wrong).root()).has_value()) << wrong;
  }
}

TEST_F(LedgerTest, CountsByTenantKeyModelAndHour) {
  const auto ledger = Open();
  Count(*ledger, "a", 100, 64);
  Count(*ledger, "a", 50, 16);
  Count(*ledger, "b", 10, 0);
  ledger->Flush();
  now_ += kHour;
  Count(*ledger, "a", 1, 0);
  ledger->Flush();
  const auto totals = roostctl::AddUpLedgers({folder_.string()}, 0)->totals;
  ASSERT_EQ(totals.size(), 2U);
  EXPECT_EQ(totals.at({"acme", "a", "demo"}), (LedgerCounts{3, 151, 80, 80, 12, 71, 21, 1.5, 0.375}));
  EXPECT_EQ(totals.at({"acme", "b", "demo"}), (LedgerCounts{1, 10, 0, 0, 4, 10, 7, 0.5, 0.125}));
  EXPECT_EQ(Sum(now_ / kHour).requests, 1U);
}

TEST_F(LedgerTest, WhatFailedBeforeItsFirstTokenIsNotCountedAndWhatAnEngineAnsweredIs) {
  const auto ledger = Open();
  ledger->OnGenerationEnd({.model = "demo", .prompt_tokens = 100});
  ledger->OnForwardEnd({.is_failed = true, .model = "demo", .prompt_tokens = 9});
  ledger->Flush();
  EXPECT_TRUE(Files().empty());
  EXPECT_EQ(written_, 0);
  ledger->OnForwardEnd(
      {.has_begun = true, .model = "demo", .prompt_tokens = 9, .cached_tokens = 4, .output_tokens = 2});
  ledger->Flush();
  EXPECT_EQ(Sum(), (LedgerCounts{1, 9, 4, 4, 4, 0, 2, 0, 0}));
}

TEST_F(LedgerTest, FolderAndFilesAreForTheirUserAlone) {
  const auto ledger = Open();
  Count(*ledger, "a", 1, 0);
  ledger->Flush();
  struct stat found {};
  ASSERT_EQ(stat(folder_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0700U);
  ASSERT_EQ(Files().size(), 1U);
  ASSERT_EQ(stat(Files().front().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
}

TEST_F(LedgerTest, AFolderThatTakesNoFileIsNamed) {
  std::ofstream(folder_) << "a file";
  for (const fs::path& folder :
       {folder_, folder_ / "deeper", fs::path("/nonexistent/ledger"), fs::path("/proc/ledger")}) {
    const auto refused = Ledger::Open({.folder = folder, .unix_seconds = [] { return 0; }}, next_);
    ASSERT_FALSE(refused.ok()) << folder;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().field, "ledger");
    EXPECT_THAT(refused.error().message, HasSubstr(folder.string()));
  }
}

// A process that is killed leaves its file as some write left it. Whatever there is of the last one, the sums are those
// of a flush that was whole, or of the one after it.
TEST_F(LedgerTest, AFileThatIsCutAnywhereCountsNothingTwice) {
  const auto ledger = Open();
  std::vector<LedgerCounts> after{{}};
  for (int flush = 0; flush < 2; ++flush) {
    for (const char* key : {"a", "b"}) Count(*ledger, key, 100, 60);
    ledger->Flush();
    after.push_back(Sum());
  }
  ASSERT_EQ(after.back().requests, 4U);
  const fs::path file = Files().front();
  const std::string whole = TextOf(file);
  std::uint64_t last = 0;
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    std::ofstream(file) << whole.substr(0, size);
    const std::uint64_t requests = Sum().requests;
    EXPECT_GE(requests, last);
    EXPECT_LE(requests, last + 1);  // a line more
    last = requests;
  }
  EXPECT_EQ(last, 4U);
}

TEST_F(LedgerTest, RunsAndRoutersAddUpAndACopyCountsOnce) {
  {
    const auto first = Open();
    const auto second = Open();  // of another router, in the same folder
    Count(*first, "a", 100, 50);
    Count(*second, "a", 10, 5);
  }
  Count(*Open(), "a", 1, 0);  // after a restart
  EXPECT_EQ(Files().size(), 3U);
  EXPECT_EQ(Sum().prompt_tokens, 111U);
  const std::string copy = Copy();
  fs::remove_all(copy);
  fs::copy(folder_, copy);
  const auto both = roostctl::AddUpLedgers({folder_.string(), copy, folder_.string() + "/"}, 0);
  EXPECT_EQ(both->totals.at({"acme", "a", "demo"}).prompt_tokens, 111U);
}

TEST_F(LedgerTest, AFileEndsWithItsDay) {
  const auto ledger = Open();
  Count(*ledger, "a", 1, 0);
  ledger->Flush();
  Count(*ledger, "a", 2, 0);
  now_ += kDay;
  Count(*ledger, "a", 4, 0);  // before the first day's file has ended
  ledger->Flush();
  Count(*ledger, "a", 8, 0);
  ledger->Flush();
  std::vector<fs::path> files = Files();
  ASSERT_EQ(files.size(), 2U);
  EXPECT_NE(files[0].filename().string().substr(0, 10), files[1].filename().string().substr(0, 10));
  EXPECT_EQ(Sum().prompt_tokens, 15U);
  now_ += 10 * kDay;
  ledger->Flush();  // without a request the file ends, and no other begins
  ledger->Flush();
  EXPECT_EQ(Files().size(), 2U);
  EXPECT_EQ(Sum().prompt_tokens, 15U);
}

TEST_F(LedgerTest, RowsAreBounded) {
  const auto ledger = Open();
  for (std::size_t i = 0; i < 3 * kMaxRows; ++i) Count(*ledger, "key-" + std::to_string(i), 1, 0);
  for (int flush = 0; flush < 2; ++flush) ledger->Flush();
  const auto sum = roostctl::AddUpLedgers({folder_.string()}, 0);
  EXPECT_EQ(sum->totals.size(), 2 * kMaxRows + 1);
  EXPECT_EQ(sum->totals.at({"other", "other", "demo"}).requests, kMaxRows);
  EXPECT_EQ(Sum().requests, 3 * kMaxRows);
}

TEST_F(LedgerTest, AFileStaysSmallHoweverOftenItIsWritten) {
  const auto ledger = Open();
  for (int flush = 0; flush < 100; ++flush) {  // 30 KB of lines
    Count(*ledger, "a", 1, 0);
    ledger->Flush();
  }
  EXPECT_EQ(Files().size(), 1U);
  EXPECT_LT(fs::file_size(Files().front()), kGrowthBytes + 4096);
  EXPECT_EQ(Sum().requests, 100U);
}

// A limit on the size of files stands for a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    (void)std::signal(SIGXFSZ, SIG_IGN);
    (void)getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    (void)setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { (void)setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(LedgerTest, AFullDiskLosesNothingThatIsCountedMeanwhile) {
  const auto ledger = Open();
  Count(*ledger, "a", 1, 0);
  ledger->Flush();
  const LedgerCounts before = Sum();
  {
    const FullDisk disk(100);
    for (int i = 0; i < 3; ++i) {
      Count(*ledger, "a", 2, 0);
      ledger->Flush();
      EXPECT_EQ(Sum(), before);
    }
    now_ += kDay;  // the file should end meanwhile
    Count(*ledger, "b", 4, 0);
    ledger->Flush();
    Count(*ledger, "c", 8, 0);
    ledger->Flush();
    EXPECT_EQ(Sum(), before);
  }
  EXPECT_EQ(failed_, 5);
  for (int flush = 0; flush < 2; ++flush) ledger->Flush();
  EXPECT_EQ(Sum().prompt_tokens, 1U + 6 + 4 + 8);
  EXPECT_EQ(Files().size(), 2U);  // and nothing else is left there
}

TEST_F(LedgerTest, APartOfALineIsWrittenOver) {
  const auto ledger = Open();
  Count(*ledger, "a", 1, 0);
  ledger->Flush();
  const fs::path file = Files().front();
  const std::uintmax_t size = fs::file_size(file);
  {
    const FullDisk disk(size + 100);
    Count(*ledger, "a", 2, 0);
    ledger->Flush();
    EXPECT_EQ(fs::file_size(file), size + 100);
    EXPECT_EQ(Sum().prompt_tokens, 1U);
  }
  Count(*ledger, "a", 4, 0);
  ledger->Flush();
  EXPECT_EQ(Sum().prompt_tokens, 7U);
  EXPECT_LT(fs::file_size(file), size + 20);
}

TEST_F(LedgerTest, WhatSomebodyRemovesIsWrittenAgain) {
  const auto ledger = Open();
  Count(*ledger, "a", 1, 0);
  ledger->Flush();
  fs::remove_all(folder_);
  Count(*ledger, "a", 2, 0);
  ledger->Flush();
  ledger->Flush();
  EXPECT_EQ(failed_, 2);  // there is no folder
  fs::create_directory(folder_);
  ledger->Flush();
  EXPECT_EQ(Sum().prompt_tokens, 3U);
}

// Counted by several threads while a writer flushes each second: all of it is there at the end.
TEST_F(LedgerTest, ThreadsCountWhileItIsWritten) {
  constexpr int kEach = 2000;
  {
    const auto ledger = Ledger::Open({.folder = folder_, .unix_seconds = [] { return 1'795'900'000; }}, next_).value();
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&ledger] {
        for (int n = 0; n < kEach; ++n) Count(*ledger, "key-" + std::to_string(n % 7), 10, 5);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(Sum().requests, 3U * kEach);
}

// Random days of two routers with cuts and restarts, against sums that are kept beside.
TEST_F(LedgerTest, ModelOfRandomRuns) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    fs::remove_all(folder_);
    Rng rng(seed);
    LedgerCounts told;
    std::unique_ptr<Ledger> ledgers[2] = {Open(), Open()};
    for (int step = 0; step < 150; ++step) {
      std::unique_ptr<Ledger>& ledger = ledgers[rng.Below(2)];
      const std::uint64_t what = rng.Below(20);
      if (what == 0) {
        ledger.reset();
        ledger = Open();
      } else if (what == 1) {
        now_ += static_cast<std::int64_t>(rng.Below(2 * kDay));
      } else if (what < 6) {
        ledger->Flush();
      } else {
        const auto prompt = static_cast<std::uint32_t>(rng.Below(1000)) + 1;
        Count(*ledger, std::string(1, static_cast<char>('a' + rng.Below(4))), prompt, prompt / 2);
        told.requests += 1;
        told.prompt_tokens += prompt;
      }
    }
    for (std::unique_ptr<Ledger>& ledger : ledgers) ledger.reset();
    EXPECT_EQ(Sum().requests, told.requests);
    EXPECT_EQ(Sum().prompt_tokens, told.prompt_tokens);
  }
}

}  // namespace
}  // namespace roost::router
