// gpuactors broker, node and up: run the processes of a cluster.
#include "command.hpp"
#include "input.hpp"
#include "ready_file.hpp"

#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/base/units.hpp>
#include <gpuactors/cluster/daemon.hpp>
#include <gpuactors/device/discovery.hpp>

#include <apps/cli/cluster_options.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>

namespace gpuactors::cli {

namespace {

/// The arguments as they were typed.
struct DaemonArguments {
  BrokerDaemon broker;
  NodeDaemon node;
  std::string certificates;
  bool insecure = false;
  Duration heartbeat = limits::heartbeat;
  Duration link_timeout = limits::link_timeout;
  std::vector<std::string> quotas;
  std::vector<std::string> devices;
  std::vector<std::string> resources;
  std::vector<std::string> labels;
  std::optional<std::string> cpus;
  std::optional<std::string> host_memory;
  std::optional<std::string> ports;
  std::string ready_file;
  std::optional<std::string> memory_threshold;
  bool no_jit = false;
  bool no_watch = false;
  bool no_mps = false;
};

void add_security_options(CLI::App& parser, DaemonArguments& arguments) {
  parser
      .add_option("--certs", arguments.certificates,
                  "Folder with this machine's certificates. Default: the user's own, which a broker on loopback fills "
                  "when it is empty")
      ->type_name("DIR");
  parser.add_flag("--insecure", arguments.insecure,
                  "Plaintext, without certificates: only where nobody else can reach the ports");
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
      .add_option("--store", arguments.broker.store,
                  "File that keeps named and detached actors, placement groups, drained nodes and quotas over restarts "
                  "of the broker. Default: none, a broker that starts again knows what nodes and clients tell it")
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

Result<void> read_node(DaemonArguments& arguments) {
  auto& node = arguments.node;
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
  if (arguments.insecure && !arguments.broker.quotas.empty())
    std::cerr << "warning: --quota bounds nobody with --insecure: owners are the names in clients' certificates\n";
  return {};
}

/// Runs a node, and puts the file of --ready-file there while it is registered.
Result<void> with_ready_file(DaemonArguments& arguments, const std::function<Result<void>()>& run) {
  if (arguments.ready_file.empty())
    return run();
  GPUACTORS_LET(file, ReadyFile::make("--ready-file", arguments.ready_file));
  arguments.node.registered = [file] { file->set(true); };
  arguments.node.unregistered = [file] { file->set(false); };
  auto ended = run();
  // The file's last owner is this function.
  arguments.node.registered = [] {};
  arguments.node.unregistered = [] {};
  return ended;
}

/// Returns the options of a daemon. It writes lines for the operator to standard error, with the time, and the line
/// that says where it listens to standard output.
DaemonOptions options_of(const DaemonArguments& arguments, std::string ready) {
  DaemonOptions options;
  options.certificates = arguments.certificates;
  options.insecure = arguments.insecure;
  options.heartbeat = arguments.heartbeat;
  options.link_timeout = arguments.link_timeout;
  // The daemon calls this on one thread, which waits as long as nobody reads standard error. It must hold no lock
  // meanwhile that others need: not that of the C library's stream either, which a process flushes at its end.
  options.notice = [](std::string_view line) {
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    const auto text = fmt::format("{:%Y-%m-%dT%H:%M:%SZ} {}\n", now, line);
    for (std::string_view rest = text; !rest.empty();) {
      const auto written = ::write(STDERR_FILENO, rest.data(), rest.size());
      if (written < 0 && errno != EINTR)
        return; // its reader has gone
      rest.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(0, written)));
    }
  };
  options.service = ServiceManager::from_environment();
  options.ready = [ready = std::move(ready)](std::string_view where) {
    std::cout << ready << ' ' << where << std::endl;
  };
  return options;
}

} // namespace

