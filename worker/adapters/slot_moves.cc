#include "worker/adapters/slot_moves.h"

#include <fmt/format.h>

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
  running_.erase(slot);
  moved_.push_back(slot);
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

// {"id_slot", "filename", "n_saved", "n_written", "timings": {"save_ms"}}, or the same with n_restored, n_read and
// restore_ms.
Result<SlotMoves::Answer> SlotMoves::Read(const Running& running, const HttpEnd& end) {
  if (end.how != CallEnd::kComplete) return ErrorOf(end);
  if (running.status != 200) {
    const Complaint complaint = ReadRefusal(parser_, running.status, running.body);
    return Unavailable(fmt::format("{}: {}", running.status, complaint.message));
  }
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
  const Result<Answer> answer = Read(running, end);
  if (running.move.save) {
    OnSaved(slot, answer);
    running.move.save.reset();
  } else {
    OnRestored(slot, answer);
    running.move.restore.reset();
  }
  Continue(slot);
}

// Another client may have used the slot meanwhile: then it holds less than is known, or something else.
void SlotMoves::OnSaved(std::uint32_t slot, const Result<Answer>& answer) {
  Running& running = running_.at(slot);
  SavedSlot& saved = *running.move.save;
  const bool is_more = answer.ok() && !shelf().options().goes_on_at_points && answer->tokens > saved.tokens;
  if (answer.ok() && (answer->tokens == saved.tokens || is_more)) {
    shelf().NoteSaved(answer->tokens, answer->bytes, answer->time, clock_.Now());
    saved.tokens = answer->tokens;
    saved.bytes = answer->bytes;
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
    return table_.OnRestored(slot, saved, answer->tokens, clock_.Now());
  }
  ++restores_.failed;
  table_.OnCleared(slot);
  LogWarning("a slot was not restored: its file goes",
             {{"file", SlotFiles::FileName(saved.name)},
              {"reason", answer.ok() ? "it holds other tokens" : answer.error().message}});
  shelf().Remove(saved.name);
}

void SlotMoves::OnFile(SlotFiles::Done done) {
  if (done.job == SlotFiles::Job::kKeep) {
    if (!done.error) return shelf().Add(std::move(done.saved));
    shelf().files().Remove(done.saved.name);
    return PauseSaves(done.error->message);
  }
  for (auto& [slot, running] : running_) {
    const bool waits = !running.call && !running.move.save && running.move.restore->name == done.saved.name;
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
  }
  running_.clear();
}

}  // namespace roost::worker::adapters
