// Slots that the server saves and restores.
#include "worker/adapters/slots/slot_moves.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "tests/worker/adapters/fake_http.h"
#include "worker/adapters/engine_protocol.h"
#include "worker/adapters/slots/slot_files.h"
#include "worker/adapters/slots/slot_shelf.h"
#include "worker/adapters/slots/slot_table.h"
#include "worker/engine_api/step_report.h"

namespace roost::worker::adapters {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing_support::FakeHttp;

const BlockHash kMovedOrigin{5, 6};
const BlockHash kMovedRoot{1, 2};

std::vector<TokenId> SlotPrompt(TokenId first, std::size_t count = 200) {
  std::vector<TokenId> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = first * 1000 + static_cast<TokenId>(i);
  return tokens;
}

// One slot; the server as the test plays it.
class SlotMovesTest : public ::testing::Test {
 protected:
  SlotMovesTest() : folder_(fs::path(::testing::TempDir()) / fmt::format("slot_moves_{}", getpid())) {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    auto shelf =
        std::make_unique<SlotShelf>(SlotShelf::Options{.bytes = 1 << 20, .save_after = seconds(5)},
                                    std::make_unique<SlotFiles>(folder_), kMovedOrigin, std::vector<SavedSlot>());
    table_.emplace(SlotTable::Options{.slot_count = 1, .context_tokens = 4096}, std::move(shelf));
    moves_.emplace(*table_, clock_, ids_, http_);
    clock_.Advance(seconds(100));
  }
  ~SlotMovesTest() override {
    moves_.reset();
    table_.reset();
    fs::remove_all(folder_);
  }

  [[nodiscard]] SlotShelf& shelf() { return *table_->shelf(); }
  CallId Ask(const std::vector<TokenId>& prompt, BlockHash root = kMovedRoot) {
    wire::Generate generate;
    generate.root = root;
    generate.prompt = prompt;
    const CallId call = ids_.Next();
    table_->Enqueue(call, generate);
    return call;
  }
  void Answer(CallId call) {
    table_->OnFound(call, 0);
    table_->OnComputed(call);
    table_->OnEnd(call, std::vector<TokenId>{7, 8}, SlotTable::EndKind::kComplete, clock_.Now());
  }
  void Turn(const std::vector<TokenId>& prompt) {
    const CallId call = Ask(prompt);
    const auto grant = table_->Next(clock_.Now());
    ASSERT_TRUE(grant && !grant->move);
    Answer(call);
  }
  // The server's answer to the one call that is open there.
  void Reply(const std::string& action, int status, const std::string& body) {
    const auto open = http_.Open("/slots/0?action=" + action);
    ASSERT_EQ(open.size(), 1U) << action;
    http_.ended.insert(open.front().id);
    ASSERT_TRUE(moves_->OnHttp({open.front().id, HttpStatus{status}}));
    ASSERT_TRUE(moves_->OnHttp({open.front().id, HttpBytes{body}}));
    ASSERT_TRUE(moves_->OnHttp({open.front().id, HttpEnd{}}));
  }
  // Saves what the slot holds once it is idle for long enough.
  void SaveIdle(std::uint32_t tokens = 201) {
    clock_.Advance(seconds(5));
    moves_->Tick();
    const auto open = http_.Open("/slots/0?action=save");
    ASSERT_EQ(open.size(), 1U);
    const std::string body = open.front().call.body;  // {"filename":"NAME.slot"}
    const std::string file = body.substr(13, body.size() - 15);
    std::ofstream(folder_ / file) << std::string(1000, 'x');
    Reply("save", 200, fmt::format(R"({{"n_saved":{},"n_written":1000,"timings":{{"save_ms":2}}}})", tokens));
    while (shelf().files().DoNext()) {
    }
    moves_->Tick();
    EXPECT_EQ(moves_->TakeMoved(), std::vector<std::uint32_t>{0});
    EXPECT_FALSE(table_->OnMoved(0, clock_.Now()));
  }
  // A request whose prompt is on disk: its restore has been asked for.
  CallId AskForSaved() {
    table_->OnEngineRestart(clock_.Now());
    const CallId call = Ask(SlotPrompt(1));
    const auto grant = table_->Next(clock_.Now());
    EXPECT_TRUE(grant && grant->move && grant->move->restore);
    moves_->Begin(*grant->move);
    EXPECT_TRUE(http_.Open("/slots/0?action=restore").empty()) << "the file is looked at first";
    EXPECT_TRUE(shelf().files().DoNext());
    moves_->Tick();
    return call;
  }

