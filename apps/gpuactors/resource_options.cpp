#include "resource_options.hpp"

#include "input.hpp"

#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace gpuactors::cli {

void ResourceOptions::add_to(CLI::App& parser) {
  parser.add_option("--gpus", gpus_, "Devices: a share below 1 in steps of 0.0001, or a whole number")->type_name("F");
  parser
      .add_option("--memory", memory_,
                  "Device memory on each device, such as 6GiB. Units: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB; without "
                  "one, bytes")
      ->type_name("BYTES");
  parser.add_option("--cpus", cpus_, "CPUs of the node, in steps of 0.0001")->type_name("F");
  parser.add_option("--accelerator-type", accelerator_type_, "Kind of device, such as H200")->type_name("T");
  parser.add_option("--node", node_, "Node it must run on")->type_name("N");
  parser.add_option("--label", labels_, "Label that the node must have; may be repeated")
      ->type_name("K=V")
      ->allow_extra_args(false);
  parser.add_option("--resource", resources_, "Another countable resource of the node; may be repeated")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
  parser
      .add_option(
          "--host-memory", host_memory_,
          "Host memory of the node, such as 2GiB. With a process of its own it is held to that, else only counted")
      ->type_name("BYTES");
  parser.add_option("--priority", priority_, "Higher is served first. Default: 0")->type_name("P");
  parser
      .add_option("--queue-timeout", queue_timeout_,
                  "How long it may wait for its place, an actor for its first; a restart waits as long as it takes. "
                  "Default: no limit")
      ->type_name("SECONDS");
  parser
      .add_option("--isolation", isolation_,
                  "thread: in the worker process of its device; process: one of its own, which sees only its devices")
      ->type_name("thread|process");
  parser
      .add_option("--env", environment_,
                  "Variable in the environment of its process, which is one of its own then; may be repeated")
      ->type_name("K=V")
      ->allow_extra_args(false);
  parser.add_flag("--wait-for-nodes", wait_for_nodes_,
                  "Wait also if no node could ever serve the request, for example while the only one is being drained. "
                  "Default: it is refused");
}

Result<void> ResourceOptions::read_amounts(Options& options) const {
  if (gpus_) {
    GPUACTORS_LET(gpus, parse_number("--gpus", *gpus_));
    GPUACTORS_TRY(parse_gpus(gpus));
    options.gpus = gpus;
  }
  if (memory_) {
    GPUACTORS_LET(bytes, parse_bytes(*memory_));
    options.memory_bytes = bytes;
  }
  if (cpus_) {
    GPUACTORS_LET(cpus, parse_number("--cpus", *cpus_));
    GPUACTORS_TRY(Share::from_double(cpus, "cpus"));
    options.cpus = cpus;
  }
  GPUACTORS_LET(resources, parse_pairs("--resource", resources_));
  for (const auto& [name, text] : resources) {
    GPUACTORS_TRY(check_not_host_memory(name, "--host-memory"));
    GPUACTORS_LET(amount, parse_number("--resource " + name, text));
    GPUACTORS_TRY(Share::from_double(amount, "resource " + name));
    options.resources[name] = amount;
  }
  if (host_memory_) {
    GPUACTORS_LET(bytes, parse_bytes(*host_memory_));
    GPUACTORS_TRY(check_host_memory("--host-memory", bytes));
    options.host_memory_bytes = bytes;
  }
  return {};
}

Result<Options> ResourceOptions::read() const {
  Options options;
  GPUACTORS_TRY(read_amounts(options));
  options.accelerator_type = accelerator_type_;
  options.node = node_;
  GPUACTORS_LET(labels, parse_pairs("--label", labels_));
  options.labels.insert(labels.begin(), labels.end());
  if (priority_) {
    using Limits = std::numeric_limits<std::int32_t>;
    GPUACTORS_LET(priority, parse_integer("--priority", *priority_, Limits::min(), Limits::max()));
    options.priority = static_cast<int>(priority);
  }
  if (queue_timeout_) {
    GPUACTORS_LET(timeout, parse_seconds("--queue-timeout", *queue_timeout_));
    options.queue_timeout = timeout;
  }
  if (isolation_ != "thread" && isolation_ != "process")
    return fail(Errc::invalid_argument,
                fmt::format("--isolation is \"{}\": thread or process is expected", isolation_));
  options.isolation = isolation_ == "process" ? Isolation::process : Isolation::thread;
  GPUACTORS_LET(environment, parse_pairs("--env", environment_));
  options.environment = std::move(environment);
  options.wait_for_nodes = wait_for_nodes_;
  return options;
}

} // namespace gpuactors::cli
