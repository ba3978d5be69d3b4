#include <gpuactors/cluster/cluster.hpp>
#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/cluster/detail/log_client.hpp>
#include <gpuactors/wire/closed.hpp>

#include <fmt/format.h>

namespace gpuactors {

namespace {

Result<void> check(const detail::ClusterCore* core, const LogsOptions& options) {
  if (core == nullptr)
    return fail(cluster_closed());
  if (options.count > limits::log_tail_lines)
    return fail(Errc::invalid_argument, fmt::format("{} lines of a log are too many at once: {} at most", options.count,
                                                    limits::log_tail_lines));
  if (!core->connected())
    return fail(Errc::unsupported,
                "an embedded cluster has no log: its tasks and actors write to the output of the program");
  return {};
}

} // namespace

Result<void> Cluster::logs(const ActorKey& actor, const LogsOptions& options, const LogSink& line) {
  const bool whole_node = actor.is_name() && actor.name().empty();
  if (whole_node && options.node.empty())
    return fail(Errc::invalid_argument, "neither an actor nor a node is named, whose lines are wanted");
  if (!whole_node)
    GPUACTORS_TRY(actor.check());
  GPUACTORS_TRY(check(core_.get(), options));
  const auto& reference = actor.reference();
  const detail::LogClient::Wanted wanted{std::string{actor.is_name() ? actor.name() : reference.name()},
                                         std::string{actor.name_space()}, ActorId{reference.id()}};
  return detail::LogClient{*core_, wanted, options, line}.run();
}

} // namespace gpuactors
