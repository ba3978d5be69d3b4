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

Result<void> Cluster::logs(const ActorName& actor, const LogsOptions& options, const LogSink& line) {
  if (actor.name.empty() && options.node.empty())
    return fail(Errc::invalid_argument, "neither an actor nor a node is named, whose lines are wanted");
  GPUACTORS_TRY(check(core_.get(), options));
  return detail::LogClient{*core_, {std::string{actor.name}, std::string{actor.name_space}, ActorId{}}, options, line}
      .run();
}

Result<void> Cluster::logs(const v1::ActorHandle& actor, const LogsOptions& options, const LogSink& line) {
  if (actor.id() == 0)
    return fail(Errc::invalid_argument, "the handle of the actor whose lines are wanted is empty");
  GPUACTORS_TRY(check(core_.get(), options));
  return detail::LogClient{*core_, {actor.name(), {}, ActorId{actor.id()}}, options, line}.run();
}

} // namespace gpuactors
