// The options of gpuactors broker, node and up.
#pragma once

#include <gpuactors/cluster/daemon.hpp>
#include <gpuactors/cluster/open_options.hpp>

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

namespace gpuactors::cli {

/// The arguments as they were typed.
struct DaemonArguments {
  BrokerDaemon broker;
  NodeDaemon node;
  std::string certificates = OpenOptions::from_environment().connect.certificates;
  bool insecure = false;
  Duration heartbeat = limits::heartbeat;
  Duration link_timeout = limits::link_timeout;
  std::vector<std::string> quotas;
  std::optional<std::string> votes;
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

// Each adds options to a subcommand; `arguments` must outlive the parsing.

/// Adds --listen, --store, --quota and --settle.
void add_broker_options(CLI::App& parser, DaemonArguments& arguments);

/// Adds all that is said of a node, but the broker that it joins.
void add_node_options(CLI::App& parser, DaemonArguments& arguments);

/// Adds --certs, --insecure and the times that all processes of a cluster share.
void add_security_options(CLI::App& parser, DaemonArguments& arguments);

/// Reads what was typed of the broker into `arguments.broker`. Warns on standard error of quotas that bound nobody.
/// @returns `invalid_argument`, naming the option and what is allowed.
Result<void> read_broker(DaemonArguments& arguments);

/// Reads what was typed of the node into `arguments.node`.
/// @returns `invalid_argument`, naming the option and what is allowed.
Result<void> read_node(DaemonArguments& arguments);

} // namespace gpuactors::cli
