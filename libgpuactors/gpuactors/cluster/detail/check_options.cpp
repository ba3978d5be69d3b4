// The checks of options, each with a text that says what would be right.
#include <gpuactors/cluster/detail/check_options.hpp>
#include <gpuactors/device/accelerators.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace gpuactors::detail {

namespace {

Failure only_for(std::string_view field, std::string_view whom, std::string_view what) {
  return fail(Errc::invalid_argument, fmt::format("{} is for {}, and this is {}", field, whom, what));
}

/// How the library, the loader, the driver and MPS work, and where a GPU's user is shown its devices in containers.
constexpr std::array<std::string_view, 5> reserved = {"GPUACTORS_", "LD_", "CUDA_MPS_", "CUDA_DEVICE_ORDER", "NVIDIA_"};

bool is_reserved(std::string_view name) {
  const auto& kinds = accelerator_kinds();
  return std::any_of(reserved.begin(), reserved.end(), [&](auto prefix) { return name.starts_with(prefix); })
         || std::any_of(kinds.begin(), kinds.end(), [&](const auto& kind) { return name == kind.variable; });
}

bool is_name(std::string_view name) {
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  return !name.empty() && letter(name.front()) && std::all_of(name.begin(), name.end(), [&](char c) {
    return letter(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
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
  if (options.max_task_retries != 0)
    return fail(Errc::invalid_argument, "max_task_retries is for the calls of actors, and this is a task: max_retries "
                                        "says how often it is run again");
  if (options.max_pending_calls != 0)
    return refuse("max_pending_calls");
  if (options.detached)
    return refuse("detached");
  if (options.get_if_exists)
    return refuse("get_if_exists");
  return {};
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
  if (options.max_restarts < -1)
    return fail(
        Errc::invalid_argument,
        fmt::format("max_restarts is {}: a number from 0 on is expected, or -1 for always", options.max_restarts));
  if (options.max_task_retries < 0)
    return fail(Errc::invalid_argument,
                fmt::format("max_task_retries is {}: a number from 0 on is expected", options.max_task_retries));
  return {};
}

Result<void> check_environment(const std::map<std::string, std::string>& environment) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : environment) {
    if (!is_name(name))
      return fail(
          Errc::invalid_argument,
          fmt::format("environment: \"{}\" is no name of a variable: letters, digits and _ are expected, and no "
                      "digit in front",
                      name));
    if (is_reserved(name))
      return fail(
          Errc::invalid_argument,
          fmt::format("environment: {} is set by the node, or by whoever starts it, and not by requests", name));
    if (value.find('\0') != std::string::npos)
      return fail(Errc::invalid_argument, fmt::format("environment: the value of {} has a zero byte in it", name));
    bytes += name.size() + value.size();
  }
  if (bytes > limits::environment_bytes)
    return fail(Errc::invalid_argument, fmt::format("environment: names and values have {} bytes together, at most {} "
                                                    "are allowed",
                                                    bytes, limits::environment_bytes));
  return {};
}

} // namespace gpuactors::detail
