#include "worker/engine/request_table.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/check.h"

namespace roost::worker {

namespace {

wire::PromptMiss MissOf(MissReason reason) {
  switch (reason) {
    case MissReason::kCold: return wire::PromptMiss::kCold;
    case MissReason::kEvicted: return wire::PromptMiss::kEvicted;
    case MissReason::kInFlight: return wire::PromptMiss::kInFlight;
    case MissReason::kNotArrived: return wire::PromptMiss::kNotArrived;
    case MissReason::kDisabled: return wire::PromptMiss::kDisabled;
    case MissReason::kTail:
    case MissReason::kOtherSalt: break;
  }
  return wire::PromptMiss::kNone;
}

}  // namespace

void Announce(Request& request, const Sequence& sequence, wire::TokenEvent& event) {
  if (!request.first_scheduled || std::exchange(request.announced, true)) return;
  event.cached_token_count = sequence.cached_token_count;
  event.written_token_count = sequence.written_token_count;
  event.miss = MissOf(sequence.first_miss);
  event.queue_wait_seconds = ToSeconds(*request.first_scheduled - request.submitted);
}

Request* RequestTable::Find(RequestKey key) {
  const auto found = requests_.find(key);
  return found == requests_.end() ? nullptr : &found->second;
}

Choice& RequestTable::Add(Request request, SequenceId first_choice) {
  const auto [added, is_new] = requests_.emplace(request.key, std::move(request));
  ROOST_CHECK(is_new, "request {} is in the table", added->first.request.value());
  if (added->second.deadline) deadlines_.emplace(*added->second.deadline, added->first);
  return AddChoice(added->second, first_choice, 0);
}

Choice& RequestTable::AddChoice(Request& request, SequenceId sequence, std::uint32_t index) {
  request.sequences.push_back(sequence);
  return choices_.Put(sequence, std::make_unique<Choice>(Choice{.request = &request, .index = index}));
}

void RequestTable::Replace(SequenceId sequence, SequenceId by) {
  std::vector<SequenceId>& sequences = choices_.At(sequence).request->sequences;
  std::replace(sequences.begin(), sequences.end(), sequence, by);
  choices_.Put(by, choices_.Take(sequence));
}

void RequestTable::ForgetChoice(SequenceId sequence) {
  Request& request = *choices_.At(sequence).request;
  std::erase(request.sequences, sequence);
  choices_.Erase(sequence);
  if (request.sequences.empty()) Erase(requests_.find(request.key));
}

void RequestTable::Forget(RequestKey key) {
  const auto found = requests_.find(key);
  for (const SequenceId sequence : found->second.sequences) choices_.Erase(sequence);
  Erase(found);
}

void RequestTable::Erase(Requests::iterator request) {
  if (request->second.deadline) deadlines_.erase({*request->second.deadline, request->first});
  requests_.erase(request);
}

Request* RequestTable::FirstPastDeadline(Instant now) {
  if (deadlines_.empty() || deadlines_.begin()->first > now) return nullptr;
  return Find(deadlines_.begin()->second);
}

std::vector<RequestKey> RequestTable::KeysOf(LinkId link) const {
  std::vector<RequestKey> keys;
  for (auto next = requests_.lower_bound({link, RequestId(0)}); next != requests_.end() && next->first.link == link;
       ++next) {
    keys.push_back(next->first);
  }
  return keys;
}

}  // namespace roost::worker
