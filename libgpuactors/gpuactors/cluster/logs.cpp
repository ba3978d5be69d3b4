#include <gpuactors/cluster/cluster.hpp>
#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/cluster/detail/log_client.hpp>

#include <fmt/format.h>

namespace gpuactors {

Result<void> Cluster::logs(const ActorName& actor, const LogsOptions& options, const LogSink& line) {
  if (core_ == nullptr)
    return fail(Errc::unavailable, "the cluster was closed");
  if (actor.name.empty() && options.node.empty())
    return fail(Errc::invalid_argument, "neither an actor nor a node is named, whose lines are wanted");
  if (options.count > limits::log_tail_lines)
    return fail(Errc::invalid_argument, fmt::format("{} lines of a log are too many at once: {} at most", options.count,
                                                    limits::log_tail_lines));
  if (!core_->connected())
    return fail(Errc::unsupported,
                "an embedded cluster has no log: its tasks and actors write to the output of the program");
  return detail::LogClient{*core_, actor, options, line}.run();
}

} // namespace gpuactors
