#include "router/record/recorder.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "common/base/json_writer.h"
#include "common/base/log.h"
#include "common/base/thread_name.h"

namespace roost::router {
namespace {

std::string Hex(std::uint64_t hash) { return fmt::format("{:x}", hash); }

}  // namespace

std::string LineOf(const RequestRecord& record) {
  JsonWriter json;
  json.BeginObject().Key("arrival").Number(record.arrival_seconds).Key("model").String(record.model);
  json.Key("block_tokens").Number(record.block_tokens);
  json.Key("input").Number(record.input_token_count).Key("output").Number(record.output_token_count);
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
  std::ofstream file(options.path, std::ios::trunc);
  if (!file) return InvalidArgument("record", "{} can not be written", options.path.string());
  return std::unique_ptr<Recorder>(new Recorder(std::move(options), std::move(file)));
}

Recorder::Recorder(RecorderOptions options, std::ofstream file)
    : options_(std::move(options)), file_(std::move(file)), queue_(options_.queue_capacity) {
  writer_ = std::thread([this] { Run(); });
}

Recorder::~Recorder() {
  closing_ = true;
  queue_.Close();
  writer_.join();
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
    const std::optional<RequestRecord> record = queue_.PopFor(kLook);
    if (!record.has_value()) {
      file_.flush();
      if (closing_) return;
      continue;
    }
    file_ << LineOf(*record) << '\n';
    Count(file_.good() ? RecordOutcome::kWritten : RecordOutcome::kDropped);
  }
}

}  // namespace roost::router
