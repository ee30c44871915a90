// Saves and restores slots of llama.cpp's server as the slot table has decided it, and brings what was saved to its
// shelf.
//
//   save:     POST /slots/N?action=save ─► sum, sync, entry (slot_files.h) ─► shelf
//   restore:  the file's sum is right ─► POST /slots/N?action=restore
//   evict:    POST /slots/N?action=erase, and files go; what is being saved or restored, once that is over ─► answer
//
// The server does either in its one loop, so its other slots wait meanwhile. Nothing here fails a request: a slot that
// can not be restored computes.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/json/json_read.h"
#include "common/wire/messages.h"
#include "worker/adapters/http_port.h"
#include "worker/adapters/slots/slot_files.h"
#include "worker/adapters/slots/slot_table.h"
#include "worker/engine_api/step_report.h"

namespace roost::worker::adapters {

// Restores that have ended since the last report.
struct SlotRestores {
  std::uint64_t restored = 0;
  std::uint64_t failed = 0;
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  std::vector<double> seconds = {};
};

class SlotMoves {
 public:
  // The references outlive it. The table has a shelf.
  SlotMoves(SlotTable& table, const Clock& clock, CallIds& ids, HttpPort& port);
  ~SlotMoves();
  SlotMoves(const SlotMoves&) = delete;
  SlotMoves& operator=(const SlotMoves&) = delete;

  void Begin(SlotMove move);
  // False if the event is of another's call.
  [[nodiscard]] bool OnHttp(const HttpEvent& event);
  // Takes what the files' thread has done, and begins to save slots that have been idle.
  void Tick();
  [[nodiscard]] std::optional<Instant> deadline() const { return table_.next_save(); }
  // The engine is away: what runs there is over.
  void EndAll();

  // Orders that are open at a time; more are refused.
  static constexpr std::size_t kMaxEvictions = 16;
  // Answered once slots and files are erased, with a refusal if one is not, or if the server has shown that it keeps
  // sequences in its memory, of which it erases nothing.
  void Evict(LinkId link, const wire::Evict& order);
  [[nodiscard]] std::vector<EngineAnswer> TakeAnswers() { return std::exchange(answers_, {}); }

  // Slots whose move is over.
  [[nodiscard]] std::vector<std::uint32_t> TakeMoved() { return std::exchange(moved_, {}); }
  [[nodiscard]] SlotRestores TakeRestores() { return std::exchange(restores_, {}); }

 private:
  struct Running {
    SlotMove move;
    Instant began = {};
    Duration checked = {};  // that looking at the file took
    std::optional<CallId> call = {};
    int status = 0;
    std::string body = {};
    bool drops_save = false;  // an order names what is saved
    bool wipes = false;       // one names what the slot held before: it is erased unless it is replaced
  };
  // A file that its thread sums.
  struct Keeping {
    SavedSlot saved;
    bool is_erased = false;
  };
  struct Eviction {
    LinkId link;
    wire::EvictAnswer answer;
    std::set<std::uint32_t> slots = {};  // whose moves have to end
    std::set<std::uint64_t> files = {};  // numbers of erasures
    std::optional<std::string> failure = {};
  };
  struct Answer {
    std::uint32_t tokens = 0;
    std::uint64_t bytes = 0;
    Duration time = {};  // that its loop stood still; not what it had to do before
  };

  [[nodiscard]] SlotShelf& shelf() { return *table_.shelf(); }
  void Continue(std::uint32_t slot);
  void Ask(std::uint32_t slot, const char* action, const SavedSlot& saved);
  void OnEnd(std::uint32_t slot, const HttpEnd& end);
  [[nodiscard]] Result<void> CheckStatus(const Running& running, const HttpEnd& end);
  [[nodiscard]] Result<Answer> Read(const Running& running, const HttpEnd& end);
  void OnSaved(std::uint32_t slot, const Result<Answer>& answer);
  void OnRestored(std::uint32_t slot, const Result<Answer>& answer);
  void OnErased(std::uint32_t slot, const Result<void>& answer);
  void OnFile(SlotFiles::Done done);
  void OnKept(SlotFiles::Done done);
  void OnChecked(const SlotFiles::Done& done);
  void PauseSaves(const std::string& why);
  // The moves that meet the order's sequences. Those that nothing continues are added to `stalled`.
  void MeetMoves(const SlotErasure& erasure, Eviction& eviction, std::vector<std::uint32_t>& stalled);
  [[nodiscard]] std::uint64_t EraseFiles(std::vector<std::string> names);
  void EndSlot(std::uint32_t slot, const std::optional<std::string>& failure);
  void AnswerComplete();

  SlotTable& table_;
  const Clock& clock_;
  CallIds& ids_;
  HttpPort& port_;
  simdjson::dom::parser parser_;
  std::map<std::uint32_t, Running> running_;  // by slot
  std::vector<std::uint32_t> moved_;
  SlotRestores restores_;
  std::vector<Keeping> keeping_;
  std::vector<Eviction> evictions_;
  std::vector<EngineAnswer> answers_;
  std::uint64_t last_erasure_ = 0;
};

}  // namespace roost::worker::adapters
