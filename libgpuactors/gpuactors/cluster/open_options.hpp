// OpenOptions: the cluster that the user of a program chooses, by options of its command line or by its environment.
#pragma once

#include <gpuactors/cluster/options.hpp>

namespace gpuactors {

/// The cluster that `Cluster::open` opens: one that runs, if `connect.broker` is set, otherwise an embedded one. For
/// programs that read their command line with a parser of their own:
///
///   auto chosen = gpuactors::OpenOptions::from_environment();
///   app.add_option("--broker", chosen.connect.broker);
///   app.add_option("--devices", chosen.embed.devices);
///   ...
///   GPUACTORS_LET(cluster, gpuactors::Cluster::open(std::move(chosen)));
struct OpenOptions {
  ConnectOptions connect{};
  EmbedOptions embed{};

  /// What the variable GPUACTORS_BROKER says, if it is set.
  [[nodiscard]] static OpenOptions from_environment();

  /// What the arguments say, and the environment where they say nothing: `--broker HOST:PORT`, `--certs DIR`,
  /// `--insecure`, and `--heartbeat`, `--link-timeout` and `--reconnect-grace` in seconds; `--devices SPEC`, any number
  /// of times, for an embedded cluster. Other arguments, and all behind `--`, are the program's own and are ignored.
  /// @returns `invalid_argument` for an option without a value, for a number that is none, and for what looks like one
  ///          of these options misspelled.
  [[nodiscard]] static Result<OpenOptions> from_arguments(int argc, const char* const* argv);

  /// Returns whether the cluster is one that runs elsewhere.
  [[nodiscard]] bool connects() const noexcept {
    return !connect.broker.empty();
  }

  /// Checks what can be checked without a cluster; `Cluster::open` does so too.
  /// @returns `invalid_argument` for a bad address, SPEC or time, and for options of an embedded cluster beside a
  ///          broker.
  [[nodiscard]] Result<void> check() const;
};

} // namespace gpuactors
