#include "router/record/recorder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "common/base/json_writer.h"
#include "common/base/log.h"
#include "common/base/thread_name.h"

namespace roost::router {
namespace {

constexpr std::size_t kWrittenTogether = std::size_t{64} << 10U;  // bytes

std::string Hex(std::uint64_t hash) { return fmt::format("{:x}", hash); }

}  // namespace

std::string LineOf(const RequestRecord& record) {
  JsonWriter json;
  json.BeginObject().Key("arrival").Number(record.arrival_seconds).Key("model").String(record.model);
  json.Key("block_tokens").Number(record.block_tokens);
  json.Key("input").Number(record.input_token_count).Key("output").Number(record.output_token_count);
  if (!record.key.empty()) json.Key("key").String(record.key);
  json.Key("tenant").String(Hex(record.tenant_hash)).Key("session").String(Hex(record.session_hash));
  json.Key("blocks").BeginArray();
  for (const std::uint64_t block : record.prompt_blocks) json.String(Hex(block));
  for (const BlockHash hash : HashBlocks(record.last_hash, record.open_tokens, record.block_tokens)) {
    json.String(Hex(hash.low));
  }
  json.EndArray().EndObject();
  return json.Take();
}

Result<std::unique_ptr<Recorder>> Recorder::Open(RecorderOptions options) {
  const int file = open(options.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) {
    return InvalidArgument("record", "{} can not be written: {}", options.path.string(), std::strerror(errno));
  }
  struct stat found {};
  if (fstat(file, &found) == 0 && S_ISREG(found.st_mode)) (void)fchmod(file, S_IRUSR | S_IWUSR);  // it may be older
  return std::unique_ptr<Recorder>(new Recorder(std::move(options), file));
}

Recorder::Recorder(RecorderOptions options, int file)
    : options_(std::move(options)), file_(file), queue_(options_.queue_capacity) {
  writer_ = std::thread([this] { Run(); });
}

Recorder::~Recorder() {
  closing_ = true;
  queue_.Close();
  writer_.join();
  close(file_);
  LogInfo("recording ends",
          {{"file", options_.path.string()}, {"requests", written_.load()}, {"dropped", dropped_.load()}});
}

void Recorder::TryRecord(RequestRecord record) {
  if (!queue_.TryPush(std::move(record))) Count(RecordOutcome::kDropped);
}

void Recorder::Count(RecordOutcome outcome) {
  const bool dropped = outcome == RecordOutcome::kDropped;
  if (++(dropped ? dropped_ : written_) == 1 && dropped) {
    LogWarning("requests are missing in the recording", {{"file", options_.path.string()}});
  }
  if (options_.on_outcome) options_.on_outcome(outcome);
}

void Recorder::Run() {
  NameThisThread("record");
  constexpr std::chrono::seconds kLook{1};
  while (true) {
    const std::optional<RequestRecord> record = line_count_ > 0 ? queue_.TryPop() : queue_.PopFor(kLook);
    if (record.has_value()) {
      lines_ += LineOf(*record) + '\n';
      ++line_count_;
      if (lines_.size() < kWrittenTogether) continue;
    } else if (line_count_ == 0 && closing_) {
      return;
    }
    Flush();
  }
}

void Recorder::Flush() {
  if (line_count_ == 0) return;
  const int error = Write();
  if (error == 0) {
    size_ += lines_.size();
  } else if (ftruncate(file_, static_cast<off_t>(size_)) == 0) {
    (void)lseek(file_, static_cast<off_t>(size_), SEEK_SET);
  }
  if (std::exchange(fails_, error != 0) != fails_) {
    LogWarning(fails_ ? "the recording can not be written now" : "the recording goes on",
               {{"file", options_.path.string()}, {"reason", fails_ ? std::strerror(error) : "there is room"}});
  }
  const auto outcome = fails_ ? RecordOutcome::kDropped : RecordOutcome::kWritten;
  lines_.clear();
  for (std::uint64_t count = std::exchange(line_count_, 0); count > 0; --count) Count(outcome);
}

int Recorder::Write() {
  std::string_view rest = lines_;
  while (!rest.empty()) {
    const ssize_t written = write(file_, rest.data(), rest.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace roost::router