  // An order with this id for the prompt.
  void Evict(const std::vector<TokenId>& prompt, std::uint64_t id = 9) {
    moves_->Evict(LinkId{1},
                  {.what = wire::PromptToEvict{.root = kMovedRoot, .tokens = prompt, .block_hashes = {}, .own = {}},
                   .answer_id = id});
  }
  void DoFiles() {
    while (shelf().files().DoNext()) {
    }
    moves_->Tick();
  }
  void ReplyErased() { Reply("erase", 200, R"({"id_slot":0,"n_erased":201})"); }
  // The only answer so far.
  wire::EvictAnswer TakeAnswer() {
    const std::vector<EngineAnswer> answers = moves_->TakeAnswers();
    EXPECT_EQ(answers.size(), 1U);
    return answers.empty() ? wire::EvictAnswer() : std::get<wire::EvictAnswer>(answers.front().answer);
  }
  [[nodiscard]] bool HasFiles() const { return fs::directory_iterator(folder_) != fs::directory_iterator(); }
  // The file that the open save names, as the server writes it.
  void WriteSaved() {
    const std::string body = http_.Open("/slots/0?action=save").front().call.body;
    std::ofstream(folder_ / body.substr(13, body.size() - 15)) << std::string(1000, 'x');
  }

  const fs::path folder_;
  ManualClock clock_;
  FakeHttp http_;
  CallIds ids_;
  std::optional<SlotTable> table_;
  std::optional<SlotMoves> moves_;
};

TEST_F(SlotMovesTest, ASlotThatWasIdleIsSavedOnce) {
  Turn(SlotPrompt(1));
  EXPECT_EQ(moves_->deadline(), clock_.Now() + seconds(5));
  clock_.Advance(seconds(4));
  moves_->Tick();
  EXPECT_TRUE(http_.sent.empty());
  SaveIdle();
  EXPECT_EQ(shelf().entry_count(), 1U);
  EXPECT_FALSE(moves_->deadline());
  EXPECT_EQ(table_->disk(clock_.Now()).blocks, 12U);
}

TEST_F(SlotMovesTest, WhileItIsSavedNoRequestGetsIt) {
  Turn(SlotPrompt(1));
  clock_.Advance(seconds(5));
  moves_->Tick();
  (void)Ask(SlotPrompt(2));
  EXPECT_FALSE(table_->Next(clock_.Now()));
  Reply("save", 500, R"({"error":{"code":500,"message":"Unable to save slot","type":"server_error"}})");
  EXPECT_EQ(moves_->TakeMoved(), std::vector<std::uint32_t>{0});
  EXPECT_FALSE(table_->OnMoved(0, clock_.Now()));
  EXPECT_TRUE(table_->Next(clock_.Now()));
}

TEST_F(SlotMovesTest, AfterAFailureNothingIsSavedForAMinute) {
  Turn(SlotPrompt(1));
  clock_.Advance(seconds(5));
  moves_->Tick();
  Reply("save", 501,
        R"({"error":{"code":501,"message":"Start it with `--slot-save-path`","type":"not_supported_error"}})");
  (void)moves_->TakeMoved();
  (void)table_->OnMoved(0, clock_.Now());
  Turn(SlotPrompt(2));
  clock_.Advance(seconds(50));
  moves_->Tick();
  EXPECT_TRUE(http_.Open("/slots/0?action=save").empty());
  EXPECT_EQ(moves_->deadline(), clock_.Now() + seconds(5));
  clock_.Advance(seconds(10));
  moves_->Tick();
  EXPECT_EQ(http_.Open("/slots/0?action=save").size(), 1U);
}

TEST_F(SlotMovesTest, ASlotThatHoldsLessThanIsKnownIsNotShelved) {
  Turn(SlotPrompt(1));
  SaveIdle(150);
  EXPECT_EQ(shelf().entry_count(), 0U);
}

TEST_F(SlotMovesTest, WhatIsOnDiskIsRestoredBeforeTheRequestIsSent) {
  Turn(SlotPrompt(1));
  SaveIdle();
  const CallId call = AskForSaved();
  Reply("restore", 200, R"({"n_restored":201,"n_read":1000,"timings":{"restore_ms":2}})");
  EXPECT_EQ(moves_->TakeMoved(), std::vector<std::uint32_t>{0});
  const auto grant = table_->OnMoved(0, clock_.Now());
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->call, call);
  EXPECT_TRUE(grant->finds_prefix);
  EXPECT_FALSE(grant->move);
  EXPECT_EQ(moves_->TakeRestores().restored, 1U);
  EXPECT_EQ(table_->block_count(), 12U);
}

