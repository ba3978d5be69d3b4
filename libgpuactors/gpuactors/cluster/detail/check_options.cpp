// Checks of options; each error text says what is right.
#include <gpuactors/base/endpoint.hpp>
#include <gpuactors/cluster/detail/check_options.hpp>
#include <gpuactors/wire/links.hpp>

#include <fmt/format.h>

#include <string_view>

namespace gpuactors::detail {

namespace {

Failure only_for(std::string_view field, std::string_view whom, std::string_view what) {
  return fail(Errc::invalid_argument, fmt::format("{} is for {}, and this is {}", field, whom, what));
}

Result<void> check_wait(const Options& options) {
  if (!options.queue_timeout || *options.queue_timeout >= Duration::zero())
    return {};
  return fail(Errc::invalid_argument,
              fmt::format("queue_timeout is {} s: a time from 0 on is expected", to_seconds(*options.queue_timeout)));
}

Result<void> check_times_or_always(std::string_view field, int times) {
  if (times >= -1)
    return {};
  return fail(Errc::invalid_argument,
              fmt::format("{} is {}: a number from 0 on is expected, or -1 for always", field, times));
}

} // namespace

Result<void> check_for_task(const Options& options) {
  const auto refuse = [](std::string_view field) { return only_for(field, "actors", "a task"); };
  if (options.max_restarts != 0)
    return fail(Errc::invalid_argument,
                "max_restarts is for actors, and this is a task: max_retries says how often it is run again");
  if (options.restart_window)
    return refuse("restart_window");
  if (options.spawn_timeout)
    return refuse("spawn_timeout");
  if (options.stuck_after)
    return refuse("stuck_after");
  if (options.max_task_retries != 0)
    return fail(Errc::invalid_argument, "max_task_retries is for the calls of actors, and this is a task: max_retries "
                                        "says how often it is run again");
  if (options.max_pending_calls != 0)
    return refuse("max_pending_calls");
  if (options.detached)
    return refuse("detached");
  if (options.get_if_exists)
    return refuse("get_if_exists");
  if (!options.name_space.empty())
    return refuse("name_space");
  if (options.max_calls < 0)
    return fail(Errc::invalid_argument,
                fmt::format("max_calls is {}: a number from 1 on is expected, or 0 for no limit", options.max_calls));
  GPUACTORS_TRY(check_wait(options));
  return check_times_or_always("max_retries", options.max_retries);
}

Result<void> check_for_actor(const Options& options) {
  const auto refuse = [](std::string_view field) { return only_for(field, "tasks", "an actor"); };
  if (options.deadline)
    return fail(Errc::invalid_argument, "deadline is for tasks, and this is an actor: spawn_timeout limits its start, "
                                        "queue_timeout its wait for a place, and each call has a deadline of its own");
  if (options.max_retries != 0)
    return fail(Errc::invalid_argument,
                "max_retries is for tasks, and this is an actor: max_restarts says how often it "
                "is started again, max_task_retries how often a call of it is made again");
  if (!options.retry_errors.empty())
    return refuse("retry_errors");
  if (options.max_calls != 0)
    return refuse("max_calls");
  GPUACTORS_TRY(check_times_or_always("max_restarts", options.max_restarts));
  GPUACTORS_TRY(check_times_or_always("max_task_retries", options.max_task_retries));
  if (options.max_task_retries != 0 && options.max_restarts == 0)
    return fail(Errc::invalid_argument, "max_task_retries makes calls again in the actor's next life, and without "
                                        "max_restarts there is none");
  if (options.name.empty() && (options.get_if_exists || !options.name_space.empty()))
    return fail(Errc::invalid_argument,
                fmt::format("{} needs a name", options.get_if_exists ? "get_if_exists" : "name_space"));
  return check_wait(options);
}

Result<void> check_for_bundle(const Options& options) {
  const auto refuse = [](std::string_view field) {
    return fail(Errc::invalid_argument, fmt::format("{} is not of a bundle: set it in the GroupOptions", field));
  };
  if (options.priority != 0)
    return refuse("priority");
  if (options.queue_timeout)
    return refuse("queue_timeout");
  if (options.wait_for_nodes)
    return refuse("wait_for_nodes");
  if (options.detached)
    return refuse("detached");
  if (options.spread)
    return fail(Errc::invalid_argument,
                "spread is not of a bundle: GroupOptions::strategy says how bundles are placed");
  if (options.node_is_soft)
    return fail(Errc::invalid_argument, "node_is_soft is not of a bundle: its node is the one that is named");
  if (options.group)
    return fail(Errc::invalid_argument, "group is not of a bundle: a bundle is in no other group");
  return {};
}

Result<void> check_nodes(const EmbedOptions& options) {
  const EmbedOptions none;
  const auto refuse = [](std::string_view field) {
    return fail(Errc::invalid_argument,
                fmt::format("{} is of the one node that there is without `nodes`: set it in each of `nodes`", field));
  };
  if (options.nodes.empty())
    return {};
  if (!options.devices.empty())
    return refuse("devices");
  if (options.accelerator_root != none.accelerator_root)
    return refuse("accelerator_root");
  if (options.runtime_source != none.runtime_source)
    return refuse("runtime_source");
  return {};
}

Result<void> check_connection(const ConnectOptions& options) {
  GPUACTORS_TRY(parse_endpoints(options.broker));
  GPUACTORS_TRY(check_times(options.heartbeat, options.link_timeout));
  if (options.reconnect_grace > limits::reconnect_grace_most)
    return fail(Errc::invalid_argument,
                fmt::format("the reconnect grace is {} s: at most {} s are expected",
                            to_seconds(options.reconnect_grace), to_seconds(limits::reconnect_grace_most)));
  return {};
}

} // namespace gpuactors::detail
