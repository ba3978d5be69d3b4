// gpuactors broker, node and up: run the processes of a cluster.
#include "command.hpp"
#include "daemon_options.hpp"
#include "ready_file.hpp"

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
          "--votes", arguments->votes,
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