TEST_F(SlotMovesTest, AFileThatTheServerRefusesGoes) {
  Turn(SlotPrompt(1));
  SaveIdle();
  const CallId call = AskForSaved();
  Reply("restore", 400, R"({"error":{"code":400,"message":"Unable to restore slot","type":"invalid_request_error"}})");
  (void)moves_->TakeMoved();
  const auto grant = table_->OnMoved(0, clock_.Now());
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->call, call);
  EXPECT_EQ(shelf().entry_count(), 0U);
  EXPECT_EQ(table_->block_count(), 0U);
  EXPECT_EQ(moves_->TakeRestores().failed, 1U);
}

TEST_F(SlotMovesTest, ADamagedFileIsNotShownToTheServer) {
  Turn(SlotPrompt(1));
  SaveIdle();
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (entry.path().extension() == ".slot") fs::resize_file(entry.path(), 500);
  }
  (void)AskForSaved();
  EXPECT_TRUE(http_.Open("/slots/0?action=restore").empty());
  EXPECT_EQ(moves_->TakeMoved(), std::vector<std::uint32_t>{0});
  EXPECT_TRUE(table_->OnMoved(0, clock_.Now()));
  EXPECT_EQ(shelf().entry_count(), 0U);
}

TEST_F(SlotMovesTest, ARequestThatLeavesMeanwhileLeavesTheSlotToTheNext) {
  Turn(SlotPrompt(1));
  SaveIdle();
  const CallId call = AskForSaved();
  table_->OnEnd(call, {}, SlotTable::EndKind::kComplete, clock_.Now());
  const CallId other = Ask(SlotPrompt(1, 220));
  EXPECT_FALSE(table_->Next(clock_.Now())) << "the server still works on it";
  Reply("restore", 200, R"({"n_restored":201,"n_read":1000,"timings":{"restore_ms":2}})");
  (void)moves_->TakeMoved();
  EXPECT_FALSE(table_->OnMoved(0, clock_.Now()));
  const auto grant = table_->Next(clock_.Now());
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->call, other);
  EXPECT_FALSE(grant->move) << "the slot holds it";
}

TEST_F(SlotMovesTest, WhatARequestWouldOverwriteIsSavedFirst) {
  Turn(SlotPrompt(1));
  const CallId call = Ask(SlotPrompt(2));
  const auto grant = table_->Next(clock_.Now());
  ASSERT_TRUE(grant && grant->move && grant->move->save);
  EXPECT_FALSE(grant->move->restore);
  moves_->Begin(*grant->move);
  Reply("save", 200, R"({"n_saved":201,"n_written":1000,"timings":{"save_ms":2}})");
  EXPECT_EQ(moves_->TakeMoved(), std::vector<std::uint32_t>{0});
  const auto placed = table_->OnMoved(0, clock_.Now());
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->call, call);
}

// Neither the server's pace nor the disk's is known, nor was the pace when it was saved.
TEST_F(SlotMovesTest, BeforeAnythingIsKnownALittleIsNotRestoredFromMuch) {
  table_.emplace(
      SlotTable::Options{.slot_count = 1, .context_tokens = 4096},
      std::make_unique<SlotShelf>(SlotShelf::Options{.bytes = 1 << 30, .save_after = seconds(5)},
                                  std::make_unique<SlotFiles>(folder_), kMovedOrigin, std::vector<SavedSlot>()));
  shelf().Add({.name = std::string(32, 'a'),
               .origin = kMovedOrigin,
               .root = kMovedRoot,
               .hashes = HashBlocks(kMovedRoot, SlotPrompt(1, 160), kGrainTokens),
               .tokens = 160,
               .bytes = 30'000'000});
  CallId call = Ask(SlotPrompt(1, 40));
  auto grant = table_->Next(clock_.Now());
  ASSERT_TRUE(grant);
  EXPECT_FALSE(grant->move);
  table_->OnEnd(call, {}, SlotTable::EndKind::kComplete, clock_.Now());
  call = Ask(SlotPrompt(1, 150));
  grant = table_->Next(clock_.Now());
  ASSERT_TRUE(grant);
  EXPECT_TRUE(grant->move && grant->move->restore) << "computing so much takes longer";
}