Command add_broker(CLI::App& program) {
  auto arguments = std::make_shared<DaemonArguments>();
  auto* parser = program.add_subcommand("broker", "Run the broker of a cluster: it places tasks and actors on nodes");
  add_broker_options(*parser, *arguments);
  parser
      ->add_option("--standby-of", arguments->broker.standby_of,
                   "Stand by for the broker there: keep a copy of its state in --store, and take over when it does not "
                   "answer any more and more than half of its nodes have asked here. Nodes and clients need both "
                   "addresses: --broker A,B")
      ->type_name("HOST:PORT");
  parser
      ->add_option("--advertise", arguments->broker.advertise,
                   "The address that nodes and the other broker of a pair know this one by, where it is not that of "
                   "--listen: behind NAT, or a container's bridge. Default: that of --listen")
      ->type_name("HOST:PORT");
  parser
      ->add_option(
          "--votes", arguments->broker.standby_votes,
          "With --standby-of: so many nodes have to have asked instead, such as 1 of a cluster of two machines. "
          "A broker that is only cut off then goes on with the nodes that it reaches. Default: more than half")
      ->type_name("N");
  parser
      ->add_flag("--no-standby", arguments->broker.forget_standby,
                 "Forget the broker that stood by for this one, which is not to come back: it is missed no more")
      ->excludes("--standby-of");
  add_security_options(*parser, *arguments);
  parser->footer(
      "It runs until Ctrl-C. When it is started again, nodes and clients come back by themselves; running "
      "actors never stop.\n\n"
      "Examples:\n"
      "  gpuactors broker                                 on this machine\n"
      "  gpuactors broker --listen 0.0.0.0:7711 --certs /etc/gpuactors\n"
      "  gpuactors broker --store /var/lib/gpuactors/store --quota alice=4 --quota '*=1'\n"
      "  gpuactors broker --listen 10.0.0.2:7711 --store /var/lib/gpuactors/store --standby-of 10.0.0.1:7711");
  return {parser, [arguments]() -> Result<void> {
            GPUACTORS_TRY(read_broker(*arguments));
            arguments->broker.stands_by = [](std::string_view where) {
              std::cout << "broker stands by at " << where << std::endl;
            };
            return run_broker(arguments->broker, options_of(*arguments, "broker listens at"));
          }};
}

Command add_node(CLI::App& program) {
  auto arguments = std::make_shared<DaemonArguments>();
  auto* parser = program.add_subcommand("node", "Run a node of a cluster: it offers this machine's devices");
  parser
      ->add_option("--broker", arguments->node.broker,
                   "Where the broker listens; with commas between, also those that stand by for it")
      ->type_name("HOST:PORT,...")
      ->required()
      ->envname("GPUACTORS_BROKER");
  add_node_options(*parser, *arguments);
  add_security_options(*parser, *arguments);
  parser->footer("Tasks and actors run in worker processes below it: one for each device, one of its own for what "
                 "asks for several devices or for --isolation process. On SIGUSR1 the node starts its programs and "
                 "plugins anew: what runs goes on in the old processes.\n\n"
                 "Examples:\n"
                 "  gpuactors node --broker 127.0.0.1:7711\n"
                 "  gpuactors node --broker 10.0.0.1:7711 --name gpu-3 --label zone=a --program ./my_actors\n"
                 "  gpuactors node --broker 10.0.0.1:7711 --program ./vision --program ./speech\n"
                 "  gpuactors node --broker 10.0.0.1:7711 --plugin ./my_types.so\n"
                 "  gpuactors node --broker 10.0.0.1:7711 --host 10.0.0.3 --bind 0.0.0.0 --ports 7720-7799");
  return {parser, [arguments]() -> Result<void> {
            GPUACTORS_TRY(read_node(*arguments));
            return with_ready_file(*arguments, [&] {
              return run_node(arguments->node, options_of(*arguments, "node joins the broker at"));
            });
          }};
}

Command add_up(CLI::App& program) {
  auto arguments = std::make_shared<DaemonArguments>();
  auto* parser = program.add_subcommand("up", "Run a broker and one node on this machine");
  add_broker_options(*parser, *arguments);
  add_node_options(*parser, *arguments);
  add_security_options(*parser, *arguments);
  parser->footer("Then, in another terminal: gpuactors submit matmul --broker 127.0.0.1:7711 '{\"n\":1000}'\n\n"
                 "Examples:\n"
                 "  gpuactors up\n"
                 "  gpuactors up --devices host:2x1GiB --listen 127.0.0.1:0");
  return {parser, [arguments]() -> Result<void> {
            GPUACTORS_TRY(read_broker(*arguments));
            GPUACTORS_TRY(read_node(*arguments));
            return with_ready_file(*arguments, [&] {
              return run_up(arguments->broker, arguments->node, options_of(*arguments, "broker listens at"));
            });
          }};
}

} // namespace gpuactors::cli
