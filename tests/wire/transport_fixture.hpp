// Servers and clients of bulk data for tests: in this process, and in one that can be stopped and killed.
#pragma once

#include "certificate_fixture.hpp"

#include <gpuactors/wire/transport.hpp>

#include <support/eventually.hpp>

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

namespace gpuactors::test {

inline constexpr std::size_t mib = 1U << 20;

/// The ways from one process to another.
enum class Way { local, tcp, tls };

inline constexpr Way all_ways[] = {Way::local, Way::tcp, Way::tls};

[[nodiscard]] std::string name_of(Way way);

/// The message of a result that has to be an error of this code.
std::string why_not(const Result<SharedRegion>& result, Errc code);

/// Open descriptors of this process.
[[nodiscard]] std::size_t open_descriptors();

struct TransportFixture {
  TemporaryFolder folder;
  std::shared_ptr<RegionPool> pool = RegionPool::create();

  /// An authority of this name, made on first use.
  CertificateFiles certificates(const std::string& authority = "certs");

  std::unique_ptr<BulkServer> server(Way way, BulkTimes times = {});
  std::unique_ptr<BulkClient> client(Way way, BulkTimes times = {});

  /// A region whose byte i is `seed` + i / 4096.
  SharedRegion filled(std::size_t bytes, unsigned seed = 1);
};

/// Whether this is what `filled` made.
[[nodiscard]] bool is_filled(const SharedRegion& region, std::size_t bytes, unsigned seed = 1);

/// Another process, see transport_peer.cpp. It ends with this object.
class Peer {
public:
  /// Serves a region under the id 1.
  Peer(Way way, const std::string& mode, std::size_t bytes, const CertificateFiles* files = nullptr);

  /// Has fetched the region with the id 1.
  Peer(const BulkAddress& address, std::size_t bytes);

  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();

  [[nodiscard]] const BulkAddress& address() const {
    return address_;
  }

  /// Its next line.
  std::string line();

  /// SIGSTOP, SIGCONT and SIGKILL; returns when it has stopped or ended.
  void stop();
  void go_on();
  void kill();

private:
  void start(std::vector<std::string> words);

  pid_t pid_ = -1;
  int input_ = -1;
  std::FILE* output_ = nullptr;
  BulkAddress address_;
};

} // namespace gpuactors::test
