#include "deploy/roostctl/simulate/outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
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

double SumOf(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

Figures FiguresOf(std::vector<double>& seconds) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  return {.mean = SumOf(seconds) / static_cast<double>(seconds.size()),
          .p50 = Quantile(seconds, 0.5),
          .p99 = Quantile(seconds, 0.99),
          .max = seconds.back()};
}

double TtftOf(const RequestRecord& record) { return ToSeconds(*record.first_token - record.arrival); }

// Empty for an answer of one token.
std::optional<double> ItlOf(const RequestRecord& record) {
  if (record.output_token_count < 2) return std::nullopt;
  return ToSeconds(*record.end - *record.first_token) / (record.output_token_count - 1);
}

}  // namespace

bool IsGood(const RequestRecord& record, const ServiceLimits& limits) {
  return record.first_token && record.end && TtftOf(record) <= limits.ttft_seconds &&
         ItlOf(record).value_or(0) <= limits.itl_seconds;
}

void Outcome::Fill(std::vector<RequestRecord> records, std::vector<std::uint64_t> computed_tokens,
                   const ServiceLimits& limits) {
  requests = std::move(records);
  computed_tokens_by_worker = std::move(computed_tokens);
  std::vector<double> itl_seconds;
  std::vector<double> whole_seconds;
  std::uint64_t good_count = 0;
  double saved_seconds = 0;
  double prefill_seconds = 0;
  Instant first_arrival = Instant::max();
  Instant last_arrival{};
  Instant last_end{};
  for (const RequestRecord& record : requests) {
    refused_count += record.refused ? 1 : 0;
    good_count += IsGood(record, limits) ? 1 : 0;
    first_arrival = std::min(first_arrival, record.arrival);
    last_arrival = std::max(last_arrival, record.arrival);
    if (!record.first_token) continue;
    prompt_token_count += record.prompt_token_count;
    cached_token_count += record.cached_token_count;
    savings += router::SavingsOf(record.worth, record.cached_token_count);
    saved_seconds += record.saved_seconds;
    prefill_seconds += record.saved_seconds + record.computed_seconds;
    ttft_seconds.push_back(TtftOf(record));
    whole_seconds.push_back(ToSeconds(*record.end - record.arrival));
    last_end = std::max(last_end, *record.end);
    if (const std::optional<double> own = ItlOf(record)) itl_seconds.push_back(*own);
  }
  const std::vector<std::uint64_t>& computed = computed_tokens_by_worker;
  computed_token_count = std::accumulate(computed.begin(), computed.end(), std::uint64_t{0});
  imbalance = Imbalance(computed, computed_token_count);
  if (ttft_seconds.empty()) return;
  hit_ratio = static_cast<double>(cached_token_count) / static_cast<double>(prompt_token_count);
  if (prefill_seconds > 0) time_hit_ratio = saved_seconds / prefill_seconds;
  ttft = FiguresOf(ttft_seconds);
  itl = FiguresOf(itl_seconds);
  whole = FiguresOf(whole_seconds);
  const auto count = static_cast<double>(requests.size());
  good_share = static_cast<double>(good_count) / count;
  good_per_second = static_cast<double>(good_count) / ToSeconds(last_end - first_arrival);
  if (last_arrival > first_arrival) requests_per_second = count / ToSeconds(last_arrival - first_arrival);
}

void Outcome::FillRestart(const RestartTimes& times, std::size_t workers) {
  if (!times.returned) return;
  const Instant settled = *times.returned + kRestartSettling;
  std::uint64_t later = 0;
  std::uint64_t taken = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  for (const RequestRecord& record : requests) {
    if (!record.first_token) continue;
    if (record.arrival >= settled) {
      ++later;
      taken += record.worker == times.worker ? 1 : 0;
    } else if (record.arrival >= times.left) {
      prompt_tokens += record.prompt_token_count;
      cached_tokens += record.cached_token_count;
    }
  }
  if (later == 0 || prompt_tokens == 0) return;
  restart = {.share = static_cast<double>(taken * workers) / static_cast<double>(later),
             .hit_ratio = static_cast<double>(cached_tokens) / static_cast<double>(prompt_tokens)};
}

double Outcome::pulled_share() const {
  if (!pulls || prompt_token_count == 0) return 0;
  return static_cast<double>(pulls->token_count) / static_cast<double>(prompt_token_count);
}

double Outcome::round_robin_hit_ratio() const {
  if (prompt_token_count == 0) return 0;
  return static_cast<double>(savings.rotation_tokens) / static_cast<double>(prompt_token_count);
}

double Outcome::restored_share() const {
  if (!restores || prompt_token_count == 0) return 0;
  return static_cast<double>(restores->token_count) / static_cast<double>(prompt_token_count);
}

