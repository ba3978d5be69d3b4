#include <gpuactors/cluster/daemon.hpp>
#include <gpuactors/cluster/detail/broker_part.hpp>
#include <gpuactors/cluster/detail/node_part.hpp>
#include <gpuactors/cluster/detail/notices.hpp>
#include <gpuactors/cluster/detail/own_address.hpp>
#include <gpuactors/cluster/detail/renew_signal.hpp>
#include <gpuactors/cluster/detail/service.hpp>
#include <gpuactors/cluster/detail/standby_part.hpp>
#include <gpuactors/cluster/detail/system_parts.hpp>
#include <gpuactors/cluster/detail/termination.hpp>

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors {

namespace {

/// @param make whether missing certificates are made.
Result<LinkOptions> links_of(const DaemonOptions& options, bool make) {
  GPUACTORS_LET(links, detail::link_options(options.certificates, options.insecure, make));
  if (const auto& files = links.certificates; files && files->role == CertificateRole::client)
    return fail(Errc::permission_denied,
                fmt::format("{} is a client's certificate, which may use a cluster and not serve it: brokers and nodes "
                            "need one of gpuactors certs issue NAME",
                            files->certificate.string()));
  links.notice = options.notice;
  links.heartbeat = options.heartbeat;
  links.timeout = options.link_timeout;
  return std::move(links);
}

DaemonOptions with_notices(DaemonOptions options, const detail::Notices& notices) {
  options.notice = notices.entry();
  return options;
}

/// The error of broker or node, whichever has failed.
Result<void> first_of(const detail::BrokerPart& broker, const detail::NodePart& node) {
  GPUACTORS_TRY(broker.failure());
  return node.failure();
}

/// A broker that runs in this process, and what else of the process uses its parts.
struct RunningBroker {
  detail::Termination& termination;
  const DaemonOptions& options;
  detail::DaemonCore& core;
  detail::BrokerPart& part;
  detail::Service& service;
};

/// Starts a broker, after it has stood by for another one if it has to, calls `run` with it, and ends it.
template <class Run>
Result<void> with_broker(const BrokerDaemon& broker, const DaemonOptions& daemon, bool may_stand_by, Run run) {
  detail::Termination termination;
  const detail::Notices notices{daemon.notice};
  const auto options = with_notices(daemon, notices);
  GPUACTORS_LET(listen, parse_endpoint(broker.listen));
  GPUACTORS_TRY(detail::check_advertised(broker.advertise));
  detail::warn_if_open(listen.host, options);
  GPUACTORS_LET(links, links_of(options, is_loopback(listen.host)));
  GPUACTORS_LET(core, detail::DaemonCore::make(links));
  GPUACTORS_LET(active, detail::broker_to_follow(*core, broker));
  detail::StandbyPart standby;
  detail::Service service{options.service};
  if (active) {
    if (!may_stand_by)
      return fail(Errc::unavailable, fmt::format("the broker at {} serves this cluster now: gpuactors node joins it "
                                                 "(--broker), gpuactors broker stands by for it (--standby-of)",
                                                 to_string(active->endpoint)));
    GPUACTORS_TRY(standby.start(*core, broker, options, *active));
    options.notice(fmt::format("stands by for the broker at {}", to_string(active->endpoint)));
    broker.stands_by(to_string(standby.endpoint()));
    service.begin(*core, standby.handle(), fmt::format("stands by for the broker at {}", to_string(active->endpoint)));
    GPUACTORS_LET(due, standby.wait(termination));
    service.change();
    if (!due) {
      service.end();
      return {};
    }
    options.notice(fmt::format("takes over from the broker at {}: {}", to_string(active->endpoint), standby.why()));
    GPUACTORS_TRY(standby.hand_over());
  }
  auto serving = broker;
  std::optional<detail::Replaced> replaced;
  if (active) {
    serving.listen = to_string(standby.endpoint());
    replaced = detail::Replaced{to_string(active->endpoint), standby.why()};
  }
  detail::BrokerPart part;
  GPUACTORS_TRY(part.start(*core, serving, std::move(replaced)));
  return run(RunningBroker{termination, options, *core, part, service});
}

/// The address by which others reach a node that was not told: the one from which this machine reaches the broker. A
/// node may be there before the broker's name is known, as where containers start together.
/// @returns an empty text after a signal.
Result<std::string> own_address(const std::vector<Endpoint>& broker, detail::Termination& termination,
                                const DaemonOptions& options) {
  constexpr std::chrono::seconds pause{1};
  for (bool told = false;; told = true) {
    auto own = detail::address_towards(broker);
    if (own || own.error().code() != Errc::unavailable)
      return own;
    if (!told)
      options.notice(fmt::format("{}; looking again until it can", own.error().message()));
    if (termination.wait_for(pause))
      return std::string{};
  }
}

} // namespace

Result<void> run_broker(const BrokerDaemon& broker, const DaemonOptions& daemon) {
  return with_broker(broker, daemon, true, [](const RunningBroker& running) {
    const auto where = to_string(running.part.endpoint());
    running.options.ready(where);
    running.service.begin(running.core, running.part.handle(), "serves at " + where);
    running.termination.wait();
    running.service.end();
    return running.part.failure();
  });
}

Result<void> run_node(const NodeDaemon& node, const DaemonOptions& daemon) {
  detail::Termination termination;
  // From the beginning: before, the signal would end the process.
  detail::RenewSignal renewals;
  const detail::Notices notices{daemon.notice};
  const auto options = with_notices(daemon, notices);
  GPUACTORS_LET(broker, parse_endpoints(node.broker));
  GPUACTORS_LET(links, links_of(options, false));
  GPUACTORS_LET(core, detail::DaemonCore::make(links));
  auto offered = node;
  if (offered.listening.host.empty()) {
    GPUACTORS_LET(own, own_address(broker, termination, options));
    if (own.empty())
      return {};
    offered.listening.host = std::move(own);
  }
  detail::NodePart part;
  GPUACTORS_TRY(part.start(*core, offered, broker, options));
  options.ready(node.broker);
  detail::Service service{options.service};
  service.begin(*core, part.handle(), "node of the broker at " + node.broker);
  part.serve(termination, renewals);
  service.end();
  // A failed agent can tell nobody anything.
  GPUACTORS_TRY(part.failure());
  part.empty(termination);
  part.say_goodbye();
  return part.failure();
}

Result<void> run_up(const BrokerDaemon& broker, const NodeDaemon& node, const DaemonOptions& daemon) {
  detail::RenewSignal renewals;
  return with_broker(broker, daemon, false, [&](const RunningBroker& running) -> Result<void> {
    const auto& [termination, options, core, part, service] = running;
    detail::NodePart local;
    GPUACTORS_TRY(local.start(core, node, {part.local_endpoint()}, options, part.handle()));
    // Reports ready only once the node is registered, so that whoever asks the broker then finds the node.
    if (!local.await_registration(termination))
      return first_of(part, local);
    options.ready(to_string(part.endpoint()));
    service.begin(core, part.handle(), "serves at " + to_string(part.endpoint()));
    local.serve(termination, renewals);
    service.end();
    // No goodbye: the broker goes too, and what waits for a place waits for the next one.
    GPUACTORS_TRY(first_of(part, local));
    local.empty(termination);
    return first_of(part, local);
  });
}

} // namespace gpuactors
