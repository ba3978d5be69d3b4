// gpuactors-serve-bench: what serving costs beside the bare network, what batches gain, and whether deadlines are kept.
#include "open_loop.hpp"

#include <gpuactors/device/discovery.hpp>

#include <apps/nn/checkpoint.hpp>
#include <apps/nn/network.hpp>
#include <apps/serve/models/model_table.hpp>
#include <apps/serve/models/network_description.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace serve {

namespace {

using gpuactors::Clock;
using gpuactors::Result;

/// What is measured, and how long.
struct BenchOptions {
  std::vector<std::int64_t> sizes{64, 128, 10};
  std::vector<std::int64_t> large_sizes{784, 1024, 1024, 10};
  std::size_t clients = 64;
  double seconds = 2;
  double deadline_ms = 50;
  std::string devices;
};

/// A file that goes with the object.
class BenchFile {
public:
  BenchFile() : folder_(std::filesystem::temp_directory_path() / fmt::format("gpuactors-serve-bench-{}", ::getpid())) {
    std::filesystem::create_directories(folder_);
  }

  BenchFile(const BenchFile&) = delete;
  BenchFile& operator=(const BenchFile&) = delete;

  ~BenchFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  [[nodiscard]] std::filesystem::path path() const {
    return folder_ / "network.safetensors";
  }

private:
  std::filesystem::path folder_;
};

/// A share of the first device, for the bare network.
Result<std::unique_ptr<gpuactors::Context>> open_device(const std::string& devices) {
  GPUACTORS_LET(specs, gpuactors::parse_device_specs(devices.empty() ? "host:1" : devices));
  GPUACTORS_LET(made, gpuactors::make_devices(specs, gpuactors::discovery_options("bench")));
  gpuactors::ContextOptions options;
  GPUACTORS_LET(share, gpuactors::Share::from_double(0.5, "gpus"));
  options.share = share;
  return gpuactors::Context::open(made.front(), options);
}

InferRequest request_of(std::int64_t inputs) {
  InferRequest request;
  request.model = "bench";
  request.inputs.push_back({network_input,
                            DataType::fp32,
                            {1, inputs},
                            Bytes::of(std::vector<float>(static_cast<std::size_t>(inputs), 0.5F))});
  return request;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Microseconds of one thing, the median of what fits into a time.
template <class F>
Result<double> measure(double seconds, F run) {
  std::vector<double> times;
  const auto until = Clock::now() + gpuactors::from_seconds(seconds);
  while (Clock::now() < until) {
    const auto start = Clock::now();
    GPUACTORS_TRY(run());
    times.push_back(std::chrono::duration<double, std::micro>{Clock::now() - start}.count());
  }
  return median(std::move(times));
}

/// One row up, through the network, and down, without any server.
Result<double> bare_microseconds(const BenchOptions& options, const std::string& file) {
  GPUACTORS_LET(context, open_device(options.devices));
  auto& stream = context->stream();
  GPUACTORS_LET(network, nn::load_network(stream, file, 1));
  std::vector<float> in(static_cast<std::size_t>(network.spec().inputs()), 0.5F);
  std::vector<float> out(static_cast<std::size_t>(network.spec().outputs()));
  GPUACTORS_LET(x, stream.allocate(in.size() * sizeof(float)));
  GPUACTORS_LET(y, stream.allocate(out.size() * sizeof(float)));
  return measure(options.seconds, [&]() -> Result<void> {
    GPUACTORS_TRY(stream.upload(x.data(), in.data(), in.size() * sizeof(float)));
    GPUACTORS_TRY(network.forward(1, x.data(), y.data()));
    GPUACTORS_TRY(stream.download(out.data(), y.data(), out.size() * sizeof(float)));
    return stream.synchronize();
  });
}

Result<void> save(const std::string& file, const std::vector<std::int64_t>& sizes) {
  GPUACTORS_LET(context, open_device("host:1"));
  nn::NetworkSpec spec;
  spec.sizes = sizes;
  GPUACTORS_LET(network, nn::Network::make(context->stream(), spec, 1));
  return nn::save_network(file, network);
}

/// Clients that ask again as soon as they are answered, without threads of their own.
class Loop {
public:
  Loop(Service& service, std::int64_t inputs) : service_(service), request_(request_of(inputs)) {
    // nop
  }

  /// @returns answers a second.
  Result<double> run(std::size_t clients, double seconds) {
    for (std::size_t i = 0; i < clients; ++i)
      ask();
    const auto start = Clock::now();
    const auto before = answered_.load();
    std::this_thread::sleep_for(std::chrono::duration<double>{seconds});
    const auto count = static_cast<double>(answered_.load() - before);
    const auto took = gpuactors::to_seconds(Clock::now() - start);
    stop_ = true;
    for (auto left = clients_.load(); left > 0; left = clients_.load())
      clients_.wait(left);
    if (failed_ > 0)
      return gpuactors::fail(gpuactors::Errc::task_failed, fmt::format("{} requests failed", failed_.load()));
    return count / took;
  }

private:
  void ask() {
    ++clients_;
    service_.infer(request_, [this](const Result<InferReply>& reply) {
      failed_ += reply ? 0 : 1;
      ++answered_;
      if (!stop_)
        ask();
      --clients_;
      clients_.notify_all();
    });
  }

  Service& service_;
  const InferRequest request_;
  std::atomic<std::uint64_t> answered_{0};
  std::atomic<std::uint64_t> failed_{0};
  std::atomic<std::size_t> clients_{0};
  std::atomic<bool> stop_{false};
};

/// A server with one model of the file.
template <class F>
auto with_server(const BenchOptions& options, const std::string& file, const std::string& keys, F run)
    -> decltype(run(std::declval<Service&>())) {
  gpuactors::EmbedOptions embed;
  embed.devices = options.devices;
  GPUACTORS_LET(cluster, gpuactors::Cluster::embed(std::move(embed)));
  ModelTable table{cluster, {}};
  GPUACTORS_LET(config, parse_model(fmt::format("bench={},gpus=0.5{}", file, keys), {}));
  GPUACTORS_TRY(table.add(config));
  GPUACTORS_TRY(table.load("bench", {}));
  return run(table);
}

Result<void> measure_overhead(const BenchOptions& options, const BenchFile& file) {
  GPUACTORS_TRY(save(file.path(), options.sizes));
  GPUACTORS_LET(bare, bare_microseconds(options, file.path()));
  GPUACTORS_LET(served, with_server(options, file.path(), "", [&](Service& service) {
                  const auto request = request_of(options.sizes.front());
                  return measure(options.seconds, [&]() -> Result<void> {
                    const auto promise = std::make_shared<gpuactors::Promise<InferReply>>();
                    auto future = promise->future();
                    service.infer(request, [promise](Result<InferReply> reply) { promise->set(std::move(reply)); });
                    GPUACTORS_TRY(future.get());
                    return {};
                  });
                }));
  fmt::print("one client, network {}\n  bare network    {:8.1f} us\n  through server  {:8.1f} us\n  overhead        "
             "{:8.1f} us\n",
             fmt::join(options.sizes, " -> "), bare, served, served - bare);
  return {};
}

/// Who is refused asks again at once, without end.
std::string room_for(const BenchOptions& options) {
  return fmt::format(",max-queue={}", std::max<std::size_t>(options.clients, 1'024));
}

Result<void> measure_batching(const BenchOptions& options, const BenchFile& file) {
  GPUACTORS_TRY(save(file.path(), options.large_sizes));
  const auto rate = [&](const std::string& keys) {
    return with_server(options, file.path(), keys + room_for(options), [&](Service& service) {
      return Loop{service, options.large_sizes.front()}.run(options.clients, options.seconds);
    });
  };
  GPUACTORS_LET(single, rate(",max-batch=1"));
  GPUACTORS_LET(batched, rate(fmt::format(",max-batch={}", options.clients)));
  fmt::print("{} clients, network {}\n  max-batch 1     {:8.0f} requests/s\n  max-batch {:<5} {:8.0f} requests/s\n  "
             "ratio           {:8.1f}\n",
             options.clients, fmt::join(options.large_sizes, " -> "), single, options.clients, batched,
             batched / single);
  return {};
}

/// Whether p99 stays under the deadline at 0.8 of what was measured as capacity.
Result<void> measure_deadline(const BenchOptions& options, const BenchFile& file) {
  constexpr double load = 0.8;
  GPUACTORS_TRY(save(file.path(), options.large_sizes));
  const auto keys = fmt::format(",max-batch={}{}", options.clients, room_for(options));
  GPUACTORS_LET(capacity, with_server(options, file.path(), keys, [&](Service& service) {
                  return Loop{service, options.large_sizes.front()}.run(options.clients, options.seconds);
                }));
  GPUACTORS_LET(result, with_server(options, file.path(), keys, [&](Service& service) -> Result<OpenLoopResult> {
                  auto request = request_of(options.large_sizes.front());
                  request.timeout = std::chrono::duration_cast<gpuactors::Duration>(
                      std::chrono::duration<double, std::milli>{options.deadline_ms});
                  return run_open_loop(service, request, load * capacity, options.seconds);
                }));
  fmt::print(
      "{} of capacity, deadline {} ms, network {}\n  capacity        {:8.0f} requests/s\n  offered         {:8.0f} "
      "requests/s\n  p50             {:8.1f} ms\n  p99             {:8.1f} ms, {} (< {} ms)\n  refused, late   {} and "
      "{} of {}\n",
      load, options.deadline_ms, fmt::join(options.large_sizes, " -> "), capacity, load * capacity, result.p50,
      result.p99, result.p99 < options.deadline_ms ? "holds" : "MISSED", options.deadline_ms, result.refused,
      result.failed, result.sent);
  return {};
}

} // namespace

} // namespace serve

int main(int argc, char** argv) {
  CLI::App program{"Measures what serving costs beside the bare network with one client, and what batches gain with "
                   "many,\nand whether deadlines are kept at 0.8 of capacity; in one process, without HTTP or gRPC."};
  serve::BenchOptions options;
  program.add_option("--sizes", options.sizes, "Inputs, hidden layers and outputs of the network of one client")
      ->delimiter(',');
  program.add_option("--large-sizes", options.large_sizes, "Those of the network of many clients")->delimiter(',');
  program.add_option("--clients", options.clients, "How many clients are many")->check(CLI::Range(1, 4096));
  program.add_option("--seconds", options.seconds, "How long each number is measured")->check(CLI::Range(0.01, 600.0));
  program.add_option("--deadline-ms", options.deadline_ms, "The timeout of requests at 0.8 of capacity")
      ->check(CLI::Range(0.1, 60'000.0));
  program.add_option("--devices", options.devices, "Device SPEC, such as host:1 or cuda");
  CLI11_PARSE(program, argc, argv);
  const serve::BenchFile file;
  for (const auto measure : {serve::measure_overhead, serve::measure_batching, serve::measure_deadline})
    if (const auto done = measure(options, file); !done) {
      fmt::print(stderr, "gpuactors-serve-bench: {}\n", done.error().message());
      return EXIT_FAILURE;
    }
  return EXIT_SUCCESS;
}
