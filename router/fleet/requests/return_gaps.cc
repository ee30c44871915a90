#include "router/fleet/requests/return_gaps.h"

#include <functional>
#include <utility>

namespace roost::router {
namespace {

constexpr double kMemory = 4096;  // answers of a tenant; then the older ones count half

}  // namespace

ReturnGaps::Session& ReturnGaps::PlaceOf(std::uint64_t session_hash) {
  if (sessions_.empty()) sessions_.resize(kSessions);
  Session& place = sessions_[session_hash % kSessions];
  if (place.hash != session_hash) place = {.hash = session_hash, .ended = std::nullopt};
  return place;
}

ReturnGaps::Tenant& ReturnGaps::PlaceOf(std::string_view tenant) {
  if (tenants_.empty()) tenants_.resize(kTenants);
  const std::uint64_t hash = std::hash<std::string_view>()(tenant);
  Tenant& place = tenants_[hash % kTenants];
  if (place.hash != hash) place = {.hash = hash};
  return place;
}

std::optional<Duration> ReturnGaps::OnRequest(const Name& name, Instant now) {
  if (name.session_hash == 0) return std::nullopt;
  Session& session = PlaceOf(name.session_hash);
  Tenant& tenant = PlaceOf(name.tenant);
  if (const std::optional<Instant> ended = std::exchange(session.ended, std::nullopt)) {
    ++tenant.returns;
    ++session.gap_count;
    session.mean_seconds += (ToSeconds(now - *ended) - session.mean_seconds) / session.gap_count;
  }
  const Duration mean = FromSeconds(session.mean_seconds);
  if (session.gap_count == 0 || mean > kLongestGap) return std::nullopt;
  if (tenant.answers < kLeastAnswers || tenant.returns < kLeastReturns * tenant.answers) return std::nullopt;
  return mean;
}

void ReturnGaps::OnEnd(const Name& name, Instant now) {
  if (name.session_hash == 0) return;
  PlaceOf(name.session_hash).ended = now;
  Tenant& tenant = PlaceOf(name.tenant);
  if (++tenant.answers < kMemory) return;
  tenant.answers /= 2;
  tenant.returns /= 2;
}

}  // namespace roost::router
