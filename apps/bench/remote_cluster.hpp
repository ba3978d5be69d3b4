// A cluster of processes to measure, a client of it in this process, and plain CAF between two processes beside it.
#pragma once

#include "child.hpp"
#include "harness.hpp"

#include <gpuactors/gpuactors.hpp>

#include <string>

namespace gpuactors::bench {

/// A folder of our own, gone with the object, or with the process (`leftovers.hpp`).
class OwnFolder {
public:
  OwnFolder();
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  ~OwnFolder();

  [[nodiscard]] const std::string& path() const noexcept {
    return path_;
  }

private:
  std::string path_;
};

/// What such a cluster has.
struct RemoteOptions {
  bool tls = false;
  /// SPEC of its node's devices.
  std::string devices = "host:1x1GiB";
  /// Whether the broker keeps what should run in a file.
  bool store = false;
  /// How long its processes wait for a sign of each other.
  Duration link_timeout = limits::link_timeout;
  /// SPEC of the GPU on which the server of plain CAF does what a short task does; empty: it has none.
  std::string floor_device{};
};

/// The cluster, the client and a server of plain CAF, all with TLS or all without.
class Remote {
public:
  explicit Remote(const RemoteOptions& options);

  [[nodiscard]] Cluster& cluster() noexcept {
    return cluster_;
  }

  /// The folder with its certificates; empty without TLS.
  [[nodiscard]] const std::string& certificates() const noexcept {
    return certificates_;
  }

  /// Microseconds a request of plain CAF.
  [[nodiscard]] double floor(int count, int flying) const;

  /// The same with the work of `RemoteOptions::floor_device`, one after the other.
  [[nodiscard]] double working_floor(int count) const;

private:
  [[nodiscard]] Cluster connect(Duration link_timeout) const;
  [[nodiscard]] double ask_floor(int count, int flying, const std::string& what) const;

  OwnFolder home_;
  std::string certificates_;
  Child up_;
  std::string address_;
  Cluster cluster_;
  Child floor_;
  std::string floor_address_;
};

/// What the process does that a `Remote` starts: a broker and a node whose workers are this program. All that they
/// write goes into `folder`, where the certificates are too.
int serve_cluster(const std::string& folder, const RemoteOptions& wanted);

} // namespace gpuactors::bench
