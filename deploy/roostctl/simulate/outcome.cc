#include "deploy/roostctl/simulate/outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/base/json_writer.h"

namespace roost::simulate {
namespace {

// Nearest rank; `sorted` must not be empty.
double Quantile(std::span<const double> sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

double Imbalance(std::span<const std::uint64_t> computed, std::uint64_t sum) {
  if (sum == 0) return 1;
  const auto most = static_cast<double>(*std::max_element(computed.begin(), computed.end()));
  return most * static_cast<double>(computed.size()) / static_cast<double>(sum);
}

}  // namespace

void Outcome::Fill(std::vector<RequestRecord> records, std::vector<std::uint64_t> computed_tokens) {
  requests = std::move(records);
  computed_tokens_by_worker = std::move(computed_tokens);
  for (const RequestRecord& record : requests) {
    refused_count += record.refused ? 1 : 0;
    if (!record.first_token) continue;
    prompt_token_count += record.prompt_token_count;
    cached_token_count += record.cached_token_count;
    ttft_seconds.push_back(ToSeconds(*record.first_token - record.arrival));
  }
  const std::vector<std::uint64_t>& computed = computed_tokens_by_worker;
  computed_token_count = std::accumulate(computed.begin(), computed.end(), std::uint64_t{0});
  imbalance = Imbalance(computed, computed_token_count);
  if (ttft_seconds.empty()) return;
  std::sort(ttft_seconds.begin(), ttft_seconds.end());
  hit_ratio = static_cast<double>(cached_token_count) / static_cast<double>(prompt_token_count);
  ttft_mean_seconds =
      std::accumulate(ttft_seconds.begin(), ttft_seconds.end(), 0.0) / static_cast<double>(ttft_seconds.size());
  ttft_p50_seconds = Quantile(ttft_seconds, 0.5);
  ttft_p99_seconds = Quantile(ttft_seconds, 0.99);
  ttft_max_seconds = ttft_seconds.back();
}

std::string ToJson(const Outcome& outcome) {
  JsonWriter json;
  json.BeginObject().Key("policy").String(outcome.policy).Key("workers").Number(outcome.worker_count);
  json.Key("cache_tokens");
  if (outcome.cache_tokens == 0) {
    json.Null();
  } else {
    json.Number(outcome.cache_tokens);
  }
  json.Key("hit_ratio").Number(outcome.hit_ratio);
  json.Key("ttft_mean_s").Number(outcome.ttft_mean_seconds);
  json.Key("ttft_p50_s").Number(outcome.ttft_p50_seconds);
  json.Key("ttft_p99_s").Number(outcome.ttft_p99_seconds);
  json.Key("ttft_max_s").Number(outcome.ttft_max_seconds);
  json.Key("imbalance").Number(outcome.imbalance);
  json.Key("refused").Number(outcome.refused_count).EndObject();
  return json.Take();
}

std::string TableHead() {
  return fmt::format("{:<16}{:>8}{:>13}{:>8}{:>11}{:>10}{:>10}{:>10}{:>11}{:>9}\n", "policy", "workers", "cache tokens",
                     "hits %", "TTFT mean", "p50 s", "p99 s", "max s", "imbalance", "refused");
}

std::string TableRow(const Outcome& outcome) {
  const std::string cache = outcome.cache_tokens == 0 ? "unbounded" : fmt::to_string(outcome.cache_tokens);
  return fmt::format("{:<16}{:>8}{:>13}{:>8.1f}{:>11.3f}{:>10.3f}{:>10.3f}{:>10.3f}{:>11.3f}{:>9}\n", outcome.policy,
                     outcome.worker_count, cache, outcome.hit_ratio * 100, outcome.ttft_mean_seconds,
                     outcome.ttft_p50_seconds, outcome.ttft_p99_seconds, outcome.ttft_max_seconds, outcome.imbalance,
                     outcome.refused_count);
}

}  // namespace roost::simulate
