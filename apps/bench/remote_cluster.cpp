#include "remote_cluster.hpp"

#include "leftovers.hpp"

#include <gpuactors/cluster/daemon.hpp>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace gpuactors::bench {

// -- OwnFolder -----------------------------------------------------------------------------

OwnFolder::OwnFolder() : path_((std::filesystem::temp_directory_path() / "gpuactors-bench-XXXXXX").string()) {
  if (::mkdtemp(path_.data()) == nullptr)
    std::abort();
  keep_folder(path_);
}

OwnFolder::~OwnFolder() {
  remove_folder(path_);
}

// -- Remote ---------------------------------------------------------------------------------------

namespace {

std::vector<std::string> floor_arguments(const std::string& certificates, const RemoteOptions& options) {
  std::vector<std::string> result{"--floor-server", certificates};
  if (!options.floor_device.empty())
    result.push_back(options.floor_device);
  return result;
}

} // namespace

Remote::Remote(const RemoteOptions& options)
  : certificates_(options.tls ? home_.path() : std::string{}),
    up_({"--cluster", home_.path(), options.devices, options.tls ? "tls" : "plain", options.store ? "store" : "",
         std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(options.link_timeout).count())}),
    address_(up_.line()), cluster_(connect(options.link_timeout)), floor_(floor_arguments(certificates_, options)),
    floor_address_(floor_.line()) {
  // nop
}

double Remote::floor(int count, int flying) const {
  return ask_floor(count, flying, "");
}

double Remote::working_floor(int count) const {
  return ask_floor(count, 1, "works");
}

double Remote::ask_floor(int count, int flying, const std::string& what) const {
  Child client{{"--floor-client", floor_address_, certificates_, std::to_string(count), std::to_string(flying), what}};
  return std::stod(client.line());
}

Cluster Remote::connect(Duration link_timeout) const {
  ConnectOptions options;
  options.link_timeout = link_timeout;
  options.broker = address_;
  options.certificates = certificates_;
  options.insecure = certificates_.empty();
  return check(Cluster::connect(options));
}

int serve_cluster(const std::string& folder, const RemoteOptions& wanted) {
  BrokerDaemon broker;
  broker.listen = "127.0.0.1:0";
  if (wanted.store)
    broker.store = folder + "/store";
  NodeDaemon node;
  node.name = "local";
  node.devices = wanted.devices;
  node.logs = folder + "/logs";
  node.resources["custom"] = 100; // what Ray's rows with placement groups take
  DaemonOptions options;
  options.certificates = wanted.tls ? folder : std::string{};
  options.insecure = !wanted.tls;
  options.link_timeout = wanted.link_timeout;
  options.ready = [](std::string_view where) {
    fmt::print("{}\n", where);
    std::fflush(stdout);
  };
  if (auto done = run_up(broker, node, options); !done) {
    fmt::print(stderr, "gpuactors-bench: {}\n", to_string(done.error()));
    return 1;
  }
  return 0;
}

} // namespace gpuactors::bench
