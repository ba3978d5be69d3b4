// Bulk data between processes: on one machine beside memcpy, over TCP beside one raw stream.
#include "huge_pages.hpp"
#include "remote_cluster.hpp"
#include "rows.hpp"
#include "streams.hpp"

#include <gpuactors/wire/transport.hpp>

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace gpuactors::bench {

namespace {

constexpr std::size_t tensor_bytes = 64U << 20;
constexpr std::size_t page = 4'096;

/// Bytes a nanosecond: GB/s.
template <class F>
double rate(const F& move) {
  const auto start = now_ns();
  move();
  return static_cast<double>(tensor_bytes) / (now_ns() - start);
}

/// One who has tensors and one who wants them.
struct Pair {
  std::shared_ptr<RegionPool> pool = RegionPool::create();
  std::unique_ptr<BulkServer> server;
  std::unique_ptr<BulkClient> client;
  std::uint64_t next_id = 1;

  Pair(const BulkServerOptions& options, const std::optional<CertificateFiles>& certificates) {
    server = check(BulkServer::start(options));
    BulkClientOptions wanted;
    wanted.certificates = certificates;
    client = check(BulkClient::create(wanted));
  }

  std::uint64_t add(SharedRegion region) {
    const auto id = next_id++;
    if (auto added = server->add(id, std::move(region)); !added)
      (void)check(Result<int>{fail(added.error())});
    return id;
  }

  [[nodiscard]] SharedRegion fetch(std::uint64_t id) const {
    return check(client->fetch(server->address(), id, tensor_bytes, never));
  }
};

/// Looks at every page, so that all of it is really there.
void touch(const SharedRegion& region) {
  unsigned sum = 0;
  for (std::size_t at = 0; at < region.size(); at += page)
    sum += std::to_integer<unsigned>(region.data()[at]);
  if (sum != region.size() / page) {
    fmt::print(stderr, "gpuactors-bench: the bytes that came are not those that were put\n");
    std::exit(1);
  }
}

/// The whole way of a tensor from one process to another: put (the one copy), fetch, a look at every page, and all of
/// it let go.
Row same_node(int repeat) {
  const std::vector<char> source(tensor_bytes, 1);
  const HugePages target{tensor_bytes};
  Pair pair{{}, {}};
  auto row = measure(
      "tensor_same_node_64MiB", "GB/s", repeat,
      [&] {
        return rate([&] {
          const auto id = pair.add(check(pair.pool->copy(source.data(), tensor_bytes, RegionReaders::machine)));
          touch(pair.fetch(id));
          pair.server->remove(id);
        });
      },
      [&] { return rate([&] { std::memcpy(target.data(), source.data(), tensor_bytes); }); });
  row.bound = 0.6;
  row.at_most = false;
  return row;
}

/// Memory that is new: what malloc gives for it may be of another row, freed and kept.
class NewPages {
public:
  NewPages() : data_(::mmap(nullptr, tensor_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) // NOLINT(*-int-to-ptr): that is what it is
      std::exit(1);
  }
  NewPages(const NewPages&) = delete;
  NewPages& operator=(const NewPages&) = delete;
  ~NewPages() {
    ::munmap(data_, tensor_bytes);
  }

  [[nodiscard]] char* data() const noexcept {
    return static_cast<char*>(data_);
  }

private:
  void* data_;
};

/// The same for the first tensors of a process, whose memory is new, beside memcpy into new memory.
Row same_node_first(int repeat) {
  const std::vector<char> source(tensor_bytes, 1);
  Pair pair{{}, {}};
  std::size_t next_byte = 0;
  auto row = measure(
      "tensor_same_node_first_64MiB", "GB/s", repeat,
      [&] {
        pair.pool->trim();
        return rate([&] {
          const auto id = pair.add(check(pair.pool->copy(source.data(), tensor_bytes, RegionReaders::machine)));
          touch(pair.fetch(id));
          pair.server->remove(id);
        });
      },
      [&] {
        return rate([&] {
          const NewPages copy;
          std::memcpy(copy.data(), source.data(), tensor_bytes);
          if (copy.data()[next_byte++ % tensor_bytes] != 1) // or the compiler would leave all of it out
            std::exit(1);
        });
      });
  row.bound = 0.6;
  row.at_most = false;
  return row;
}

/// A tensor that lies there already, over TCP from one node to another, here both by loopback.
Row stream(const std::string& name, int repeat, const std::optional<CertificateFiles>& certificates) {
  BulkServerOptions options;
  options.local = false;
  options.listening.host = "127.0.0.1";
  options.certificates = certificates;
  Pair pair{options, certificates};
  const std::vector<char> source(tensor_bytes, 1);
  const auto id = pair.add(check(pair.pool->copy(source.data(), tensor_bytes, RegionReaders::machine)));
  RawStream raw{tensor_bytes, certificates};
  auto row = measure(
      name, "GB/s", repeat, [&] { return rate([&] { (void)pair.fetch(id); }); },
      [&] { return rate([&] { raw.receive(); }); });
  row.bound = 0.8;
  row.at_most = false;
  return row;
}

Row stream_tls(int repeat) {
  const OwnFolder folder;
  return stream("tensor_stream_tls", repeat,
                check(CertificateFolder{std::filesystem::path{folder.path()} / "certs"}.init(1)));
}

} // namespace

std::vector<Benchmark> transport_benchmarks() {
  return {{"tensor_same_node_64MiB", same_node},
          {"tensor_same_node_first_64MiB", same_node_first},
          {"tensor_stream_plain", [](int repeat) { return stream("tensor_stream_plain", repeat, {}); }},
          {"tensor_stream_tls", stream_tls}};
}

} // namespace gpuactors::bench