TEST_F(SlotMovesTest, ASlowDiskIsNotRestoredFromAndNotSavedTo) {
  table_->SetPace(0.001);
  Turn(SlotPrompt(1));
  SaveIdle();
  for (int time = 0; time < 50; ++time) {  // one alone would have been disturbed
    shelf().NoteRestored(1000, seconds(10), clock_.Now());
    shelf().NoteSaved(201, 1000, seconds(10), clock_.Now());
  }
  table_->OnEngineRestart(clock_.Now());
  const CallId call = Ask(SlotPrompt(1));
  const auto grant = table_->Next(clock_.Now());
  ASSERT_TRUE(grant);
  EXPECT_FALSE(grant->move);
  Answer(call);
  Turn(SlotPrompt(3));
  clock_.Advance(seconds(60));
  moves_->Tick();
  EXPECT_EQ(http_.sent.size(), 1U);
}

TEST_F(SlotMovesTest, WithTheEngineGoneNothingWaits) {
  Turn(SlotPrompt(1));
  SaveIdle();
  const CallId call = AskForSaved();
  table_->OnEnd(call, {}, SlotTable::EndKind::kComplete, clock_.Now());
  moves_->EndAll();
  EXPECT_TRUE(http_.Open("/slots/0?action=restore").empty());
  EXPECT_EQ(moves_->TakeMoved(), std::vector<std::uint32_t>{0});
  EXPECT_FALSE(table_->OnMoved(0, clock_.Now()));
  EXPECT_EQ(shelf().entry_count(), 1U) << "it is still there";
  table_->OnEngineRestart(clock_.Now());
  (void)Ask(SlotPrompt(1));
  EXPECT_TRUE(table_->Next(clock_.Now()));
}

// ---- orders to evict ----

constexpr const char* kSavedReply = R"({"n_saved":201,"n_written":1000,"timings":{"save_ms":2}})";

TEST_F(SlotMovesTest, AnEvictionIsAnsweredOnceSlotAndFileAreErased) {
  Turn(SlotPrompt(1));
  SaveIdle();
  Evict(SlotPrompt(1, 160));
  EXPECT_EQ(table_->block_count(), 0U);
  EXPECT_EQ(shelf().entry_count(), 0U);
  ReplyErased();
  EXPECT_TRUE(moves_->TakeAnswers().empty()) << "the file is still there";
  EXPECT_TRUE(HasFiles());
  DoFiles();
  EXPECT_FALSE(HasFiles());
  EXPECT_EQ(
      TakeAnswer(),
      (wire::EvictAnswer{.answer_id = 9, .evicted_block_count = 12, .busy_block_count = 0, .disk_block_count = 12}));
  EXPECT_EQ(moves_->TakeMoved(), std::vector<std::uint32_t>{0});
  EXPECT_FALSE(table_->OnMoved(0, clock_.Now()));
}

TEST_F(SlotMovesTest, UntilTheServerHasErasedTheSlotNoRequestGetsItAndNothingIsAnswered) {
  Turn(SlotPrompt(1));
  Evict(SlotPrompt(1));
  DoFiles();
  (void)Ask(SlotPrompt(2));
  EXPECT_FALSE(table_->Next(clock_.Now()));
  EXPECT_TRUE(moves_->TakeAnswers().empty());
  ReplyErased();
  EXPECT_EQ(TakeAnswer().outcome, wire::EvictOutcome::kDone);
}

TEST_F(SlotMovesTest, AnEvictionWaitsForTheSaveUnderWayAndItsFileGoes) {
  Turn(SlotPrompt(1));
  clock_.Advance(seconds(5));
  moves_->Tick();
  WriteSaved();
  Evict(SlotPrompt(1));
  DoFiles();
  EXPECT_TRUE(moves_->TakeAnswers().empty());
  Reply("save", 200, kSavedReply);
  DoFiles();
  EXPECT_FALSE(HasFiles());
  EXPECT_TRUE(moves_->TakeAnswers().empty()) << "the slot holds it";
  ReplyErased();
  EXPECT_EQ(TakeAnswer().outcome, wire::EvictOutcome::kDone);
  EXPECT_EQ(shelf().entry_count(), 0U);
}

