#include "cluster_options.hpp"

#include <gpuactors/base/endpoint.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/device/discovery.hpp>

#include <fmt/format.h>

#include <cstdlib>

namespace gpuactors::cli {

namespace {

constexpr auto broker_variable = "GPUACTORS_BROKER";

} // namespace

void ClusterOptions::add_embedded(CLI::App& parser) {
  parser
      .add_option(
          "--devices", devices_,
          "Devices of the embedded node: cuda, cuda:GPU-uuid,..., cuda*N or host:COUNT[xMEMORY][@TYPE], such as "
          "host:4x1GiB@V100; may be repeated. Left out: CUDA if there is any, else host:1")
      ->type_name("SPEC")
      ->allow_extra_args(false);
  parser
      .add_option("--accelerator-root", accelerator_root_,
                  "Where the device files of accelerators other than GPUs are looked for (neuron_cores); / when left "
                  "out")
      ->type_name("DIR");
  parser
      .add_option("--record", record_,
                  "Write what is asked of the scheduler to this file, a scenario for gpuactors plan")
      ->type_name("FILE");
}

void ClusterOptions::add_to(CLI::App& parser, Kinds kinds) {
  kinds_ = kinds;
  if (kinds == Kinds::any)
    add_embedded(parser);
  parser
      .add_option("--broker", broker_,
                  kinds == Kinds::any
                      ? "Broker of a running cluster. Default: GPUACTORS_BROKER, else a cluster is embedded"
                      : "Broker of the cluster. Default: GPUACTORS_BROKER")
      ->type_name("HOST:PORT");
  parser.add_option("--certs", certificates_, "Folder with this machine's certificates. Default: the user's own")
      ->type_name("DIR");
  parser.add_flag("--insecure", insecure_, "Connect in plaintext, to a cluster that was started so");
  parser
      .add_option("--heartbeat", heartbeat_,
                  "How often it shows that it is alive, as the cluster was started with. Default: 1")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.05, 60.0));
  parser
      .add_option("--link-timeout", link_timeout_,
                  "How long the cluster may be silent before it counts as dead. Default: 5")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.2, 600.0));
  parser
      .add_option("--reconnect-grace", reconnect_grace_,
                  "How long the broker keeps what the command has running when its connection is lost, so that it may "
                  "come back to it. Default: 0, it ends at once")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, std::chrono::duration<double>{limits::reconnect_grace_most}.count()));
}

std::string ClusterOptions::broker() const {
  const auto* set = std::getenv(broker_variable);
  return broker_.empty() && set != nullptr ? set : broker_;
}

bool ClusterOptions::connects() const {
  return !broker().empty();
}

Result<void> ClusterOptions::check() const {
  if (connects()) {
    GPUACTORS_TRY(parse_endpoint(broker()));
    if (!devices_.empty() || !record_.empty())
      return fail(Errc::invalid_argument, "--devices and --record are for an embedded cluster: a running one, named by "
                                          "--broker or GPUACTORS_BROKER, has its own");
  } else if (kinds_ == Kinds::running) {
    return fail(Errc::invalid_argument, "there is no cluster to ask: start one with gpuactors up, and name it by "
                                        "--broker HOST:PORT or GPUACTORS_BROKER");
  }
  for (const auto& spec : devices_)
    if (spec.find_first_not_of(" \t\n") == std::string::npos)
      return fail(Errc::invalid_argument, "--devices is empty: cuda, cuda*4 or host:4x1GiB is expected, for example");
  GPUACTORS_TRY(parse_device_specs(fmt::format("{}", fmt::join(devices_, " "))));
  return {};
}

Result<Cluster> ClusterOptions::open(Duration patience) const {
  GPUACTORS_TRY(check());
  if (connects()) {
    ConnectOptions connection;
    connection.broker = broker();
    connection.certificates = certificates_;
    connection.insecure = insecure_;
    const auto seconds = [](double value) { return std::chrono::ceil<Duration>(std::chrono::duration<double>{value}); };
    connection.heartbeat = seconds(heartbeat_);
    connection.link_timeout = seconds(link_timeout_);
    connection.reconnect_grace = seconds(reconnect_grace_);
    // A person at the terminal wants an answer soon, and a broker that is being restarted is back within a second.
    connection.timeout = patience;
    // The registry is empty, so that the nodes' types count even where a type of this program has the same name.
    connection.registry = std::make_shared<TypeRegistry>();
    return Cluster::connect(connection);
  }
  EmbedOptions options;
  options.devices = fmt::format("{}", fmt::join(devices_, " "));
  options.record = record_;
  options.accelerator_root = accelerator_root_;
  return Cluster::embed(std::move(options));
}

} // namespace gpuactors::cli
