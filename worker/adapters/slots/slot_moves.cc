#include "worker/adapters/slots/slot_moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <variant>

#include "common/base/json_writer.h"
#include "common/base/log.h"
#include "worker/adapters/answer_json.h"
#include "worker/adapters/engine_error.h"
#include "worker/adapters/engine_protocol.h"

namespace roost::worker::adapters {
namespace {

constexpr std::size_t kMaxAnswerBytes = std::size_t{64} << 10U;
// A slot of many gigabytes on a slow disk.
constexpr Duration kLongestMove = std::chrono::minutes(5);

}  // namespace

SlotMoves::SlotMoves(SlotTable& table, const Clock& clock, CallIds& ids, HttpPort& port)
    : table_(table), clock_(clock), ids_(ids), port_(port) {}

SlotMoves::~SlotMoves() { EndAll(); }

void SlotMoves::Begin(SlotMove move) {
  const std::uint32_t slot = move.slot;
  running_.insert_or_assign(slot, Running{.move = std::move(move)});
  Continue(slot);
}

void SlotMoves::Continue(std::uint32_t slot) {
  Running& running = running_.at(slot);
  running.began = clock_.Now();
  if (running.move.save) return Ask(slot, "save", *running.move.save);
  if (running.move.restore) return shelf().files().Check(*running.move.restore);
  running.move.erases = running.move.erases || std::exchange(running.wipes, false);
  if (running.move.erases) return Ask(slot, "erase", {});
  running_.erase(slot);
  moved_.push_back(slot);
  EndSlot(slot, std::nullopt);
}

void SlotMoves::Ask(std::uint32_t slot, const char* action, const SavedSlot& saved) {
  Running& running = running_.at(slot);
  running.call = ids_.Next();
  running.status = 0;
  running.body.clear();
  JsonWriter json;
  json.BeginObject().Key("filename").String(SlotFiles::FileName(saved.name)).EndObject();
  port_.Start(*running.call, {.method = HttpMethod::kPost,
                              .path = fmt::format("/slots/{}?action={}", slot, action),
                              .body = json.Take(),
                              .time_limit = kLongestMove,
                              .max_body_bytes = kMaxAnswerBytes});
}

bool SlotMoves::OnHttp(const HttpEvent& event) {
  for (auto& [slot, running] : running_) {
    if (running.call != event.call) continue;
    if (const auto* const status = std::get_if<HttpStatus>(&event.what)) running.status = status->status;
    if (const auto* const bytes = std::get_if<HttpBytes>(&event.what)) running.body += bytes->bytes;
    if (const auto* const end = std::get_if<HttpEnd>(&event.what)) OnEnd(slot, *end);
    return true;
  }
  return false;
}

Result<void> SlotMoves::CheckStatus(const Running& running, const HttpEnd& end) {
  if (end.how != CallEnd::kComplete) return ErrorOf(end);
  if (running.status == 200) return {};
  const Complaint complaint = ReadRefusal(parser_, running.status, running.body);
  return Unavailable(fmt::format("{}: {}", running.status, complaint.message));
}

// {"id_slot", "filename", "n_saved", "n_written", "timings": {"save_ms"}}, or the same with n_restored, n_read and
// restore_ms.
Result<SlotMoves::Answer> SlotMoves::Read(const Running& running, const HttpEnd& end) {
  ROOST_RETURN_IF_ERROR(CheckStatus(running, end));
  json::Element document;
  if (parser_.parse(running.body).get(document) != simdjson::SUCCESS) return Unreadable("it is no JSON");
  const bool is_save = running.move.save.has_value();
  const auto tokens = json::At<std::uint32_t>(document, is_save ? "n_saved" : "n_restored");
  const auto bytes = json::At<std::uint64_t>(document, is_save ? "n_written" : "n_read");
  const auto milliseconds = json::At<double>(document, is_save ? "/timings/save_ms" : "/timings/restore_ms");
  if (!tokens || !bytes || !milliseconds) return Unreadable("it does not tell what was done");
  return Answer{*tokens, *bytes, FromSeconds(*milliseconds / 1000)};
}

void SlotMoves::OnEnd(std::uint32_t slot, const HttpEnd& end) {
  Running& running = running_.at(slot);
  running.call.reset();
  if (running.move.save) {
    OnSaved(slot, Read(running, end));
    running.move.save.reset();
  } else if (running.move.restore) {
    OnRestored(slot, Read(running, end));
    running.move.restore.reset();
  } else {
    OnErased(slot, CheckStatus(running, end));
    running.move.erases = false;
  }
  Continue(slot);
}

// Another client may have used the slot meanwhile: then it holds less than is known, or something else.
void SlotMoves::OnSaved(std::uint32_t slot, const Result<Answer>& answer) {
  Running& running = running_.at(slot);
  SavedSlot& saved = *running.move.save;
  if (running.drops_save) {
    const std::uint64_t number = EraseFiles({saved.name});
    for (Eviction& eviction : evictions_) {
      if (eviction.slots.contains(slot)) eviction.files.insert(number);
    }
    return;
  }
  const bool is_more = answer.ok() && !shelf().options().goes_on_at_points && answer->tokens > saved.tokens;
  if (answer.ok() && (answer->tokens == saved.tokens || is_more)) {
    shelf().NoteSaved(answer->tokens, answer->bytes, answer->time, clock_.Now());
    saved.tokens = answer->tokens;
    saved.bytes = answer->bytes;
    keeping_.push_back({saved});
    return shelf().files().Keep(std::move(saved));
  }
  shelf().files().Remove(saved.name);
  if (!answer.ok()) PauseSaves(answer.error().message);
}

void SlotMoves::PauseSaves(const std::string& why) {
  shelf().PauseSaves(clock_.Now());
  LogWarning("a slot was not saved: no more are saved for a minute",
             {{"reason", why}, {"advice", "the server needs --slot-save-path with the directory of --slot-directory"}});
}

void SlotMoves::OnRestored(std::uint32_t slot, const Result<Answer>& answer) {
  Running& running = running_.at(slot);
  const SavedSlot& saved = *running.move.restore;
  if (answer.ok() && answer->tokens == saved.tokens) {
    const Duration time = running.checked + answer->time;
    shelf().NoteRestored(saved.bytes, time, clock_.Now());
    shelf().Use(saved.name);
    ++restores_.restored;
    restores_.blocks += saved.hashes.size();
    restores_.bytes += saved.bytes;
    restores_.seconds.push_back(ToSeconds(time));
    running.wipes = false;
    if (running.move.erases) return;
    return table_.OnRestored(slot, saved, answer->tokens, clock_.Now());
  }
  ++restores_.failed;
  table_.OnCleared(slot);
  LogWarning("a slot was not restored: its file goes",
             {{"file", SlotFiles::FileName(saved.name)},
              {"reason", answer.ok() ? "it holds other tokens" : answer.error().message}});
  shelf().Remove(saved.name);
}

void SlotMoves::OnErased(std::uint32_t slot, const Result<void>& answer) {
  if (answer.ok()) return;
  LogWarning("a slot was not erased", {{"slot", slot}, {"reason", answer.error().message}});
  EndSlot(slot, answer.error().message);
}

void SlotMoves::OnFile(SlotFiles::Done done) {
  switch (done.job) {
    case SlotFiles::Job::kKeep: return OnKept(std::move(done));
    case SlotFiles::Job::kCheck: return OnChecked(done);
    case SlotFiles::Job::kErase: break;
  }
  if (done.error) LogWarning("a saved slot was not erased", {{"reason", done.error->message}});
  for (Eviction& eviction : evictions_) {
    if (eviction.files.erase(done.erasure) > 0 && done.error) eviction.failure = done.error->message;
  }
  AnswerComplete();
}

void SlotMoves::OnKept(SlotFiles::Done done) {
  const auto keeping = std::find_if(keeping_.begin(), keeping_.end(),
                                    [&](const Keeping& each) { return each.saved.name == done.saved.name; });
  const bool is_erased = keeping->is_erased;
  keeping_.erase(keeping);
  if (is_erased) return;  // its files go with the next job
  if (!done.error) return shelf().Add(std::move(done.saved));
  shelf().files().Remove(done.saved.name);
  PauseSaves(done.error->message);
}

void SlotMoves::OnChecked(const SlotFiles::Done& done) {
  for (auto& [slot, running] : running_) {
    const bool waits =
        !running.call && !running.move.save && running.move.restore && running.move.restore->name == done.saved.name;
    if (!waits) continue;
    running.checked = clock_.Now() - running.began;
    if (!done.error) return Ask(slot, "restore", done.saved);
    ++restores_.failed;
    LogWarning("a saved slot can not be used: it goes", {{"reason", done.error->message}});
    shelf().Remove(done.saved.name);
    running.move.restore.reset();
    return Continue(slot);
  }
}

void SlotMoves::Tick() {
  for (SlotFiles::Done& done : shelf().files().TakeDone()) OnFile(std::move(done));
  while (std::optional<SlotMove> move = table_.NextSave(clock_.Now())) Begin(*std::move(move));
}

void SlotMoves::EndAll() {
  for (const auto& [slot, running] : running_) {
    if (running.call) port_.Close(*running.call);
    if (running.move.save) shelf().files().Remove(running.move.save->name);
    moved_.push_back(slot);
    EndSlot(slot, "the engine is away");
  }
  running_.clear();
}

// ---- orders to evict ----

void SlotMoves::Evict(LinkId link, const wire::Evict& order) {
  if (evictions_.size() >= kMaxEvictions) return answers_.push_back({link, Refusal(order)});
  SlotErasure erasure(order);
  table_.Teach(erasure);
  shelf().Teach(erasure);
  for (const Keeping& keeping : keeping_) erasure.Learn(keeping.saved.hashes);
  Eviction eviction{.link = link, .answer = {.answer_id = order.answer_id}};
  std::vector<std::uint32_t> stalled;
  MeetMoves(erasure, eviction, stalled);
  SlotShelf::Erased files = shelf().Erase(erasure);
  for (Keeping& keeping : keeping_) {
    if (!erasure.Names(keeping.saved)) continue;
    keeping.is_erased = true;
    files.names.push_back(keeping.saved.name);
  }
  const SlotTable::Erased slots = table_.Erase(erasure);
  eviction.answer.evicted_block_count = slots.free_blocks;
  eviction.answer.busy_block_count = slots.busy_blocks;
  eviction.answer.disk_block_count = files.block_count;
  if (slots.may_stay) eviction.failure = "the server's memory may have it";
  eviction.files.insert(EraseFiles(std::move(files.names)));
  evictions_.push_back(std::move(eviction));
  for (const std::uint32_t slot : stalled) Continue(slot);
  while (std::optional<SlotMove> move = table_.NextErase()) {
    evictions_.back().slots.insert(move->slot);
    Begin(*std::move(move));
  }
}

void SlotMoves::MeetMoves(const SlotErasure& erasure, Eviction& eviction, std::vector<std::uint32_t>& stalled) {
  for (auto& [slot, running] : running_) {
    SlotMove& move = running.move;
    if (table_.Holds(slot, erasure)) running.wipes = true;
    if (move.save && erasure.Names(*move.save)) running.drops_save = true;
    if (move.restore && erasure.Names(*move.restore)) {
      const bool is_asked = running.call && !move.save;
      if (is_asked) move.erases = true;
      if (!is_asked) move.restore.reset();
      if (!is_asked && !move.save) stalled.push_back(slot);
    }
    if (running.wipes || running.drops_save || move.erases) eviction.slots.insert(slot);
  }
}

std::uint64_t SlotMoves::EraseFiles(std::vector<std::string> names) {
  shelf().files().Erase(++last_erasure_, std::move(names));
  return last_erasure_;
}

void SlotMoves::EndSlot(std::uint32_t slot, const std::optional<std::string>& failure) {
  for (Eviction& eviction : evictions_) {
    if (eviction.slots.erase(slot) > 0 && failure) eviction.failure = failure;
  }
  AnswerComplete();
}

void SlotMoves::AnswerComplete() {
  for (auto next = evictions_.begin(); next != evictions_.end();) {
    if (!next->slots.empty() || !next->files.empty()) {
      ++next;
      continue;
    }
    if (next->failure) {
      next->answer.outcome = wire::EvictOutcome::kRefused;
      LogWarning("an eviction is not complete", {{"reason", *next->failure}});
    }
    answers_.push_back({next->link, next->answer});
    next = evictions_.erase(next);
  }
}

}  // namespace roost::worker::adapters