TEST_F(SlotMovesTest, AnEvictionReachesAFileWhoseSumIsStillComputed) {
  Turn(SlotPrompt(1));
  clock_.Advance(seconds(5));
  moves_->Tick();
  WriteSaved();
  Reply("save", 200, kSavedReply);
  (void)moves_->TakeMoved();
  (void)table_->OnMoved(0, clock_.Now());
  Evict(SlotPrompt(1));
  ReplyErased();
  EXPECT_TRUE(shelf().files().DoNext());
  moves_->Tick();
  EXPECT_EQ(shelf().entry_count(), 0U);
  EXPECT_TRUE(moves_->TakeAnswers().empty());
  DoFiles();
  EXPECT_FALSE(HasFiles());
  EXPECT_EQ(TakeAnswer().outcome, wire::EvictOutcome::kDone);
}

TEST_F(SlotMovesTest, ANamedRequestGoesOnAndItsSlotIsErasedBehindIt) {
  const CallId running = Ask(SlotPrompt(1));
  EXPECT_TRUE(table_->Next(clock_.Now()));
  table_->OnFound(running, 0);
  table_->OnComputed(running);
  const CallId waiting = Ask(SlotPrompt(1, 300));
  Evict(SlotPrompt(1));
  DoFiles();
  EXPECT_EQ(TakeAnswer(), (wire::EvictAnswer{.answer_id = 9, .busy_block_count = 12}));
  EXPECT_EQ(table_->block_count(), 0U);
  for (const CallId call : {running, waiting}) {
    EXPECT_FALSE(table_->NextErase());
    table_->OnEnd(call, std::vector<TokenId>{7, 8}, SlotTable::EndKind::kComplete, clock_.Now());
    EXPECT_EQ(table_->block_count(), 0U);
    const auto move = table_->NextErase();
    ASSERT_TRUE(move && move->erases);
    moves_->Begin(*move);
    ReplyErased();
    (void)moves_->TakeMoved();
    (void)table_->OnMoved(0, clock_.Now());
    if (call == waiting) break;
    EXPECT_TRUE(table_->Next(clock_.Now()));
    table_->OnFound(waiting, 16);
    table_->OnComputed(waiting);
    EXPECT_EQ(table_->block_count(), 0U) << "it was named while it waited";
  }
  EXPECT_FALSE(moves_->deadline()) << "nothing is to be saved";
}

TEST_F(SlotMovesTest, WhatIsRestoredAtThatTimeIsErasedBeforeItsRequestIsSent) {
  Turn(SlotPrompt(1));
  SaveIdle();
  const CallId call = AskForSaved();
  Evict(SlotPrompt(1));
  DoFiles();
  EXPECT_FALSE(HasFiles());
  EXPECT_TRUE(http_.Open("/slots/0?action=erase").empty());
  Reply("restore", 200, R"({"n_restored":201,"n_read":1000,"timings":{"restore_ms":2}})");
  EXPECT_TRUE(moves_->TakeMoved().empty());
  ReplyErased();
  EXPECT_EQ(TakeAnswer().outcome, wire::EvictOutcome::kDone);
  EXPECT_EQ(moves_->TakeMoved(), std::vector<std::uint32_t>{0});
  const auto grant = table_->OnMoved(0, clock_.Now());
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->call, call);
  EXPECT_EQ(table_->block_count(), 0U);
}

TEST_F(SlotMovesTest, AFileThatIsLookedAtForARequestIsNotRestoredAnyMore) {
  Turn(SlotPrompt(1));
  SaveIdle();
  table_->OnEngineRestart(clock_.Now());
  const CallId call = Ask(SlotPrompt(1));
  moves_->Begin(*table_->Next(clock_.Now())->move);
  Evict(SlotPrompt(1));
  EXPECT_EQ(moves_->TakeMoved(), std::vector<std::uint32_t>{0});
  const auto grant = table_->OnMoved(0, clock_.Now());
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->call, call);
  DoFiles();
  EXPECT_TRUE(http_.Open("/slots/0?action=restore").empty());
  EXPECT_EQ(TakeAnswer().disk_block_count, 12U);
}

