#include "cluster_options.hpp"

#include <apps/cli/cluster_options.hpp>
#include <apps/cli/command_line.hpp>

#include <algorithm>
#include <iostream>

namespace gpuactors::cli {

void ClusterOptions::add_embedded(CLI::App& parser) {
  add_embedding(parser, options_.embed);
  parser
      .add_option("--accelerator-root", options_.embed.accelerator_root,
                  "Where the device files of accelerators other than GPUs are looked for (neuron_cores); / when left "
                  "out")
      ->type_name("DIR");
  parser
      .add_option("--record", options_.embed.record,
                  "Write what is asked of the scheduler to this file, a scenario for gpuactors plan")
      ->type_name("FILE");
}

void ClusterOptions::add_to(CLI::App& parser, Kinds kinds) {
  kinds_ = kinds;
  ConnectionTexts texts;
  texts.reconnect_grace = "How long the broker keeps what the command has running when its connection is lost, so that "
                          "it may come back to it. Default: 0, it ends at once";
  if (kinds == Kinds::any)
    add_embedded(parser);
  else
    texts.broker = "Broker of the cluster. Default: GPUACTORS_BROKER";
  add_connection(parser, options_.connect, texts);
}

Result<void> ClusterOptions::check() const {
  if (!connects() && kinds_ == Kinds::running)
    return fail(Errc::invalid_argument, "there is no cluster to ask: start one with gpuactors up, and name it by "
                                        "--broker HOST:PORT or GPUACTORS_BROKER");
  return options_.check();
}

Result<Cluster> ClusterOptions::open(Duration patience) const {
  GPUACTORS_TRY(check());
  auto options = options_;
  // A person at the terminal wants an answer soon, and a broker that is being restarted is back within a second.
  // A machine that does not answer at all takes as long as that, before the next address is tried.
  options.connect.timeout =
      patience * (1 + std::count(options.connect.broker.begin(), options.connect.broker.end(), ','));
  // The registry is empty, so that the nodes' types count even where a type of this program has the same name.
  options.connect.registry = std::make_shared<TypeRegistry>();
  return Cluster::open(std::move(options));
}

std::string ClusterOptions::as_arguments() const {
  return connection_arguments(options_.connect);
}

Result<Cluster> ClusterOptions::open_or_wait() const {
  auto cluster = open();
  if (cluster || cluster.error().code() != Errc::unavailable)
    return cluster;
  std::cerr << cluster.error().message() << "; it is tried again and again" << std::endl;
  return open(Duration::zero());
}

} // namespace gpuactors::cli
