#include "daemon_options.hpp"

#include "input.hpp"

#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/base/units.hpp>
#include <gpuactors/device/discovery.hpp>

#include <apps/cli/cluster_options.hpp>
#include <apps/cli/file_kind.hpp>

#include <fmt/format.h>

#include <iostream>
#include <limits>
#include <utility>

namespace gpuactors::cli {

namespace {

/// What the node offers.
void add_offers(CLI::App& parser, DaemonArguments& arguments) {
  auto& node = arguments.node;
  parser.add_option("--name", node.name, "Name of the node. Default: the host's")->type_name("N");
  parser
      .add_option("--devices", arguments.devices,
                  "Devices of the node: cuda, cuda:GPU-uuid,..., cuda*N or host:COUNT[xMEMORY][@TYPE], such as "
                  "host:4x1GiB@V100; may be repeated. Left out: CUDA if there is any, else host:1")
      ->type_name("SPEC")
      ->allow_extra_args(false);
  parser.add_option("--cpus", arguments.cpus, "CPUs it offers. Default: the processors that it may use")
      ->type_name("F");
  parser.add_option("--label", arguments.labels, "Label of the node; may be repeated")
      ->type_name("K=V")
      ->allow_extra_args(false);
  parser.add_option("--resource", arguments.resources, "Another countable resource; may be repeated")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
  parser
      .add_option("--host-memory", arguments.host_memory,
                  "Host memory it offers, such as 64GiB, and that its workers may use together; none: none is offered. "
                  "Default: the machine's, or that of the control group it runs in")
      ->type_name("BYTES|none");
  parser
      .add_option("--memory-threshold", arguments.memory_threshold,
                  "The part of the machine's memory in use above which it ends the worker that uses most beyond what "
                  "it asked for; 0 or 1: never. Default: 0.95")
      ->type_name("F");
  parser
      .add_option("--accelerator-root", node.accelerator_root,
                  "Where the device files of accelerators other than GPUs are looked for (neuron_cores); / when left "
                  "out")
      ->type_name("DIR");
}

/// Where the node and its workers listen, and which files they keep.
void add_places(CLI::App& parser, DaemonArguments& arguments) {
  auto& node = arguments.node;
  parser
      .add_option("--host", node.listening.host,
                  "The address that clients reach this node and its workers by. Default: the one from which this "
                  "machine reaches the broker")
      ->type_name("ADDRESS");
  parser
      .add_option("--bind", node.listening.bind,
                  "The address that the node and its workers listen at, where --host is none of this machine, such as "
                  "0.0.0.0 in a container. Default: that of --host")
      ->type_name("ADDRESS");
  parser
      .add_option(
          "--ports", arguments.ports,
          "The ports that they listen at: one for the node, two for each worker. A container has to publish them "
          "by the same numbers. Default: any that are free")
      ->type_name("FIRST-LAST");
  parser
      .add_option(
          "--logs", node.logs,
          "Folder that keeps what workers print, of this node alone. Default: one in the user's own state folder")
      ->type_name("DIR");
  parser
      .add_option("--ready-file", arguments.ready_file,
                  "File that is there while the broker has this node, and not while it cannot be reached: for probes. "
                  "Default: none")
      ->type_name("FILE");
}

/// What the node's workers run, and how.
void add_work(CLI::App& parser, DaemonArguments& arguments) {
  auto& node = arguments.node;
  parser
      .add_option(
          "--program", node.programs,
          "Program that workers run: yours, with your tasks and actors; may be repeated, each type then runs in "
          "the first program that has it. Default: gpuactors itself")
      ->type_name("FILE")
      ->allow_extra_args(false);
  parser
      .add_option("--plugin", node.plugins,
                  "A shared library with tasks and actors, which workers load beside those of their program; may be "
                  "repeated")
      ->type_name("LIB")
      ->allow_extra_args(false);
  add_seconds(
      parser, "--stop-grace", node.stop_grace,
      "How long running work has after SIGTERM or Ctrl-C: actors with restarts move to other nodes, all else may "
      "finish. Default: 0, it ends at once")
      ->check(CLI::Range(0.0, 86'400.0));
  parser.add_flag("--no-jit", arguments.no_jit,
                  "Compile no kernels from source, neither those of tasks (gpuactors.source_kernel) nor of actors");
  parser.add_flag("--no-device-watch", arguments.no_watch,
                  "Keep GPUs in use whatever faults they report (XID and ECC events). Default: one with a fault of its "
                  "own gets nothing new until the node is started again");
  parser.add_flag(
      "--no-mps", arguments.no_mps,
      "Set no variables of CUDA MPS. Default: where MPS runs, processes of --isolation process get those that "
      "limit them to their part of a GPU");
}

Result<void> read_memory(DaemonArguments& arguments) {
  auto& node = arguments.node;
  if (arguments.host_memory) {
    GPUACTORS_LET(bytes,
                  *arguments.host_memory == "none" ? Result<std::uint64_t>{0} : parse_bytes(*arguments.host_memory));
    GPUACTORS_TRY(check_host_memory("--host-memory", bytes));
    node.host_memory_bytes = bytes;
  }
  if (arguments.memory_threshold) {
    GPUACTORS_LET(threshold, parse_number("--memory-threshold", *arguments.memory_threshold));
    if (!(threshold >= 0 && threshold <= 1))
      return fail(Errc::invalid_argument,
                  fmt::format("--memory-threshold is {}: a part from 0 to 1 is expected, such as 0.95; 0 and 1 turn it "
                              "off",
                              *arguments.memory_threshold));
    node.memory_threshold = threshold;
  }
  return {};
}

} // namespace

void add_security_options(CLI::App& parser, DaemonArguments& arguments) {
  parser
      .add_option(
          "--certs", arguments.certificates,
          "Folder with this machine's certificates, which a broker on loopback fills when it is empty. Default: "
          "GPUACTORS_CERTS, else the user's own")
      ->type_name("DIR");
  parser.add_flag(
      "--insecure", arguments.insecure,
      "Plaintext, without certificates, also where GPUACTORS_CERTS is set: only where nobody else can reach "
      "the ports");
  add_seconds(parser, "--heartbeat", arguments.heartbeat,
              "How often it shows that it is alive; the same in all processes of a cluster. Default: 1");
  add_seconds(parser, "--link-timeout", arguments.link_timeout,
              "How long others may be silent before they count as dead; the same everywhere. Default: 5");
}

void add_broker_options(CLI::App& parser, DaemonArguments& arguments) {
  parser
      .add_option("--listen", arguments.broker.listen,
                  "Where clients and nodes connect to; port 0: any that is free. Default: 127.0.0.1:7711")
      ->type_name("HOST:PORT");
  parser
      .add_option(
          "--store", arguments.broker.store,
          "File that keeps actors with a name or restarts and detached ones, placement groups, drained nodes and "
          "quotas over restarts of the broker. Default: none, a broker that starts again knows what nodes and clients "
          "tell it")
      ->type_name("FILE");
  parser
      .add_option("--quota", arguments.quotas,
                  "The devices that all leases of a client's name may hold together, such as alice=2.5; *=1: of each "
                  "client without a quota of its own; may be repeated. It replaces what the store has for the name. "
                  "gpuactors quotas changes it while the broker runs")
      ->type_name("OWNER=F")
      ->allow_extra_args(false);
  add_seconds(
      parser, "--settle", arguments.broker.settle,
      "How long it waits, when it starts, for nodes and clients of the broker before it; what has not come back "
      "then has ended. Default: 5")
      ->check(CLI::Range(0.0, 3'600.0));
}

void add_node_options(CLI::App& parser, DaemonArguments& arguments) {
  add_offers(parser, arguments);
  add_places(parser, arguments);
  add_work(parser, arguments);
}

Result<void> read_node(DaemonArguments& arguments) {
  auto& node = arguments.node;
  GPUACTORS_TRY(check_programs_and_plugins(node.programs, node.plugins));
  node.devices = fmt::format("{}", fmt::join(arguments.devices, " "));
  node.runtime_source = !arguments.no_jit;
  node.watch_devices = !arguments.no_watch;
  node.mps = !arguments.no_mps;
  GPUACTORS_TRY(parse_device_specs(node.devices));
  if (arguments.ports) {
    GPUACTORS_LET(ports, parse_ports(*arguments.ports));
    node.listening.ports = ports;
  }
  GPUACTORS_LET(labels, parse_pairs("--label", arguments.labels));
  node.labels = std::move(labels);
  GPUACTORS_LET(resources, parse_pairs("--resource", arguments.resources));
  for (const auto& [name, text] : resources) {
    GPUACTORS_TRY(check_not_host_memory(name, "--host-memory"));
    GPUACTORS_LET(amount, parse_number("--resource " + name, text));
    node.resources[name] = amount;
  }
  if (arguments.cpus) {
    GPUACTORS_LET(cpus, parse_number("--cpus", *arguments.cpus));
    if (!(cpus >= 0))
      return fail(Errc::invalid_argument, fmt::format("--cpus is {}: 0 or more is expected", *arguments.cpus));
    node.cpus = cpus;
  }
  return read_memory(arguments);
}

Result<void> read_broker(DaemonArguments& arguments) {
  GPUACTORS_LET(quotas, parse_quotas("--quota", arguments.quotas));
  arguments.broker.quotas = std::move(quotas);
  if (arguments.votes) {
    GPUACTORS_LET(votes, parse_integer("--votes", *arguments.votes, 1, std::numeric_limits<std::int32_t>::max()));
    arguments.broker.standby_votes = static_cast<std::size_t>(votes);
  }
  if (arguments.insecure && !arguments.broker.quotas.empty())
    std::cerr << "warning: --quota bounds nobody with --insecure: owners are the names in clients' certificates\n";
  return {};
}

} // namespace gpuactors::cli