// The server may keep what was there when it refuses a file.
TEST_F(SlotMovesTest, ASlotWhoseNewContentIsNotRestoredIsErased) {
  Turn(SlotPrompt(1));
  SaveIdle();
  Turn(SlotPrompt(2));
  (void)Ask(SlotPrompt(1));
  auto move = table_->Next(clock_.Now())->move;
  ASSERT_TRUE(move && move->restore);
  move->save.reset();
  moves_->Begin(*move);
  Evict(SlotPrompt(2));
  EXPECT_TRUE(shelf().files().DoNext());
  moves_->Tick();
  Reply("restore", 400, R"({"error":{"code":400,"message":"Unable to restore slot","type":"invalid_request_error"}})");
  DoFiles();
  EXPECT_TRUE(moves_->TakeAnswers().empty());
  ReplyErased();
  EXPECT_EQ(TakeAnswer().outcome, wire::EvictOutcome::kDone);
}

TEST_F(SlotMovesTest, WhatIsNotErasedIsRefused) {
  Turn(SlotPrompt(1));
  Evict(SlotPrompt(1));
  DoFiles();
  Reply("erase", 501, R"({"error":{"code":501,"message":"no","type":"not_supported_error"}})");
  EXPECT_EQ(TakeAnswer().outcome, wire::EvictOutcome::kRefused);
  (void)moves_->TakeMoved();
  (void)table_->OnMoved(0, clock_.Now());
  Turn(SlotPrompt(1));
  Evict(SlotPrompt(1));
  DoFiles();
  moves_->EndAll();
  EXPECT_EQ(TakeAnswer().outcome, wire::EvictOutcome::kRefused) << "the engine is away";
}

TEST_F(SlotMovesTest, AFileThatStaysIsRefusedUntilItIsGone) {
  Turn(SlotPrompt(1));
  SaveIdle();
  table_->OnEngineRestart(clock_.Now());
  fs::path file;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (entry.path().extension() == ".slot") file = entry.path();
  }
  fs::remove(file);
  fs::create_directory(file);  // such is not removed as a file is
  Evict(SlotPrompt(1));
  DoFiles();
  EXPECT_EQ(TakeAnswer().outcome, wire::EvictOutcome::kRefused);
  Evict(SlotPrompt(1));
  DoFiles();
  EXPECT_EQ(TakeAnswer().outcome, wire::EvictOutcome::kRefused);
  fs::remove(file);
  Evict(SlotPrompt(1));
  DoFiles();
  EXPECT_EQ(TakeAnswer().outcome, wire::EvictOutcome::kDone);
}

// Nothing erases the sequences that the server keeps in its memory.
TEST_F(SlotMovesTest, WhereTheServersMemoryHasShownItselfAnEvictionIsNotComplete) {
  Turn(SlotPrompt(1));
  const CallId call = Ask(SlotPrompt(2));
  auto grant = table_->Next(clock_.Now());
  ASSERT_TRUE(grant && grant->move);
  grant->move->save.reset();
  moves_->Begin(*grant->move);
  (void)moves_->TakeMoved();
  (void)table_->OnMoved(0, clock_.Now());
  table_->OnFound(call, 150);
  table_->OnEnd(call, {}, SlotTable::EndKind::kComplete, clock_.Now());
  Evict(SlotPrompt(2));
  DoFiles();
  ReplyErased();
  EXPECT_EQ(TakeAnswer().outcome, wire::EvictOutcome::kRefused);
}

TEST_F(SlotMovesTest, OrdersBeyondTheLimitAreRefusedAtOnce) {
  for (std::uint64_t id = 1; id <= SlotMoves::kMaxEvictions; ++id) Evict(SlotPrompt(1), id);
  EXPECT_TRUE(moves_->TakeAnswers().empty());
  Evict(SlotPrompt(1), 99);
  const wire::EvictAnswer refused = TakeAnswer();
  EXPECT_EQ(refused.answer_id, 99U);
  EXPECT_EQ(refused.outcome, wire::EvictOutcome::kRefused);
  DoFiles();
  EXPECT_EQ(moves_->TakeAnswers().size(), SlotMoves::kMaxEvictions);
}

}  // namespace
}  // namespace roost::worker::adapters