std::string ToJson(const Outcome& outcome) {
  JsonWriter json;
  const auto optional = [&json](std::string_view key, bool is_there, auto value) {
    json.Key(key);
    if (is_there) {
      json.Number(value);
    } else {
      json.Null();
    }
  };
  json.BeginObject().Key("policy").String(outcome.policy).Key("workers").Number(outcome.worker_count);
  optional("cache_tokens", outcome.cache_tokens > 0, outcome.cache_tokens);
  json.Key("hit_ratio").Number(outcome.hit_ratio).Key("time_hit_ratio").Number(outcome.time_hit_ratio);
  json.Key("ttft_mean_s").Number(outcome.ttft.mean);
  json.Key("ttft_p50_s").Number(outcome.ttft.p50);
  json.Key("ttft_p99_s").Number(outcome.ttft.p99);
  json.Key("ttft_max_s").Number(outcome.ttft.max);
  json.Key("itl_mean_s").Number(outcome.itl.mean).Key("itl_p99_s").Number(outcome.itl.p99);
  json.Key("whole_mean_s").Number(outcome.whole.mean).Key("whole_p99_s").Number(outcome.whole.p99);
  json.Key("goodput_rps").Number(outcome.good_per_second).Key("good_share").Number(outcome.good_share);
  json.Key("requests_per_s").Number(outcome.requests_per_second);
  optional("capacity_rps", outcome.capacity.has_value(), outcome.capacity.value_or(0));
  json.Key("imbalance").Number(outcome.imbalance);
  json.Key("refused").Number(outcome.refused_count);
  json.Key("saved_prefill_s").Number(outcome.savings.seconds);
  json.Key("round_robin_saved_s").Number(outcome.savings.rotation_seconds);
  json.Key("round_robin_hit_ratio").Number(outcome.round_robin_hit_ratio());
  if (outcome.restart) {
    json.Key("restarted_share").Number(outcome.restart->share);
    json.Key("restart_hit_ratio").Number(outcome.restart->hit_ratio);
  }
  if (outcome.pulls) {
    json.Key("pulls").Number(outcome.pulls->pull_count).Key("pulled_tokens").Number(outcome.pulls->token_count);
    json.Key("pulled_share").Number(outcome.pulled_share());
  }
  if (outcome.restores) {
    json.Key("restores").Number(outcome.restores->restore_count);
    json.Key("restored_tokens").Number(outcome.restores->token_count);
    json.Key("restored_share").Number(outcome.restored_share());
    json.Key("written_tokens").Number(outcome.restores->written_token_count);
  }
  json.EndObject();
  return json.Take();
}

std::string TableHead() {
  return fmt::format(
      "{:<16}{:>8}{:>13}{:>8}{:>10}{:>13}{:>9}{:>9}{:>9}{:>9}{:>9}{:>11}{:>9}{:>10}{:>8}{:>10}{:>9}{:>11}{:>13}\n",
      "policy", "workers", "cache tokens", "hits %", "in time %", "TTFT mean s", "p50 s", "p99 s", "max s", "ITL ms",
      "p99 ms", "answer s", "p99 s", "good /s", "good %", "imbalance", "refused", "saved s", "beyond RR s");
}

std::string TableRow(const Outcome& outcome) {
  const std::string cache = outcome.cache_tokens == 0 ? "unbounded" : fmt::to_string(outcome.cache_tokens);
  const std::string capacity =
      outcome.capacity ? fmt::format("  capacity {:.3g} requests/s", *outcome.capacity) : std::string();
  const std::string restart = outcome.restart
                                  ? fmt::format("  restarted worker's share {:.2f}, hits meanwhile {:.1f} %",
                                                outcome.restart->share, 100 * outcome.restart->hit_ratio)
                                  : std::string();
  const std::string pulls =
      outcome.pulls ? fmt::format("  {} pulls of {} tokens, {:.1f} % of the prompts'", outcome.pulls->pull_count,
                                  outcome.pulls->token_count, 100 * outcome.pulled_share())
                    : std::string();
  const std::string restores =
      outcome.restores ? fmt::format("  {} restores of {} tokens, {:.1f} % of the prompts'; {} tokens written",
                                     outcome.restores->restore_count, outcome.restores->token_count,
                                     100 * outcome.restored_share(), outcome.restores->written_token_count)
                       : std::string();
  return fmt::format(
      "{:<16}{:>8}{:>13}{:>8.1f}{:>10.1f}{:>13.3f}{:>9.3f}{:>9.3f}{:>9.3f}{:>9.2f}{:>9.2f}{:>11.2f}{:>9.2f}{:>10.2f}{:>"
      "8.1f}"
      "{:>10.3f}{:>9}{:>11.1f}{:>13.1f}{}{}{}{}\n",
      outcome.policy, outcome.worker_count, cache, outcome.hit_ratio * 100, outcome.time_hit_ratio * 100,
      outcome.ttft.mean, outcome.ttft.p50, outcome.ttft.p99, outcome.ttft.max, 1e3 * outcome.itl.mean,
      1e3 * outcome.itl.p99, outcome.whole.mean, outcome.whole.p99, outcome.good_per_second, 100 * outcome.good_share,
      outcome.imbalance, outcome.refused_count, outcome.savings.seconds,
      outcome.savings.seconds - outcome.savings.rotation_seconds, capacity, restart, pulls, restores);
}

}  // namespace roost::simulate
