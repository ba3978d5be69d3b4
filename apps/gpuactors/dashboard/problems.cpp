// What is wrong with a cluster, in words.
#include "view.hpp"

#include <gpuactors/base/event_kind.hpp>
#include <gpuactors/base/units.hpp>
#include <gpuactors/wire/certificates.hpp>

#include <apps/gpuactors/incomplete.hpp>
#include <apps/gpuactors/utc.hpp>
#include <apps/gpuactors/words.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace gpuactors::cli::dashboard {

namespace {

/// Kinds of events that an operator should know of, which nothing in the state tells.
constexpr std::array told{EventKind::node_lost, EventKind::stuck, EventKind::error, EventKind::stood_still};

void add_nodes(std::vector<Problem>& problems, const v1::ClusterState& state) {
  for (const auto& node : state.nodes()) {
    if (node.state() == "draining")
      problems.push_back({fmt::format("Node {} is drained: it gets nothing new.", node.node().name()), "nodes"});
    else if (node.state() != "ok")
      problems.push_back({fmt::format("Node {} is {}: it has lost its connection, and has time to return{}.",
                                      node.node().name(), node.state(), node.draining() ? ", to be drained still" : ""),
                          "nodes"});
  }
  for (const auto& device : state.devices())
    if (device.state() != "ok")
      problems.push_back(
          {fmt::format("Device {} of node {} has {}{}{}. It is out of use until its node is started again.",
                       device.device().index(), device.node(), device.state(), device.reason().empty() ? "" : ": ",
                       device.reason()),
           "devices"});
}

/// Where nobody has replaced a certificate yet. Those with a short life are renewed later than others.
constexpr std::chrono::hours certificate_soon{3 * 24};

void add_certificate(std::vector<Problem>& problems, std::string_view whose, const v1::CertificateLife& certificate,
                     WallTime now) {
  const CertificateLife life{from_unix_s(certificate.from_unix_s()), from_unix_s(certificate.until_unix_s())};
  if (now >= warns_of(life, certificate_soon))
    problems.push_back({fmt::format("The certificate of {} {} {} UTC: issue another one (gpuactors certs issue).",
                                    whose, life.until > now ? "ends at" : "has ended at", utc_for_people(life.until)),
                        "nodes"});
}

void add_certificates(std::vector<Problem>& problems, const v1::ClusterState& state, WallTime now) {
  if (state.has_certificate())
    add_certificate(problems, "the broker", state.certificate(), now);
  for (const auto& node : state.nodes())
    if (node.has_certificate())
      add_certificate(problems, "node " + node.node().name(), node.certificate(), now);
}

void add_standby(std::vector<Problem>& problems, const v1::ClusterState& state) {
  // One that stood by before this broker was started has to find it first.
  constexpr std::chrono::seconds patience{30};
  if (state.standby().state() == "away" && std::chrono::nanoseconds{state.standby().silent_ns()} > patience)
    problems.push_back({fmt::format("The broker at {} does not stand by any more: if this one dies, nobody takes over, "
                                    "or with an old copy.",
                                    state.standby().address()),
                        "status"});
}

void add_quotas(std::vector<Problem>& problems, const v1::ClusterState& state) {
  for (const auto& quota : state.quotas())
    if (quota.owner() != each_client && quota.has_gpu_units() && quota.used_units() >= quota.gpu_units())
      problems.push_back({fmt::format("The quota of {} is used up: it holds {} of {} devices.", quota.owner(),
                                      to_string(Share{quota.used_units()}), to_string(Share{quota.gpu_units()})),
                          "quotas"});
}

void add_clients(std::vector<Problem>& problems, const v1::ClusterState& state) {
  const auto away =
      std::count_if(state.clients().begin(), state.clients().end(), [](const auto& client) { return client.away(); });
  if (away > 0)
    problems.push_back({fmt::format("{} client{} lost the connection to the broker, and {} time to return.", away,
                                    away == 1 ? " has" : "s have", away == 1 ? "has" : "have"),
                        "status"});
}

/// Whether the actor has never run: the number of its process is known when its life begins. One that a broker knows
/// from its store has run before.
bool has_never_lived(const v1::ActorInfo& last) {
  return last.restarts() == 0 && last.pid() == 0 && last.state() != "returning";
}

/// Whether whoever asks is at fault, and has been told so.
bool is_mistake(Errc code) {
  return code == Errc::invalid_argument || code == Errc::not_found || code == Errc::already_exists
         || code == Errc::infeasible;
}

void add_actors(std::vector<Problem>& problems, const v1::ClusterState& state, WallTime since) {
  for (const auto& actor : state.actors())
    if (actor.state() == "restarting" || actor.state() == "returning")
      problems.push_back(
          {fmt::format("Actor {} is {}; restarts: {}.", name_or_number(actor), actor.state(), restarts_in_words(actor)),
           "actors"});
  for (const auto& ended : state.ended()) {
    const auto code = static_cast<Errc>(ended.error());
    // Those have ended because somebody wanted it: their program, an operator, themselves.
    if (code == Errc::actor_died || code == Errc::cancelled || code == Errc::none
        || from_unix_ns(ended.unix_ns()) < since)
      continue;
    const bool unborn = has_never_lived(ended.actor());
    if (unborn && is_mistake(code))
      continue;
    problems.push_back({fmt::format("Actor {} {} at {} UTC: {}: {}", name_or_number(ended.actor()),
                                    unborn ? "could not be started" : "has died",
                                    utc_for_people(from_unix_ns(ended.unix_ns())), to_string(code), ended.reason()),
                        "actors --ended"});
  }
}

void add_events(std::vector<Problem>& problems, const std::deque<v1::Event>& events, WallTime since) {
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    const auto tells = [&](EventKind kind) { return event->kind() == to_string(kind); };
    if (from_unix_ns(event->unix_ns()) >= since && std::any_of(told.begin(), told.end(), tells))
      problems.push_back({fmt::format("{}{}{} at {} UTC{}{}", event->kind(), event->name().empty() ? "" : " ",
                                      event->name(), utc_for_people(from_unix_ns(event->unix_ns())),
                                      event->reason().empty() ? "" : ": ", event->reason()),
                          "events"});
  }
}

void add_incomplete(std::vector<Problem>& problems, const v1::ClusterState& state) {
  // Without those of the past: the next states bring further events, and more of the ended are not asked for.
  std::string fields;
  for (const auto* field : {"nodes", "devices", "leases", "actors", "groups", "clients", "queue"})
    if (!is_whole(state, field))
      fields += fmt::format("{}{}", fields.empty() ? "" : ", ", field);
  if (!fields.empty())
    problems.push_back(
        {fmt::format("Not all is shown, since it is more than one answer has room for: {}.", fields), "metrics"});
}

} // namespace

std::vector<Problem> problems_of(const v1::ClusterState& state, const std::deque<v1::Event>& events, WallTime now) {
  std::vector<Problem> problems;
  add_incomplete(problems, state);
  add_nodes(problems, state);
  add_certificates(problems, state, now);
  add_standby(problems, state);
  add_quotas(problems, state);
  add_actors(problems, state, now - recent);
  add_events(problems, events, now - recent);
  add_clients(problems, state);
  return problems;
}

} // namespace gpuactors::cli::dashboard
