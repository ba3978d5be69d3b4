// The options that choose a cluster, the same in all programs: --broker and what belongs to it, or --devices.
#pragma once

#include <gpuactors/cluster/open_options.hpp>

#include <CLI/CLI.hpp>

#include <string>

namespace gpuactors::cli {

/// How an option says what it is; the texts of a program may fit it better than the common ones.
struct ConnectionTexts {
  std::string group = "Options";
  std::string broker = "Broker of a running cluster. Default: GPUACTORS_BROKER, else a cluster is embedded";
  std::string reconnect_grace = "How long the broker keeps what the program has running when its connection is lost, "
                                "so that it may come back to it. Default: 0, it ends at once";
};

/// Adds --broker, --certs, --insecure, --heartbeat, --link-timeout and --reconnect-grace. `options` must outlive the
/// parsing, and have what the environment sets (`OpenOptions::from_environment`), which the texts name as defaults;
/// `options.check()` says afterwards what is wrong with the values.
void add_connection(CLI::App& parser, ConnectOptions& options, const ConnectionTexts& texts = {});

/// Adds --devices, which may be repeated.
void add_embedding(CLI::App& parser, EmbedOptions& options, const std::string& group = "Options");

/// Adds --heartbeat or --link-timeout to a parser: an option of seconds. `duration` must outlive the parsing.
CLI::Option* add_seconds(CLI::App& parser, const std::string& name, Duration& duration, const std::string& text);

} // namespace gpuactors::cli
