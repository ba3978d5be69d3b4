// OpenOptions: the cluster that the user of a program chooses, by command line or environment.
#pragma once

#include <gpuactors/cluster/options.hpp>

namespace gpuactors {

/// Which cluster `Cluster::open` opens: a running one if `connect.broker` is set, otherwise an embedded one. For
/// programs that read their command line with a parser of their own:
///
///   auto chosen = gpuactors::OpenOptions::from_environment();
///   app.add_option("--broker", chosen.connect.broker);
///   app.add_option("--certs", chosen.connect.certificates);
///   app.add_option("--devices", chosen.embed.devices);
///   ...
///   GPUACTORS_LET(cluster, gpuactors::Cluster::open(std::move(chosen)));
struct OpenOptions {
  ConnectOptions connect{};
  EmbedOptions embed{};

  /// Returns the options that the environment sets: the broker, if the variable GPUACTORS_BROKER is set, and the folder
  /// of this machine's certificates, if GPUACTORS_CERTS is. With `connect.insecure`, the folder is not looked at.
  [[nodiscard]] static OpenOptions from_environment();

  /// Returns the options that the arguments set and, for those not given, the environment: `--broker HOST:PORT`,
  /// `--certs DIR`, `--insecure`, and `--heartbeat`, `--link-timeout` and `--reconnect-grace` in seconds; `--devices
  /// SPEC`, any number of times, for an embedded cluster. Other arguments, and all after `--`, are the program's own
  /// and are ignored.
  /// @returns `invalid_argument` for an option without a value, an invalid number, and an argument that looks like a
  ///          misspelling of one of these options.
  [[nodiscard]] static Result<OpenOptions> from_arguments(int argc, const char* const* argv);

  /// Returns whether the cluster is a running one, to connect to.
  [[nodiscard]] bool connects() const noexcept {
    return !connect.broker.empty();
  }

  /// Checks what can be checked without a cluster; `Cluster::open` does so too.
  /// @returns `invalid_argument` for a bad address, SPEC or time, and for options of an embedded cluster together with
  ///          a broker.
  [[nodiscard]] Result<void> check() const;
};

} // namespace gpuactors
