#include "router/record/recorder.h"

#include <algorithm>
#include <utility>

namespace roost::router {

// FNV-1a.
std::uint64_t RecordedHashOf(std::string_view name) {
  if (name.empty()) return 0;
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char character : name) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001b3ULL;
  }
  return hash == 0 ? 1 : hash;
}

namespace {

RequestRecord RecordOf(const GenerateSpec& spec, double arrival_seconds) {
  RequestRecord record;
  record.arrival_seconds = arrival_seconds;
  record.model = spec.model->name;
  record.block_tokens = spec.model->block_tokens;
  record.input_token_count = static_cast<std::uint32_t>(spec.generate.prompt.size());
  record.prompt_blocks.reserve(spec.generate.block_hashes.size());
  for (const BlockHash hash : spec.generate.block_hashes) record.prompt_blocks.push_back(hash.low);
  record.last_hash = spec.generate.block_hashes.empty() ? spec.generate.root : spec.generate.block_hashes.back();
  const auto begin = static_cast<std::ptrdiff_t>(spec.generate.block_hashes.size() * record.block_tokens);
  record.open_tokens.assign(spec.generate.prompt.begin() + begin, spec.generate.prompt.end());
  record.key = spec.key;
  record.tenant_hash = RecordedHashOf(spec.generate.tenant);
  record.session_hash = spec.generate.session_hash;
  return record;
}

// Forwards all events, and keeps the first choice's tokens.
class RecordingObserver final : public GenerationObserver {
 public:
  RecordingObserver(std::shared_ptr<GenerationObserver> inner, RequestRecord record, Recorder& recorder)
      : inner_(std::move(inner)), record_(std::move(record)), recorder_(recorder) {}

  void OnDispatched(const Dispatched& dispatched) override { inner_->OnDispatched(dispatched); }
  void OnPromptLogprobs(std::vector<wire::TokenLogprobs> logprobs) override {
    inner_->OnPromptLogprobs(std::move(logprobs));
  }
  void OnTokens(ChoiceTokens tokens) override {
    if (tokens.choice == 0) {
      record_.open_tokens.insert(record_.open_tokens.end(), tokens.tokens.begin(), tokens.tokens.end());
      record_.output_token_count += static_cast<std::uint32_t>(tokens.tokens.size());
    }
    inner_->OnTokens(std::move(tokens));
  }
  void OnChoiceEnd(ChoiceEnd end) override { inner_->OnChoiceEnd(end); }
  void OnEnd(GenerationEnd end) override {
    recorder_.TryRecord(std::move(record_));
    inner_->OnEnd(std::move(end));
  }

 private:
  const std::shared_ptr<GenerationObserver> inner_;
  RequestRecord record_;
  Recorder& recorder_;
};

}  // namespace

SubmitHook RecordTo(Recorder& recorder, const Clock& clock) {
  return
      [&recorder, &clock, start = clock.Now()](const GenerateSpec& spec, std::shared_ptr<GenerationObserver> observer) {
        RequestRecord record = RecordOf(spec, ToSeconds(clock.Now() - start));
        return std::make_shared<RecordingObserver>(std::move(observer), std::move(record), recorder);
      };
}

}  // namespace roost::router
